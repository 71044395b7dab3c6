import HTTP1
import Testing

@Suite struct `A message for a webhook` {
    /// The example from the libraries of the Standard Webhooks specification.
    @Test func `is signed as the specification's example`() throws {
        let secret = try #require(WebhookSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))
        let message = WebhookMessage(
            id: "msg_p5jXN8AQM9LWM0D4loKWxJek", body: Array(#"{"test": 2432232314}"#.utf8))
        let fields = message.fields(at: 1_614_265_330, signedWith: [secret])
        #expect(
            fields.map { "\($0.name): \($0.value)" } == [
                "webhook-id: msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp: 1614265330",
                "webhook-signature: v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
            ])
    }

    @Test func `has a signature for each secret`() throws {
        let secrets = [try WebhookSecret.random(), try WebhookSecret.random()]
        let message = WebhookMessage(id: "a", body: [])
        let both = message.fields(at: 1, signedWith: secrets)[2].value.split(separator: " ")
        #expect(both.count == 2 && both[0] != both[1])
        #expect(both[1] == message.fields(at: 1, signedWith: [secrets[1]])[2].value)
    }

    @Test func `is signed with a secret of 24 to 64 bytes, which is never shown by accident`() throws {
        let secret = try WebhookSecret.random()
        #expect(WebhookSecret(" \(secret.text)\n") == secret)
        #expect(!"\(secret)".contains("whsec") && !String(reflecting: secret).contains("\(secret.bytes[0]), "))
        for text in [
            "", "whsec_", "whsec_QUJD", String(secret.text.dropFirst(6)), secret.text + "!", "whsec_ \(secret.text)",
        ] {
            #expect(WebhookSecret(text) == nil, "\(text)")
        }
        #expect(WebhookSecret(bytes: Array(repeating: 1, count: 23)) == nil)
        #expect(WebhookSecret(bytes: Array(repeating: 1, count: 64)) != nil)
        #expect(WebhookSecret(bytes: Array(repeating: 1, count: 65)) == nil)
    }
}
