/// HPACK's integers: the prefix of an octet holds as much as fits, and groups of seven bits hold the rest (RFC 7541
/// §5.1).
enum IntegerCoding {
    /// The maximum number of octets after the prefix. Four carry 28 bits, far more than any length or index here. The
    /// limit keeps a peer from sending endless zeros.
    static let maximumContinuations = 4

    /// Reads an integer whose first octet is at `offset` and whose prefix has `prefixBits`; moves `offset` behind it.
    @inline(__always)
    static func decode(
        _ bytes: Span<UInt8>, at offset: inout Int, prefixBits: Int
    ) throws(Violation) -> Int {
        guard offset < bytes.count else { throw .truncatedBlock }
        let mask = 1 &<< prefixBits &- 1
        let prefix = Int(bytes[offset]) & mask
        offset &+= 1
        return prefix < mask ? prefix : try decodeContinuations(bytes, at: &offset, from: mask)
    }

    private static func decodeContinuations(
        _ bytes: Span<UInt8>, at offset: inout Int, from prefix: Int
    ) throws(Violation) -> Int {
        var value = prefix
        for continuation in 0..<maximumContinuations {
            guard offset < bytes.count else { throw .truncatedBlock }
            let octet = Int(bytes[offset])
            offset += 1
            value += (octet & 0x7f) << (7 * continuation)
            if octet & 0x80 == 0 { return value }
        }
        throw .integerTooLarge
    }
}

extension ByteQueue {
    /// Appends an integer; `pattern` holds the bits of the first octet in front of the prefix (RFC 7541 §5.1).
    mutating func appendInteger(_ value: Int, prefixBits: Int, pattern: UInt8) {
        let mask = 1 << prefixBits - 1
        guard value >= mask else { return append(pattern | UInt8(truncatingIfNeeded: value)) }
        append(pattern | UInt8(mask))
        var rest = value - mask
        while rest >= 0x80 {
            append(UInt8(rest & 0x7f) | 0x80)
            rest >>= 7
        }
        append(UInt8(rest))
    }

    /// Appends a string without Huffman coding (RFC 7541 §5.2).
    mutating func appendString(_ text: Span<UInt8>) {
        appendInteger(text.count, prefixBits: 7, pattern: 0)
        append(text)
    }
}
