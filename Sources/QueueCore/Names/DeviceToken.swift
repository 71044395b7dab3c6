/// A device token: opaque bytes that identify one app on one device in one environment.
///
/// Apple documents no length ("variable"). 32 bytes are usual; MDM tokens of 40 and Live Activity tokens of about 80
/// have been seen, and Apple once announced a maximum of 100.
package struct DeviceToken: Hashable, Sendable {
    /// The maximum length of an accepted token, in bytes.
    package static let maximumBytes = 100

    /// The token's bytes.
    package let bytes: [UInt8]

    /// Creates a token from its bytes, which must be 1 to 100.
    package init(bytes: [UInt8]) throws(DeviceTokenError) {
        guard !bytes.isEmpty else { throw .empty }
        guard bytes.count <= Self.maximumBytes else { throw .tooLong(bytes: bytes.count) }
        self.bytes = bytes
    }

    /// Reads a token in hexadecimal, in either case; skips the angle brackets and spaces of `NSData.description`.
    package init(hex text: some StringProtocol) throws(DeviceTokenError) {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(32)
        var high: UInt8?
        for (offset, character) in text.utf8.enumerated() {
            if character == " " || character == "<" || character == ">" { continue }
            guard let digit = Self.value(ofDigit: character) else { throw .notHex(at: offset + 1) }
            if let first = high {
                bytes.append(first << 4 | digit)
                high = nil
            } else {
                high = digit
            }
        }
        guard high == nil else { throw .oddLength(digits: bytes.count * 2 + 1) }
        try self.init(bytes: bytes)
    }

    /// The token in lower-case hexadecimal. For APNs' path and exports only: logs and errors use `redacted`.
    package var hex: String {
        String(decoding: bytes.flatMap { [Self.digits[Int($0 >> 4)], Self.digits[Int($0 & 15)]] }, as: UTF8.self)
    }

    /// The first four bytes in hexadecimal and the length: enough to find a token, too little to send to it.
    package var redacted: String { "\(hex.prefix(8))…(\(bytes.count) bytes)" }

    private static let digits = Array("0123456789abcdef".utf8)

    private static func value(ofDigit character: UInt8) -> UInt8? {
        switch character {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): character - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): character - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): character - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}

/// Why a token was refused. The text never contains the token.
package enum DeviceTokenError: Error, Equatable, CustomStringConvertible {
    case empty
    case oddLength(digits: Int)
    case notHex(at: Int)
    case tooLong(bytes: Int)

    package var description: String {
        switch self {
        case .empty: "the device token is empty; it should be hexadecimal, such as 64 digits"
        case .oddLength(let digits):
            "the device token has \(digits) hexadecimal digits; the number must be even, such as 64"
        case .notHex(let position): "the device token has a character that is not hexadecimal at position \(position)"
        case .tooLong(let bytes): "the device token has \(bytes) bytes; at most \(DeviceToken.maximumBytes) are taken"
        }
    }
}
