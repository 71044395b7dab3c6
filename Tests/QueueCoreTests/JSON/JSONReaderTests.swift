import Testing

@testable import QueueCore

@Suite struct `Reading JSON` {
    private func read(_ text: String) throws -> JSONNode {
        var reader = JSONReader(text)
        return try reader.read()
    }

    @Test func `keeps order, repetitions, numbers as written, and where everything stands`() throws {
        let node = try read(#" {"b": -1.50e+3, "a": [true, null], "a": "é\n\u00e9\ud83d\ude00"}"#)
        let members = try #require(node.members)
        #expect(node.offset == 1)
        #expect(members.map(\.name) == ["b", "a", "a"])
        #expect(members[0].node == JSONNode(value: .number("-1.50e+3"), range: 7..<15))
        #expect(
            members[1].node.value
                == .array([.init(value: .bool(true), range: 23..<27), .init(value: .null, range: 29..<33)]))
        #expect(members[2].node.value == .string("é\né😀"))
    }

    @Test(arguments: [
        "", " ", "{", "[1,]", "{\"a\":1,}", "{a:1}", "{\"a\" 1}", "01", "1.", ".5", "+1", "1e", "-", "tru", "nul1",
        "truex", "\"",
        "\"\\x\"", "\"\\u12g4\"", "\"\\u+123\"", "\"\\u12\"", "\"a\u{1}\"", "1 2", "{} {}", "[1 2]", "\u{FEFF}{}",
        "'a'", "NaN", "1a",
        "\"\\", "[", "{\"a\"", "{\"a\":",
    ])
    func `refuses what RFC 8259 does not allow`(text: String) {
        #expect {
            try read(text)
        } throws: { error in
            if case .malformed = error as? JSONReadingError { true } else { false }
        }
    }

    @Test func `names the first place that is wrong`() {
        #expect(throws: JSONReadingError.malformed(offset: 5, expected: "a value")) { try read("[1,2,]") }
        #expect(throws: JSONReadingError.malformed(offset: 6, expected: "the end of the text")) { try read("[1,2] x") }
    }

    @Test func `is bounded in depth`() throws {
        let most = JSONReader.maximumDepth
        _ = try read(String(repeating: "[", count: most) + String(repeating: "]", count: most))
        #expect(throws: JSONReadingError.tooDeep(offset: most)) { try read(String(repeating: "[", count: 1_000_000)) }
    }

    @Test(arguments: [
        (#""\u0000""#, 1), (#""ab\ud800""#, 3), (#""\udc00""#, 1), (#""\ud800\u0041""#, 1), (#""\ud800\n""#, 1),
        (#""\\u0000""#, nil), (#""\ud83d\ude00""#, nil), (#""\u0001""#, nil),
    ])
    func `notices escapes that are no character`(text: String, offset: Int?) throws {
        var reader = JSONReader(text)
        _ = try reader.read()
        #expect(reader.invalidEscape == offset)
    }
}
