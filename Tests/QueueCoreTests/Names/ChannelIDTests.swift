import QueueCore
import Testing

@Suite struct `A channel ID` {
    @Test(arguments: ["dHN0LXNyY2gtY2hubA==", "a", "+/=-_", String(repeating: "x", count: 200)])
    func `is taken as Apple gave it`(text: String) throws {
        #expect(try ChannelID(text).text == text)
    }

    @Test(arguments: ["a b", "é", "a\r\nauthorization: b", "“"])
    func `has only what goes into a header field as it is`(text: String) {
        #expect(throws: ChannelIDError.notBase64) { try ChannelID(text) }
    }

    @Test func `is 1 to 200 bytes long`() {
        #expect(throws: ChannelIDError.badLength(bytes: 0)) { try ChannelID("") }
        #expect(throws: ChannelIDError.badLength(bytes: 201)) { try ChannelID(String(repeating: "x", count: 201)) }
    }
}
