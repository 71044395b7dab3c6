import Cryptography
import FoundationEssentials

/// A message for a webhook, signed as the Standard Webhooks specification 1.0.0 says.
package struct WebhookMessage: Sendable {
    /// The same whenever the message is sent again; without a dot.
    package let id: String
    /// JSON.
    package let body: [UInt8]

    package init(id: String, body: [UInt8]) {
        precondition(!id.contains("."), "the dot ends the id in what is signed")
        self.id = id
        self.body = body
    }

    /// The fields that the receiver checks: who wrote it, and when.
    /// - Parameters:
    ///   - time: when it is sent, in seconds since 1970.
    ///   - secrets: a signature for each; two while the receiver changes from one to the other.
    package func fields(at time: Int64, signedWith secrets: [WebhookSecret]) -> [(name: String, value: String)] {
        let signed = Array("\(id).\(time).".utf8) + body
        let signatures = secrets.map { "v1," + Data(HMAC.code(of: signed, key: $0.bytes)).base64EncodedString() }
        return [
            ("webhook-id", id), ("webhook-timestamp", "\(time)"),
            ("webhook-signature", signatures.joined(separator: " ")),
        ]
    }
}
