import HTTP1
import PostgresStore
import Terminal
import Transport
import Workers

struct WebhookTestCommand: Command {
    static let name = "test"
    static let users = CommandUsers.ofWebhooks
    static let summary = "Sends a test message to a tenant's webhook, and shows the result."
    static let discussion = """
        The message is sent from this machine. It is signed like reports and has the type test. A worker may reach \
        other networks than this machine.

        The master key is read from PUSHQ_MASTER_KEY_FILE or PUSHQ_MASTER_KEY.
        """
    static let examples = ["webhook test acme", "webhook test acme --webhook-allow 10.20.0.0/16"]

    @Positional("The tenant.") var tenant: TenantName
    @Option("An internal network in which the receiver may be, as for 'pushq work'.", "CIDR")
    var webhookAllow: [AddressBlock]
    var database = DatabaseOptions()

    func run(_ console: Console) async throws {
        let name = tenant.text
        let masterKeys = try MasterKeySetting().keys(console.warn)
        let (tenantID, webhook) = try await database.session { store in try await store.presentWebhook(of: name) }
        let status: Int
        do {
            let address: WebAddress
            do { address = try WebAddress(parsing: webhook.url) } catch { throw WebhookProblem.url(error) }
            let secrets = try [webhook.sealed, webhook.formerSealed].compactMap(\.self).map { sealed in
                try WebhookSecret(sealed: sealed, ofTenant: tenantID, under: masterKeys)
            }
            status = try await post(to: address, at: webhook.now, signedWith: secrets)
            if let problem = WebhookProblem(status: status) { throw problem }
        } catch {
            throw Failure("the webhook of \(name) did not accept the test: \(error)")
        }
        console.show(
            "the webhook of \(name) accepted the test: it answered \(status)",
            json: ["tenant": .string(name), "url": .string(webhook.url), "status": .integer(status)])
    }

    private func post(to address: WebAddress, at time: Int64, signedWith secrets: [WebhookSecret]) async throws -> Int {
        let body: JSON = ["type": .string("test"), "data": ["tenant": .string(tenant.text)]]
        let message = WebhookMessage(id: "test_\(time)", body: Array(body.text.utf8))
        let rules = AddressRules(named: webhookAllow)
        let loop = EventLoop(name: "webhook test")
        defer { loop.shutDown() }
        return try await loop.run { _ in
            try await Client(rules: rules, loop: loop).post(
                message.body, to: address, fields: message.fields(at: time, signedWith: secrets),
                userAgent: "pushq/\(Version.current)")
        }
    }
}
