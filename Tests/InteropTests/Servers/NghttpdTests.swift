import APNs
import Cryptography
import Testing

/// nghttpd of nghttp2 (Debian: nghttp2-server). Without its upload echo it answers 404 with an HTML page; with the
/// echo, 200 with the received body.
@Suite(.interop, .serialized, .timeLimit(.minutes(10)))
struct `A gateway and nghttpd` {
    @Test(arguments: [
        ["--max-concurrent-streams=1"],
        ["--max-concurrent-streams=1000"],
        ["--window-bits=10", "--connection-window-bits=16"],
        ["--window-bits=16", "--connection-window-bits=10"],
        ["--header-table-size=0"],
        ["--header-table-size=100", "--encoder-header-table-size=0"],
        ["--padding=255"],
        ["--max-concurrent-streams=200", "--window-bits=12", "--connection-window-bits=12", "--header-table-size=0"],
    ])
    func `get thousands of requests across`(options: [String]) async throws {
        for payloadBytes in Exchange.payloadSizes {
            let count = payloadBytes > 1024 ? 500 : 1000
            let exchange = Exchange(count: count, payloadBytes: payloadBytes)
            #expect(try await tally(exchange, options + ["--echo-upload"]) == ["accepted": count], "\(options)")
        }
    }

    @Test func `agree on answers with bodies that are no JSON`() async throws {
        #expect(try await tally(Exchange(payloadBytes: 100), []) == ["404 OtherTransient": 1000])
    }

    @Test func `agree on a client certificate`() async throws {
        let identity = try ForeignServer.authority.get().issueClient(.init(userID: "com.example.App"))
        let exchange = Exchange(count: 10, credential: .certificate(identity))
        #expect(try await tally(exchange, ["--verify-client", "--echo-upload"]) == ["accepted": 10])
    }

    /// nghttpd logs what it reads and writes, field by field and frame by frame.
    @Test(arguments: Exchange.payloadSizes) func `agree on every frame`(payloadBytes: Int) async throws {
        let server = try await start(["--verbose", "--echo-upload", "--max-concurrent-streams=100"])
        let outcome = try await Exchange(payloadBytes: payloadBytes).run(to: server.endpoint)
        await server.stop()
        #expect(outcome == .init(tally: ["accepted": 1000], untouchedCount: 0))
        let log = server.lines(of: "output")
        expectEachOnce(log.filter { $0.contains(") :path: ") }.compactMap { $0.split(separator: " ").last }, of: 1000)
        let resets = log.filter { $0.contains("RST_STREAM frame") }
        #expect(resets.isEmpty)
        let errors = log.filter { $0.contains("error_code=") && !$0.contains("error_code=NO_ERROR") }
        #expect(errors.isEmpty)
    }

    private func tally(_ exchange: Exchange, _ options: [String]) async throws -> [String: Int] {
        let server = try await start(options)
        let outcome = try await exchange.run(to: server.endpoint)
        #expect(outcome.untouchedCount == 0, "nothing was refused, and nothing is to be sent twice")
        await server.stop()
        return outcome.tally
    }

    private func start(_ options: [String]) async throws -> ForeignServer {
        try await ForeignServer.start(ForeignProgram("nghttpd")) { site in
            ["--address=127.0.0.1", "--htdocs=\(site.folder)"] + options
                + [String(site.port), site.path("key.pem"), site.path("certificate.pem")]
        }
    }
}
