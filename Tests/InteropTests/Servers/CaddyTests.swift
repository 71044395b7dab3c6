import APNs
import APNsSimulator
import Foundation
import Testing

/// Caddy, with Go's HTTP/2, on both sides: as a server for the gateway and as a client of the simulator.
///
/// Go opens up to 100 streams before it has read SETTINGS, and cannot resend a body that it forwarded while reading it.
/// So behind Caddy, connections begin with as many streams as they may have.
@Suite(.interop, .serialized, .timeLimit(.minutes(10)))
struct `A gateway, Caddy and the simulator` {
    @Test(arguments: Exchange.payloadSizes) func `get thousands of requests across`(payloadBytes: Int) async throws {
        let behind = try await OwnSimulator.start { $0.streamLimitBeforeToken = 1000 }
        let proxy = try await start(before: behind)
        let exchange = Exchange(count: 2000, payloadBytes: payloadBytes, credential: .token(try behind.providerToken()))
        let outcome = try await exchange.run(to: proxy.endpoint)
        await proxy.stop()
        let counted = await behind.simulator.stop()
        #expect(errors(of: proxy) == [])
        #expect(outcome == .init(tally: ["accepted": 2000], untouchedCount: 0))
        expectEachOnce(try paths(in: proxy), of: 2000)
        #expect(counted.accepted == 2000)
        #expect(counted.arrived == 2000)
        #expect(counted.repeated == 0)
    }

    @Test func `agree on refusals, through connections of few streams`() async throws {
        let behind = try await OwnSimulator.start(deadShare: 0.3) {
            $0.streamLimit = 100
            $0.streamLimitBeforeToken = 100
        }
        let proxy = try await start(before: behind)
        let exchange = Exchange(payloadBytes: 1024, credential: .token(try behind.providerToken()))
        let outcome = try await exchange.run(to: proxy.endpoint)
        await proxy.stop()
        let counted = await behind.simulator.stop()
        #expect(errors(of: proxy) == [])
        #expect(
            outcome.tally == [
                "accepted": counted.accepted, "410 Unregistered": counted.refused["Unregistered", default: 0],
            ])
        #expect(counted.repeated == 0)
    }

    /// The log has one line of JSON for each request.
    private func paths(in proxy: ForeignServer) throws -> [Substring] {
        struct Line: Decodable {
            struct Request: Decodable { let uri: String }
            let request: Request
        }
        return try proxy.lines(of: "access.log").map { line in
            Substring(try JSONDecoder().decode(Line.self, from: Data(line.utf8)).request.uri)
        }
    }

    /// The log lines of Caddy's errors.
    private func errors(of proxy: ForeignServer) -> [Substring] {
        proxy.lines(of: "errors").filter { $0.contains(#""level":"error""#) }
    }

    private func start(before behind: OwnSimulator) async throws -> ForeignServer {
        let simulator = behind.simulator
        return try await ForeignServer.start(ForeignProgram("caddy")) { site in
            let configuration = """
                {
                    admin off
                    auto_https off
                    storage file_system "\(site.path("storage"))"
                    servers {
                        protocols h1 h2
                    }
                }
                :\(site.port) {
                    bind 127.0.0.1
                    tls "\(site.path("certificate.pem"))" "\(site.path("key.pem"))"
                    log {
                        output file "\(site.path("access.log"))"
                    }
                    reverse_proxy https://\(simulator.host):\(simulator.port) {
                        transport http {
                            tls_trusted_ca_certs "\(simulator.authority.caFile)"
                            versions 2
                        }
                    }
                }

                """
            try site.write(configuration, to: "Caddyfile")
            return ["run", "--config", site.path("Caddyfile"), "--adapter", "caddyfile"]
        }
    }
}
