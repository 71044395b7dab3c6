import Cryptography
import FoundationEssentials

/// A message for a webhook, signed according to the Standard Webhooks specification 1.0.0.
package struct WebhookMessage: Sendable {
    /// The message's ID. It is the same whenever the message is sent again, and has no dot.
    package let id: String
    /// JSON.
    package let body: [UInt8]

    package init(id: String, body: [UInt8]) {
        precondition(!id.contains("."), "the dot ends the id in what is signed")
        self.id = id
        self.body = body
    }

    /// Returns the fields by which the receiver checks who wrote the message, and when.
    /// - Parameters:
    ///   - time: when it is sent, in seconds since 1970.
    ///   - secrets: each makes a signature. There are two while the receiver changes from one to the other.
    package func fields(at time: Int64, signedWith secrets: [WebhookSecret]) -> [(name: String, value: String)] {
        let signed = Array("\(id).\(time).".utf8) + body
        let signatures = secrets.map { "v1," + Data(HMAC.code(of: signed, key: $0.bytes)).base64EncodedString() }
        return [
            ("webhook-id", id), ("webhook-timestamp", "\(time)"),
            ("webhook-signature", signatures.joined(separator: " ")),
        ]
    }
}
