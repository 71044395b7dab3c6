import QueueCore
import TestSupport
import Testing
import Transport

@testable import APNs

@Suite(.timeLimit(.minutes(1))) struct `Connections that a worker has to share` {
    /// Gateways on one server that may have `limit` connections together.
    private func run<Success: Sendable>(
        gateways count: Int, limit: Int, leastIdle: Duration = .zero,
        respond: @escaping @Sendable (MockAPNs.Request) -> Void = { $0.answer() },
        _ body: @Sendable (isolated LoopActor, MockAPNs, [Sender], ConnectionBudget) async throws -> Success
    ) async throws -> Success {
        let loop = EventLoop(name: "test")
        defer { loop.shutDown() }
        return try await loop.run { actor in
            let server = try MockAPNs(on: loop, respond: respond)
            let budget = ConnectionBudget(limit: limit, leastIdle: leastIdle)
            let endpoint = try server.endpoint
            let senders = try (0..<count).map { _ in
                Sender(
                    try HTTP2Gateway(
                        endpoint: endpoint, credential: .token(ProviderToken(text: "a.b.c", issuedAt: 0)),
                        settings: .brisk, loop: loop, budget: budget))
            }
            defer {
                for sender in senders { sender.gateway.close() }
                server.close()
            }
            return try await body(actor, server, senders, budget)
        }
    }

    @Test func `go from the gateway that was unused for the longest time to the one that wants one`() async throws {
        try await run(gateways: 4, limit: 3) { _, _, senders, budget in
            for index in [0, 1, 2, 0] {  // used last: 1, 2, 0
                senders[index].send(count: 1, from: UInt64(senders[index].results.count))
                await senders[index].untilAnswered(senders[index].results.count + 1)
            }
            senders[3].send(count: 1)
            await senders[3].untilAnswered(1)
            #expect(senders.map(\.connectionCount) == [1, 0, 1, 1])
            senders[1].send(count: 1, from: 1)
            await senders[1].untilAnswered(2)
            #expect(senders.map(\.connectionCount) == [1, 1, 0, 1])
            #expect(budget.count == 3)
        }
    }

    @Test func `are left alone while something is in flight, and whoever waits gets one afterwards`() async throws {
        let held = Held()
        try await run(gateways: 2, limit: 1) {
            held.requests.append($0)
        } _: { _, server, senders, budget in
            senders[0].send(count: 1)
            await held.until(count: 1)
            senders[1].send(count: 1)
            #expect(senders[1].gateway.state == .idle)
            held.requests.removeFirst().answer()
            await senders[0].untilAnswered(1)
            await held.until(count: 1)
            held.requests.removeFirst().answer()
            await senders[1].untilAnswered(1)
            #expect(server.connections.count == 2)
            #expect(senders.map(\.connectionCount) == [0, 1])
            #expect(budget.count == 1)
        }
    }

    @Test func `are given back when connecting fails, and when a gateway is closed`() async throws {
        try await run(gateways: 2, limit: 1) { _, server, senders, budget in
            server.close()
            senders[0].send(count: 1)
            await senders[0].until { !senders[0].outages.isEmpty }
            senders[0].gateway.close()
            #expect(budget.count == 0)
        }
    }

    @Test func `are not taken from who has just used them`() async throws {
        try await run(gateways: 2, limit: 1, leastIdle: .seconds(3600)) { _, server, senders, _ in
            senders[0].send(count: 1)
            await senders[0].untilAnswered(1)
            senders[1].send(count: 1)
            #expect(senders.map(\.connectionCount) == [1, 0])
            #expect(server.connections.count == 1)
        }
    }
}
