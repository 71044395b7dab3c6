import Testing

@testable import HTTP2

@Suite struct `The Huffman code` {
    private func decoded(_ code: [UInt8], room: Int = 1000) throws(Violation) -> String {
        var output: [UInt8] = []
        do {
            try output.append(addingCapacity: room) { span throws(Violation) in
                try HuffmanCode.decode(code.span, into: &span)
            }
        } catch {
            throw error
        }
        return String(decoding: output, as: UTF8.self)
    }

    /// RFC 7541 §C.4 and §C.6.
    @Test(arguments: [
        ("f1e3 c2e5 f23a 6ba0 ab90 f4ff", "www.example.com"),
        ("a8eb 1064 9cbf", "no-cache"),
        ("25a8 49e9 5ba9 7d7f", "custom-key"),
        ("25a8 49e9 5bb8 e8b4 bf", "custom-value"),
        ("6402", "302"),
        ("d07a be94 1054 d444 a820 0595 040b 8166 e082 a62d 1bff", "Mon, 21 Oct 2013 20:13:21 GMT"),
        ("9d29 ad17 1863 c78f 0b97 c8e9 ae82 ae43 d3", "https://www.example.com"),
        ("", ""),
    ])
    func `gives the RFC's examples both ways`(code: String, text: String) throws {
        #expect(try decoded(hex(code)) == text)
        #expect(HuffmanCode.encode(Array(text.utf8)) == hex(code))
        #expect(HuffmanCode.encodedCount(of: Array(text.utf8)) == hex(code).count)
    }

    @Test func `gives back every octet, alone and among others`() throws {
        for octet in UInt8.min...UInt8.max {
            for text in [[octet], [octet, octet], [0x61, octet, 0x2f], [octet, 0x30, octet, 0xff]] {
                var output: [UInt8] = []
                let code = HuffmanCode.encode(text)
                try output.append(addingCapacity: 4) { try HuffmanCode.decode(code.span, into: &$0) }
                #expect(output == text)
            }
        }
    }

    /// RFC 7541 §5.2.
    @Test(arguments: [
        ("1f ff", "padding of more than seven bits"),
        ("ff", "eight bits of padding alone"),
        ("18", "zeros as padding"),
        ("1e", "padding with a zero at its end"),
        ("ff ff ff ff", "the end-of-string symbol"),
        ("ff ff ff fc", "the end-of-string symbol and zeros"),
        ("ff ff fe", "a code cut short"),
    ])
    func `refuses what is not code`(code: String, why: String) {
        #expect(throws: Violation.invalidHuffman, "\(why)") { try decoded(hex(code)) }
    }

    @Test func `stops at the room it was given`() throws {
        #expect(try decoded(hex("f1e3 c2e5 f23a 6ba0 ab90 f4ff"), room: 15) == "www.example.com")
        #expect(throws: Violation.headerListTooLarge) { try decoded(hex("f1e3 c2e5 f23a 6ba0 ab90 f4ff"), room: 14) }
    }
}
