import Testing

@testable import HTTP2

@Suite struct `HPACK integers` {
    private func decode(_ bytes: [UInt8], prefixBits: Int) throws(Violation) -> (value: Int, offset: Int) {
        var offset = 0
        let value = try IntegerCoding.decode(bytes.span, at: &offset, prefixBits: prefixBits)
        return (value, offset)
    }

    /// RFC 7541 §C.1.
    @Test(arguments: [(10, 5, "0a"), (1337, 5, "1f9a0a"), (42, 8, "2a")])
    func `follow the RFC's examples both ways`(value: Int, prefixBits: Int, code: String) throws {
        let bytes = hex(code)
        let decoded = try decode(bytes, prefixBits: prefixBits)
        #expect(decoded.value == value)
        #expect(decoded.offset == bytes.count)
        var queue = ByteQueue()
        queue.appendInteger(value, prefixBits: prefixBits, pattern: 0)
        #expect(queue.copy == bytes)
    }

    @Test(arguments: 1...8)
    func `come back at every edge`(prefixBits: Int) throws {
        for value in [0, 1, 30, 31, 32, 126, 127, 128, 254, 255, 256, 16_383, 16_384, 1 << 20, 1 << 27] {
            var queue = ByteQueue()
            queue.appendInteger(value, prefixBits: prefixBits, pattern: 0)
            #expect(try decode(queue.copy, prefixBits: prefixBits).value == value)
        }
    }

    @Test(arguments: [
        ("ff", Violation.truncatedBlock), ("ff80", .truncatedBlock), ("ff808080", .truncatedBlock),
        ("ff8080808000", .integerTooLarge), ("ffffffffffffffffffffffffff7f", .integerTooLarge),
    ])
    func `are refused when cut short or too large`(code: String, violation: Violation) {
        #expect(throws: violation) { _ = try decode(hex(code), prefixBits: 7) }
    }
}
