import HTTP1
import Testing

@Suite struct `The head of a request` {
    private func parse(_ text: String) throws(RequestFault) -> RequestHead? {
        try RequestHead.parse(Array(text.utf8))?.head
    }

    @Test func `is read with its path, query and fields`() throws {
        let text = "GET /metrics?a=b HTTP/1.1\r\nHost: x\r\nAccept:  text/plain \r\naccept: */*\r\n\r\nGET /next"
        let (head, byteCount) = try #require(try RequestHead.parse(Array(text.utf8)))
        #expect(head.method == "GET")
        #expect(head.path == "/metrics")
        #expect(head.query == "a=b")
        #expect(head.values(of: "accept") == ["text/plain", "*/*"])
        #expect(head.keepsConnection)
        #expect(byteCount == text.utf8.count - "GET /next".utf8.count)
    }

    @Test func `is waited for until its empty line has come, byte by byte`() throws {
        let text = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
        for length in 0..<text.utf8.count {
            #expect(try RequestHead.parse(Array(text.utf8.prefix(length))) == nil)
        }
        #expect(try parse(text) != nil)
    }

    @Test(arguments: [
        ("GET http://127.0.0.1:9464/metrics HTTP/1.1\r\nHost: x\r\n\r\n", "/metrics"),
        ("GET http://127.0.0.1:9464 HTTP/1.1\r\nHost: x\r\n\r\n", "/"), ("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", "*"),
        ("\r\nGET / HTTP/1.0\r\n\r\n", "/"),
    ])
    func `may come in the forms that the RFC allows`(text: String, path: String) throws {
        #expect(try parse(text)?.path == path)
    }

    @Test(arguments: [
        ("GET / HTTP/1.1\r\n\r\n", 400), ("GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400),
        ("GET / HTTP/1.1\nHost: x\r\n\r\n", 400), ("GET / HTTP/1.1\r\nHost: x\rA: b\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n", 400), ("GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: x\r\nA: \u{1}\r\n\r\n", 400), ("GET  / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        ("GET metrics HTTP/1.1\r\nHost: x\r\n\r\n", 400), ("G@T / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        ("GET / FTP/1.1\r\nHost: x\r\n\r\n", 400), ("GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505),
        ("GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n", 413),
        ("GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", 413),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    ])
    func `is refused where two servers could read it differently, or where it has a body`(text: String, status: Int) {
        #expect {
            try RequestHead.parse(Array(text.utf8))
        } throws: {
            ($0 as? RequestFault)?.status == status
        }
    }

    @Test(
        arguments: [
            ("Content-Length: 10", nil), ("Content-Length: 0", nil), ("", nil), ("Content-Length: 11", 413),
            ("Content-Length: 99999999999999999999999", 413), ("Content-Length: 1\r\nContent-Length: 1", 400),
            ("Content-Length: 1, 1", 400), ("Content-Length: +1", 400), ("Content-Length: 0x1", 400),
            ("Content-Length: ", 400), ("Transfer-Encoding: chunked", 411),
            ("Content-Length: 1\r\nTransfer-Encoding: chunked", 411),
        ] as [(String, Int?)])
    func `tells how long its body is, once and in digits`(fields: String, status: Int?) throws {
        let text = "POST / HTTP/1.1\r\nHost: x\r\n" + (fields.isEmpty ? "" : fields + "\r\n") + "\r\n"
        if let status {
            #expect {
                try RequestHead.parse(Array(text.utf8), maximumBody: 10)
            } throws: {
                ($0 as? RequestFault)?.status == status
            }
        } else {
            let head = try #require(try RequestHead.parse(Array(text.utf8), maximumBody: 10)?.head)
            #expect(head.bodyByteCount == (fields.hasSuffix("10") ? 10 : 0))
        }
    }

    @Test func `is refused when it is too large, whether its end has come or not`() {
        let long = "GET /" + String(repeating: "x", count: RequestHead.maximumBytes)
        let many = String(repeating: "a: b\r\n", count: RequestHead.maximumFields)
        for text in [long, long + " HTTP/1.1\r\nHost: x\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\n\(many)\r\n"] {
            #expect(throws: RequestFault.headTooLarge) { try RequestHead.parse(Array(text.utf8)) }
        }
    }
}

@Suite struct `A date in HTTP` {
    @Test(arguments: [
        (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"), (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
        (951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT"), (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
        (4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT"), (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
    ])
    func `is written as the RFC shows it`(seconds: Int, text: String) {
        #expect(HTTPDate.text(of: seconds) == text)
    }
}
