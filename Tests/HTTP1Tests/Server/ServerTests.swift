import Foundation
import HTTP1
import LocalStack
import TestSupport
import Testing
import Transport

@Suite(.timeLimit(.minutes(10))) struct `A server for scrapes and probes` {
    /// Runs a test with a server that answers each request with its path, on a loop of its own.
    private func withServer(
        at address: ListenAddress = .tcp(host: "127.0.0.1", port: 0),
        _ adjust: (inout ServerLimits) -> Void = { _ in },
        _ body: (ListenAddress) async throws -> Void
    ) async throws {
        let loop = EventLoop(name: "http")
        defer { loop.shutDownAndWait() }
        var limits = ServerLimits()
        adjust(&limits)
        let holder = Holder()
        let place = try await loop.run { [limits] _ in
            let server = try Server(at: address, loop: loop, limits: limits) { request, reply in
                if request.head.path == "/large" {
                    reply(Response(body: [UInt8](repeating: 0x61, count: 4_000_000)))
                } else {
                    let body = String(decoding: request.body, as: UTF8.self)
                    loop.schedule(after: .milliseconds(20)) {
                        reply(Response(text: "this is \(request.head.path)\(body)\n"))
                    }
                }
            }
            holder.server = server
            return server.address
        }
        let result: Result<Void, any Error>
        do { result = .success(try await body(try #require(place))) } catch { result = .failure(error) }
        await loop.run { _ in holder.server?.close() }
        try result.get()
    }

    /// Holds the server, which belongs to the loop.
    private final class Holder: @unchecked Sendable {
        var server: Server?
    }

    @Test func `answers with a length, a date and a type, on TCP and on a Unix socket`() async throws {
        let path = NSTemporaryDirectory() + "pushq-\(UInt32.random(in: 0 ... .max)).sock"
        for address in [
            ListenAddress.tcp(host: "127.0.0.1", port: 0), .tcp(host: "localhost", port: 0), .unix(path: path),
        ] {
            try await withServer(at: address) { place in
                let answer = try await PlainClient.get("/a?b", from: place)
                #expect(answer.status == 200)
                #expect(answer.body == "this is /a\n")
                #expect(answer.fields["content-length"] == "11")
                #expect(answer.fields["content-type"] == "text/plain; charset=utf-8")
                let date = try #require(answer.fields["date"])
                #expect(date.wholeMatch(of: /\w{3}, \d{2} \w{3} \d{4} \d{2}:\d{2}:\d{2} GMT/) != nil, "\(date)")
            }
        }
        #expect(!FileManager.default.fileExists(atPath: path), "the socket is removed with its server")
    }

    @Test func `answers requests of one connection one after the other, also those sent at once`() async throws {
        try await withServer { place in
            let text = await PlainClient.exchange(
                "GET /1 HTTP/1.1\r\nHost: x\r\n\r\nHEAD /2 HTTP/1.1\r\nHost: x\r\n\r\n"
                    + "GET /3 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", with: place)
            let bodies = text.matches(of: /this is \/(\d)\n/).map { String($0.output.1) }
            #expect(bodies == ["1", "3"], "an answer to HEAD has no body")
            #expect(text.components(separatedBy: "content-length: 11\r\n").count == 4)
        }
    }

    @Test func `sends an answer that is larger than what the kernel takes at once`() async throws {
        try await withServer { place in
            let answer = try await PlainClient.get("/large", from: place)
            #expect(answer.body.utf8.count == 4_000_000)
        }
    }

    @Test(arguments: [
        ("POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 405), ("nonsense\r\n\r\n", 400),
        ("GET / HTTP/2.0\r\n\r\n", 505), ("GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", 413),
    ])
    func `says what is wrong, and closes`(request: String, status: Int) async throws {
        try await withServer { place in
            let answer = try PlainClient.parse(await PlainClient.exchange(request, with: place))
            #expect(answer.status == status)
            #expect(answer.fields["connection"] == "close")
            #expect(!answer.body.isEmpty)
        }
    }

    @Test func `reads bodies if it may, each with its request`() async throws {
        try await withServer {
            $0.bodyBytes = 10
        } _: { place in
            let text = await PlainClient.exchange(
                "POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\n GET /POST /2 HTTP/1.1\r\nHost: x\r\n\r\n"
                    + "POST /3 HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\nConnection: close\r\n\r\n0123456789",
                with: place)
            let bodies = text.matches(of: /this is (.*)\n/).map { String($0.output.1) }
            #expect(bodies == ["/1 GET /", "/2", "/30123456789"])
            let other = try PlainClient.parse(
                await PlainClient.exchange("PUT / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", with: place))
            #expect(other.status == 405 && other.fields["allow"] == "GET, POST, HEAD")
            let large = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\n"
            #expect(try PlainClient.parse(await PlainClient.exchange(large, with: place)).status == 413)
        }
    }

    @Test func `closes a connection whose body does not come in time`() async throws {
        try await withServer {
            ($0.bodyBytes, $0.requestTime) = (10, .milliseconds(100))
        } _: { place in
            let text = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nshort"
            #expect(await PlainClient.exchange(text, with: place).isEmpty)
        }
    }

    @Test func `closes a connection that does not finish its request in time`() async throws {
        try await withServer {
            $0.requestTime = .milliseconds(100)
        } _: { place in
            #expect(await PlainClient.exchange("GET / HTTP/1.1\r\nHost: x\r\n", with: place).isEmpty)
            #expect(await PlainClient.exchange("", with: place).isEmpty)
        }
    }

    @Test func `takes no more connections than it may, and new ones when others have gone`() async throws {
        try await withServer {
            $0.connections = 1
            $0.requestTime = .seconds(200)
        } _: { place in
            var first = PlainClient.OpenConnection(to: place, sending: "GET")
            let request = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
            let answer = await PlainClient.exchange(request, with: place)
            #expect(answer.isEmpty, "it is closed unanswered beside one that takes its time")
            #expect(first != nil, "it was open until here")
            first = nil
            try await eventually("the next one is answered") {
                await PlainClient.exchange(request, with: place).hasPrefix("HTTP/1.1 200 ")
            }
        }
    }

    @Test func `answers a new connection also beside as many idle ones as it may have`() async throws {
        try await withServer {
            $0.connections = 4
        } _: { place in
            let request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
            let idle = (0..<4).map { PlainClient.OpenConnection(to: place, sending: $0 < 2 ? "" : request) }
            try await eventually("a new one is answered") {
                await PlainClient.exchange(request.replacing("x\r\n", with: "x\r\nConnection: close\r\n"), with: place)
                    .hasPrefix("HTTP/1.1 200 ")
            }
            #expect(idle.count == 4, "they were open until here")
        }
    }

    @Test func `says in one line that its port or socket is taken, and replaces a socket that was left behind`()
        async throws
    {
        try await withServer { place in
            let error = await #expect(throws: TransportError.self) { try await withServer(at: place) { _ in } }
            #expect(error?.description == "cannot listen on \(place): Address already in use; choose another port")
        }
        let path = NSTemporaryDirectory() + "pushq-\(UInt32.random(in: 0 ... .max)).sock"
        try await withServer(at: .unix(path: path)) { place in
            await #expect(throws: TransportError.self) { try await withServer(at: place) { _ in } }
            let answer = try await PlainClient.get("/", from: place)
            #expect(answer.status == 200)
        }
        // The socket file that a killed process leaves behind.
        try await ProcessCommand(
            "/usr/bin/python3", ["-c", "import socket; socket.socket(socket.AF_UNIX).bind('\(path)')"]
        ).run()
        #expect(FileManager.default.fileExists(atPath: path))
        try await withServer(at: .unix(path: path)) { place in
            let answer = try await PlainClient.get("/", from: place)
            #expect(answer.status == 200)
        }
    }

    @Test func `leaves what is not a socket where it is, and says why it cannot listen there`() async throws {
        let folder = try TemporaryFolder()
        let file = try folder.write("data", to: "file")
        let link = folder.path("link")
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: file)
        for path in [file, link, folder.path("")] {
            let error = await #expect(throws: TransportError.self) {
                try await withServer(at: .unix(path: path)) { _ in }
            }
            #expect(
                error?.description
                    == "cannot listen on unix:\(path): something that is not a socket has this path; choose another path"
            )
        }
        #expect(folder.read("file") == "data")
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: link) == file)
    }
}
