/// The part of ASN.1's distinguished encoding (X.690) that Apple's certificate extensions need. Input comes from
/// outside, so every length is checked against the bytes that follow.
struct DERReader {
    enum Tag: UInt8 {
        case null = 0x05
        case utf8String = 0x0C
        case sequence = 0x30
    }

    private var bytes: ArraySlice<UInt8>

    init(_ bytes: some Collection<UInt8>) {
        self.bytes = ArraySlice(Array(bytes))
    }

    var isAtEnd: Bool { bytes.isEmpty }

    /// Returns the content of the next element if it has the tag. Otherwise returns nil and consumes nothing.
    mutating func next(_ tag: Tag) -> ArraySlice<UInt8>? {
        var rest = bytes
        guard rest.popFirst() == tag.rawValue, let count = Self.length(&rest), count <= rest.count else { return nil }
        let content = rest.prefix(count)
        bytes = rest.dropFirst(count)
        return content
    }

    mutating func nextString() -> String? {
        next(.utf8String).flatMap { String(validating: $0, as: UTF8.self) }
    }

    /// Reads a length (X.690 §8.1.3): one octet below 128, otherwise the number of octets that follow.
    private static func length(_ bytes: inout ArraySlice<UInt8>) -> Int? {
        guard let first = bytes.popFirst() else { return nil }
        guard first >= 0x80 else { return Int(first) }
        let octetCount = Int(first & 0x7F)
        guard (1...3).contains(octetCount) else { return nil }
        var length = 0
        for _ in 0..<octetCount {
            guard let octet = bytes.popFirst() else { return nil }
            length = length << 8 | Int(octet)
        }
        return length
    }
}

extension DERReader.Tag {
    /// Returns an element with this tag and `content`.
    func element(_ content: [UInt8]) -> [UInt8] {
        let count = content.count
        let length: [UInt8] =
            switch count {
            case ..<0x80: [UInt8(count)]
            case ..<0x100: [0x81, UInt8(count)]
            default: [0x82, UInt8(count >> 8), UInt8(count & 0xFF)]
            }
        precondition(count < 0x1_0000, "a certificate extension holds less than 64 KiB")
        return [rawValue] + length + content
    }
}
