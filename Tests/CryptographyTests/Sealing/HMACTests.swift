import Testing

@testable import Cryptography

@Suite struct `A code of HMAC with SHA-256` {
    private func hex(_ bytes: [UInt8]) -> String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    /// RFC 4231 §4.2, §4.3, §4.7: a short key, a text key, and a key longer than a block.
    @Test func `is that of the RFC`() {
        let short = HMAC.code(of: Array("Hi There".utf8), key: Array(repeating: 0x0b, count: 20))
        #expect(hex(short) == "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7")
        let text = HMAC.code(of: Array("what do ya want for nothing?".utf8), key: Array("Jefe".utf8))
        #expect(hex(text) == "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
        let long = HMAC.code(
            of: Array("Test Using Larger Than Block-Size Key - Hash Key First".utf8),
            key: Array(repeating: 0xaa, count: 131))
        #expect(hex(long) == "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54")
    }
}
