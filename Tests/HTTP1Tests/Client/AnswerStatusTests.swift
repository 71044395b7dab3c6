import HTTP1
import Testing

@Suite struct `The status of an answer` {
    /// The status that is read if the text comes at once, and byte by byte.
    private func read(_ text: String) throws -> Int? {
        var (whole, single) = (AnswerStatusParser(), AnswerStatusParser())
        let bytes = Array(text.utf8)
        let status = Result { try whole.take(bytes.span) }
        let again = Result { () throws -> Int? in
            var found: Int?
            for byte in bytes { found = try single.take([byte].span) ?? found }
            return found
        }
        // With their faults.
        #expect("\(status)" == "\(again)")
        return try status.get()
    }

    @Test(
        arguments: [
            ("HTTP/1.1 200 OK\r\n", 200), ("HTTP/1.0 204 No Content\r\n", 204), ("HTTP/1.1 503\r\n", 503),
            ("HTTP/1.1 200 \r\nx", 200), ("HTTP/1.1 999 \u{fc}\r\n", 999),
            ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 E\r\na: b\r\n\r\nHTTP/1.1 307 T\r\n", 307),
            ("HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 500 No\r\n\r\n", 200),
            ("HTTP/1.1 200 OK\r", nil), ("HTTP/1.1 100 Continue\r\n\r\n", nil), ("", nil),
        ] as [(String, Int?)])
    func `is known with the end of its line, behind interim answers`(text: String, status: Int?) throws {
        #expect(try read(text) == status)
    }

    @Test(arguments: [
        "220 mail\r\n", "HTTP/2 200\r\n", "HTTP/1.2 200 OK\r\n", "HTTP/1.1 2000 OK\r\n", "HTTP/1.1 20 OK\r\n",
        "HTTP/1.1 099 X\r\n", "HTTP/1.1  200 OK\r\n", "HTTP/1.1 200 OK\n", "HTTP/1.1 101 Switching\r\n", "\r\n",
        "http/1.1 200 OK\r\n", "HTTP/1.1 +20 OK\r\n",
    ])
    func `is not read out of something else`(text: String) {
        #expect(throws: AnswerFault.notHTTP) { try read(text) }
    }

    @Test func `is not waited for without end`() throws {
        #expect(throws: AnswerFault.tooLong) { try read("HTTP/1.1 " + String(repeating: "2", count: 20_000)) }
        let interim = "HTTP/1.1 100 Continue\r\n\r\n"
        #expect(throws: AnswerFault.tooLong) { try read(String(repeating: interim, count: 1000)) }
    }
}
