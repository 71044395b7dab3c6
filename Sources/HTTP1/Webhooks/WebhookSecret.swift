package import Cryptography
import FoundationEssentials

/// The secret that signs a webhook's messages, known to pushq and the receiver. The Standard Webhooks specification
/// 1.0.0 writes it as `whsec_` and base64 of 24 to 64 bytes.
package struct WebhookSecret: Sendable, Equatable, CustomStringConvertible, CustomReflectable {
    package static let prefix = "whsec_"
    package static let byteCounts = 24...64

    package let bytes: [UInt8]

    /// Returns a new random secret.
    package static func random() throws(CryptographyError) -> WebhookSecret {
        WebhookSecret(unchecked: try SecureRandom.bytes(32))
    }

    /// Reads the text of a secret; nil for anything else. Blanks and line ends around it are ignored.
    package init?(_ text: String) {
        let word = text.split(whereSeparator: \.isWhitespace)
        guard word.count == 1, word[0].hasPrefix(Self.prefix),
            let data = Data(base64Encoded: String(word[0].dropFirst(Self.prefix.count)))
        else { return nil }
        self.init(bytes: Array(data))
    }

    /// The secret of these bytes; nil if there are too few, or too many.
    package init?(bytes: [UInt8]) {
        guard Self.byteCounts.contains(bytes.count) else { return nil }
        self.init(unchecked: bytes)
    }

    private init(unchecked bytes: [UInt8]) {
        self.bytes = bytes
    }

    /// The text of the secret, as the receiver gets it.
    package var text: String { Self.prefix + Data(bytes).base64EncodedString() }

    /// Hides the secret, which must not get into a log or an error.
    package var description: String { "a webhook's secret" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}
