/// The ID of a channel: text that Apple gave when the channel was made, and that is sent back byte for byte. Apple says
/// that it is base64 and nothing about its length.
package struct ChannelID: Hashable, Sendable, CustomStringConvertible {
    /// The longest ID taken, in bytes.
    package static let maximumBytes = 200

    /// The ID as Apple gave it.
    package let text: String

    /// An ID that goes into a header field as it is: letters, digits and the other characters of base64, of either
    /// alphabet.
    package init(_ text: some StringProtocol) throws(ChannelIDError) {
        guard (1...Self.maximumBytes).contains(text.utf8.count) else { throw .badLength(bytes: text.utf8.count) }
        guard text.utf8.allSatisfy(Self.isOfBase64) else { throw .notBase64 }
        self.text = String(text)
    }

    package var description: String { text }

    private static func isOfBase64(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: byte == "+" || byte == "/" || byte == "=" || byte == "-" || byte == "_"
        }
    }
}

/// Why a text is not a channel ID.
package enum ChannelIDError: Error, Equatable, CustomStringConvertible {
    case badLength(bytes: Int)
    case notBase64

    package var description: String {
        switch self {
        case .badLength(let bytes):
            "the channel ID has \(bytes) bytes; it should be what Apple gave, 1 to \(ChannelID.maximumBytes) of base64"
        case .notBase64: "the channel ID has a character that is not of base64; it should be what Apple gave"
        }
    }
}

/// What APNs keeps of a channel's broadcasts for devices that it cannot reach: `message-storage-policy`
/// (Apple: "Sending channel management requests to APNs").
package enum ChannelPolicy: Int16, CaseIterable, Sendable {
    /// Nothing is kept, and more may be broadcast.
    case none = 0
    /// The latest message is kept, for eight hours at most.
    case latest = 1
}
