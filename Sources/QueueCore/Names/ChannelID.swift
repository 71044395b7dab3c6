/// The ID of a channel: a text that Apple assigned when the channel was created, and that is sent back byte for byte.
/// Apple documents that it is base64, but not its length.
package struct ChannelID: Hashable, Sendable, CustomStringConvertible {
    /// The maximum length of an accepted ID, in bytes.
    package static let maximumBytes = 200

    /// The ID as Apple assigned it.
    package let text: String

    /// Checks that an ID can go into a header field unchanged: it has only the characters of base64, in either
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

/// What APNs stores of a channel's broadcasts for devices that it cannot reach: `message-storage-policy` (Apple:
/// "Sending channel management requests to APNs").
package enum ChannelPolicy: Int16, CaseIterable, Sendable {
    /// APNs stores nothing, and more broadcasts are allowed.
    case none = 0
    /// APNs stores the latest message, for eight hours at most.
    case latest = 1
}
