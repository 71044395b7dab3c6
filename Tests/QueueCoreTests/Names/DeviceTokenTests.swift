import QueueCore
import Testing

@Suite struct `A device token` {
    @Test(arguments: ["00ff10", "00FF10", "<00ff 10>", " 00 ff 10 "])
    func `is read in either case and with the ornaments of NSData`(text: String) throws {
        let token = try DeviceToken(hex: text)
        #expect(token.bytes == [0x00, 0xff, 0x10])
        #expect(token.hex == "00ff10")
    }

    @Test func `may be as long as 100 bytes`() throws {
        #expect(try DeviceToken(hex: String(repeating: "ab", count: 100)).bytes.count == 100)
        #expect(throws: DeviceTokenError.tooLong(bytes: 101)) {
            try DeviceToken(hex: String(repeating: "ab", count: 101))
        }
    }

    @Test(arguments: [
        ("", DeviceTokenError.empty), ("<>", .empty), ("abc", .oddLength(digits: 3)), ("abxy", .notHex(at: 3)),
        ("ab\u{e9}0", .notHex(at: 3)),
    ])
    func `is refused with what is wrong`(text: String, error: DeviceTokenError) {
        #expect(throws: error) { try DeviceToken(hex: text) }
    }

    @Test func `shows in errors and logs no more than its beginning`() throws {
        let token = try DeviceToken(hex: String(repeating: "0123456789abcdef", count: 4))
        #expect(token.redacted == "01234567…(32 bytes)")
    }
}
