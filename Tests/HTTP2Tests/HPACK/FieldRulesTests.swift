import Testing

@testable import HTTP2

@Suite struct `The rules for fields` {
    private func isWellFormed(_ fields: [(String, String)], as kind: FieldRules.Kind) throws -> Bool {
        var decoder = HPACKDecoder(names: Peer.names)
        var section = FieldSection()
        try decoder.decode(block(fields).span, into: &section)
        return FieldRules.check(section, as: kind) != nil
    }

    static let request = [(":method", "POST"), (":scheme", "https"), (":path", "/3/device/00")]

    /// RFC 9113 §8.2 and §8.3.1.
    @Test(
        arguments: [
            ([], true), ([(":authority", "a")], true), ([("x", "1"), ("x", "2")], true), ([("te", "trailers")], true),
            ([("x", "")], true), ([("content-length", "5"), ("content-length", "5")], true), ([("x", "a\tb")], true),
            ([("X", "1")], false), ([("", "1")], false), ([("x y", "1")], false), ([("x:", "1")], false),
            ([("x", " 1")], false), ([("x", "1\t")], false), ([("x", "a\nb")], false), ([("x", "a\rb")], false),
            ([("x", "a\0b")], false), ([("é", "1")], false), ([("x\u{7f}", "1")], false),
            ([(":path", "/")], false), ([(":status", "200")], false), ([(":unknown", "1")], false),
            ([("x", "1"), (":authority", "a")], false), ([("connection", "close")], false),
            ([("keep-alive", "1")], false), ([("proxy-connection", "1")], false), ([("upgrade", "h2c")], false),
            ([("transfer-encoding", "chunked")], false), ([("te", "gzip")], false), ([("content-length", "x")], false),
            ([("content-length", "-1")], false), ([("content-length", "5"), ("content-length", "6")], false),
        ] as [([(String, String)], Bool)])
    func `of a request`(fields: [(String, String)], isAllowed: Bool) throws {
        #expect(try isWellFormed(Self.request + fields, as: .request) == isAllowed, "\(fields)")
    }

    @Test(arguments: 0..<3) func `a request lacks none of its pseudo fields`(missing: Int) throws {
        var fields = Self.request
        fields.remove(at: missing)
        #expect(try !isWellFormed(fields, as: .request))
        fields.append((Self.request[missing].0, ""))
        #expect(try isWellFormed(fields, as: .request) == (missing < 2))
    }

    /// RFC 9113 §8.3.2.
    @Test(
        arguments: [
            ([(":status", "200")], true), ([(":status", "100")], true), ([(":status", "520"), ("x", "1")], true),
            ([], false), ([("x", "1")], false), ([(":status", "200"), (":status", "200")], false),
            ([("x", "1"), (":status", "200")], false), ([(":status", "20")], false), ([(":status", "abc")], false),
            ([(":status", "099")], false), ([(":status", "200"), (":path", "/")], false),
        ] as [([(String, String)], Bool)])
    func `of a response`(fields: [(String, String)], isAllowed: Bool) throws {
        #expect(try isWellFormed(fields, as: .response) == isAllowed, "\(fields)")
    }

    /// RFC 9113 §8.1.
    @Test func `trailers have no pseudo fields`() throws {
        #expect(try isWellFormed([("x", "1")], as: .trailers))
        #expect(try !isWellFormed([(":status", "200")], as: .trailers))
    }
}
