/// The `apns-id` of one recipient of one send. It is the same on every attempt, in whatever job.
///
/// It is a UUID of version 8 (RFC 9562 §5.8) made of two numbers, which can be read back from it: 60 bits of the *root*
/// (the campaign or send from which all retries descend) and 62 bits of the recipient's *key* (its device id, or its
/// index if one send may contain a device twice).
package struct APNsID: Hashable, Sendable, CustomStringConvertible {
    /// The campaign or send that the recipient belongs to; below 2^60.
    package let root: Int64
    /// The recipient's key within the root; below 2^62.
    package let key: Int64

    /// The length of the textual form in bytes: 32 hexadecimal digits and four hyphens.
    package static let textBytes = 36

    /// Creates an identifier from its two numbers, which must fit into 60 and 62 bits.
    package init(root: Int64, key: Int64) {
        precondition((0..<(1 << 60)).contains(root), "a root has 60 bits")
        precondition((0..<(1 << 62)).contains(key), "a recipient's key has 62 bits")
        self.root = root
        self.key = key
    }

    /// Reads the textual form in either case (APNs may answer in upper case); nil if it is not an identifier of pushq.
    package init?(_ text: some StringProtocol) {
        let digits = text.utf8.filter { $0 != UInt8(ascii: "-") }
        guard digits.count == 32, text.utf8.count == Self.textBytes,
            let high = UInt64(String(decoding: digits.prefix(16), as: UTF8.self), radix: 16),
            let low = UInt64(String(decoding: digits.suffix(16), as: UTF8.self), radix: 16),
            (high >> 12) & 0xF == 8, low >> 62 == 0b10
        else { return nil }
        self.init(root: Int64((high >> 16) << 12 | high & 0xFFF), key: Int64(low & ((1 << 62) - 1)))
    }

    /// The two halves of the UUID, including version and variant.
    package var halves: (high: UInt64, low: UInt64) {
        let root = UInt64(self.root)
        return ((root >> 12) << 16 | 0x8000 | root & 0xFFF, 1 << 63 | UInt64(key))
    }

    /// Writes the lower-case textual form over the 36 bytes of `text`.
    func write(into text: inout InlineArray<36, UInt8>) {
        let (high, low) = halves
        var shift: UInt64 = 64
        for position in 0..<Self.textBytes {
            if position == 8 || position == 13 || position == 18 || position == 23 {
                text[position] = UInt8(ascii: "-")
                continue
            }
            if shift == 0 { shift = 64 }
            shift -= 4
            let digit = UInt8(truncatingIfNeeded: (position < 19 ? high : low) >> shift & 15)
            text[position] = digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") - 10 + digit
        }
    }

    package var description: String {
        var text = InlineArray<36, UInt8>(repeating: 0)
        write(into: &text)
        return String(decoding: (0..<Self.textBytes).map { text[$0] }, as: UTF8.self)
    }
}
