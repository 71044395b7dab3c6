import APNs
import APNsSimulator
import Testing

/// HAProxy, which terminates the gateway's HTTP/2 and uses its own to the simulator.
@Suite(.interop, .serialized, .timeLimit(.minutes(10)))
struct `A gateway, HAProxy and the simulator` {
    @Test(arguments: [
        "tune.h2.max-concurrent-streams 1",
        "tune.h2.max-concurrent-streams 100\ntune.h2.header-table-size 65536",
        "tune.h2.max-concurrent-streams 1000\ntune.h2.initial-window-size 1000",
        "tune.h2.max-concurrent-streams 10\ntune.h2.max-frame-size 65536",
    ])
    func `get thousands of requests across`(limits: String) async throws {
        for payloadBytes in Exchange.payloadSizes {
            let behind = try await OwnSimulator.start()
            let proxy = try await start(limits, before: behind)
            let exchange = Exchange(payloadBytes: payloadBytes, credential: .token(try behind.providerToken()))
            let outcome = try await exchange.run(to: proxy.endpoint)
            try await proxy.stop(after: 1000, linesOf: "output")
            let counted = await behind.simulator.stop()
            #expect(outcome.tally == ["accepted": 1000], "\(limits), bodies of \(payloadBytes) bytes")
            expectEachOnce(proxy.lines(of: "output").filter { $0.hasPrefix("200 ") }, of: 1000, "\(limits)")
            #expect(counted.accepted == 1000)
            #expect(counted.arrived == 1000)
            #expect(counted.repeated == 0)
        }
    }

    @Test func `agree on refusals`() async throws {
        let behind = try await OwnSimulator.start(deadShare: 0.3) { $0.streamLimit = 20 }
        let proxy = try await start("", before: behind)
        let exchange = Exchange(count: 2000, payloadBytes: 1024, credential: .token(try behind.providerToken()))
        let outcome = try await exchange.run(to: proxy.endpoint)
        await proxy.stop()
        let counted = await behind.simulator.stop()
        #expect(
            outcome.tally == [
                "accepted": counted.accepted, "410 Unregistered": counted.refused["Unregistered", default: 0],
            ])
        #expect(counted.arrived == 2000)
        #expect(counted.repeated == 0)
    }

    private func start(_ limits: String, before behind: OwnSimulator) async throws -> ForeignServer {
        let simulator = behind.simulator
        return try await ForeignServer.start(ForeignProgram("haproxy")) { site in
            let configuration = """
                global
                    nbthread 1
                    \(limits.replacing("\n", with: "\n    "))
                    log stdout format raw local0
                defaults
                    mode http
                    timeout connect 10s
                    timeout client 30s
                    timeout server 30s
                frontend front
                    bind 127.0.0.1:\(site.port) ssl crt \(site.identity) alpn h2
                    log global
                    log-format "%ST %HP"
                    default_backend back
                backend back
                    http-reuse always
                    server simulator \(simulator.host):\(simulator.port) ssl verify required ca-file \
                \(simulator.authority.caFile.replacing(" ", with: "\\ ")) alpn h2

                """
            try site.write(configuration, to: "haproxy.cfg")
            return ["-db", "-f", site.path("haproxy.cfg")]
        }
    }
}
