import Cryptography
import QueueCore
import TestSupport
import Testing
import Transport

@testable import APNs

@Suite(.timeLimit(.minutes(10))) struct `Connections that a worker has to share` {
    /// Runs `body` with gateways to one server that may have `limit` connections together. They belong to the tenants
    /// in turn, whose limits are `tenantLimits`.
    private func run<Success: Sendable>(
        gateways count: Int, limit: Int, minimumIdle: Duration = .zero, perSecond: Double = 1000,
        turns: ConnectionTurns = ConnectionTurns(), tenantLimits: [Int?] = [nil],
        respond: @escaping @Sendable (MockAPNs.Request) -> Void = { $0.answer() },
        _ body: @Sendable (isolated LoopActor, MockAPNs, [Sender], ConnectionBudget) async throws -> Success
    ) async throws -> Success {
        let loop = EventLoop(name: "test")
        defer { loop.shutDown() }
        return try await loop.run { actor in
            let server = try MockAPNs(on: loop, respond: respond)
            let budget = ConnectionBudget(
                limit: limit, minimumIdle: minimumIdle, perSecond: perSecond, turns: turns, loop: loop)
            let endpoint = try server.endpoint
            let shares = tenantLimits.map { ConnectionShare(of: budget, limit: $0) }
            let senders = try (0..<count).map {
                Sender(
                    try HTTP2Gateway(
                        endpoint: endpoint, credential: .token(ProviderToken(text: "a.b.c", issuedAt: 0)),
                        settings: .brisk, loop: loop, share: shares[$0 % shares.count]))
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
            for index in [0, 1, 2, 0] {  // the order of their last use: 1, 2, 0
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

    @Test func `are left alone while something is in flight, and the gateway that waits gets one afterwards`()
        async throws
    {
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
            await senders[0].until { !senders[0].downtimes.isEmpty }
            senders[0].gateway.close()
            #expect(budget.count == 0)
        }
    }

    @Test func `are not taken from who has just used them`() async throws {
        try await run(gateways: 2, limit: 1, minimumIdle: .seconds(3600)) { _, server, senders, _ in
            senders[0].send(count: 1)
            await senders[0].untilAnswered(1)
            senders[1].send(count: 1)
            #expect(senders.map(\.connectionCount) == [1, 0])
            #expect(server.connections.count == 1)
        }
    }

    @Test func `go from one that is never idle to one that waits, and back, by turns`() async throws {
        let turns = ConnectionTurns(turn: .milliseconds(100), minimum: .milliseconds(10))
        try await run(gateways: 2, limit: 1, minimumIdle: .seconds(3600), turns: turns) { _, server, senders, budget in
            // Both senders always have something to send, and ask for a connection whenever they have none.
            for sender in senders { sender.send(count: 100_000) }
            for number in 2...5 {
                try await eventually("connection \(number)", within: .seconds(30)) {
                    for sender in senders where sender.connectionCount == 0 { sender.gateway.requestCapacity() }
                    return server.connections.count >= number
                }
                #expect(budget.count <= 1)
            }
            let results = senders.flatMap { $0.results.values }
            #expect(results.allSatisfy { $0 == "accepted" }, "who gives way awaits its answers")
            #expect(senders.allSatisfy { !$0.results.isEmpty })
        }
    }

    @Test func `go from one that has nothing to send to one that waits, long before its turn is over`() async throws {
        let turns = ConnectionTurns(turn: .seconds(3600), minimum: .milliseconds(10))
        let held = Held()
        try await run(gateways: 5, limit: 2, minimumIdle: .seconds(3600), turns: turns) { request in
            if held.requests.isEmpty { held.requests.append(request) } else { request.answer() }
        } _: { _, server, senders, budget in
            // One sender waits for an answer, and keeps its connection. Each of the others has one push, and asks for a
            // connection until it is sent.
            senders[0].send(count: 1)
            await held.until(count: 1)
            for sender in senders[1...] { sender.send(count: 1) }
            try await eventually("each to have sent", within: .seconds(30)) {
                for sender in senders[1...] where sender.connectionCount == 0 && sender.results.isEmpty {
                    sender.gateway.requestCapacity()
                }
                return senders[1...].allSatisfy { $0.results.count == 1 }
            }
            #expect(senders[0].connectionCount == 1)
            #expect(budget.count <= 2)
            #expect(server.connections.count >= 5)
        }
    }

    @Test func `go to the gateway that has waited longest`() async throws {
        let held = Held()
        try await run(gateways: 4, limit: 1) {
            held.requests.append($0)
        } _: { _, server, senders, _ in
            senders[0].send(count: 1)
            await held.until(count: 1)
            for index in [2, 1, 3, 2] { senders[index].gateway.requestCapacity() }
            for (number, index) in [0, 2, 1, 3].enumerated() {
                if number > 0 { senders[index].send(count: 1) }
                await held.until(count: 1)
                held.requests.removeFirst().answer()
                await senders[index].untilAnswered(1)
                #expect(server.connections.count == number + 1)
            }
        }
    }

    @Test func `of a tenant stay within its limit, by turns, and keep no other tenant waiting`() async throws {
        let turns = ConnectionTurns(turn: .milliseconds(100), minimum: .milliseconds(10))
        // The first tenant, with gateways 0, 2 and 4, has a limit of two. The other tenant has none.
        try await run(gateways: 6, limit: 100, turns: turns, tenantLimits: [2, nil]) { _, _, senders, budget in
            let (bound, free) = ([0, 2, 4].map { senders[$0] }, [1, 3, 5].map { senders[$0] })
            // The first tenant's senders always have something to send, and ask for a connection whenever they have
            // none.
            for sender in bound { sender.send(count: 100_000) }
            for sender in free { sender.send(count: 1) }
            for sender in free { await sender.untilAnswered(1) }
            var most = 0
            try await eventually("each to have had its turn", within: .seconds(120)) {
                for sender in bound where sender.connectionCount == 0 { sender.gateway.requestCapacity() }
                most = max(most, bound.reduce(0) { $0 + $1.connectionCount })
                return bound.allSatisfy { !$0.results.isEmpty }
            }
            #expect(most == 2)
            #expect(free.map(\.connectionCount) == [1, 1, 1])
            #expect(budget.count <= 5)
        }
    }

    /// The first connection is full, and nothing is answered over it. So its gateway wants another one, to which it has
    /// no right while others have one or none.
    @Test(arguments: [1, 3])
    func `go to a gateway that has none while one that has its share waits for more`(tenants: Int) async throws {
        let turns = ConnectionTurns(turn: .milliseconds(100), minimum: .milliseconds(10))
        try await run(
            gateways: 3, limit: 2, minimumIdle: .seconds(3600), turns: turns,
            tenantLimits: Array(repeating: nil, count: tenants)
        ) { request in
            if request.connection !== request.firstConnection { request.answer() }
        } _: { _, server, senders, budget in
            senders[0].send(count: server.maximumStreams)
            try await eventually("it is full", within: .seconds(30)) { server.requests.count == server.maximumStreams }
            senders[1].send(count: 100_000)
            try await eventually("the second is served", within: .seconds(30)) { !senders[1].results.isEmpty }
            senders[0].gateway.requestCapacity()
            senders[2].send(count: 1)
            // Before the gateway gives up the connection over which nothing is answered.
            try await eventually("the third is served", within: .seconds(8)) {
                for sender in senders[1...] where sender.connectionCount == 0 { sender.gateway.requestCapacity() }
                return senders[2].results.count == 1
            }
            #expect(budget.count <= 2)
        }
    }

    @Test func `of a tenant give way when its limit is lowered, and lose nothing`() async throws {
        let held = Held()
        try await run(gateways: 3, limit: 100, tenantLimits: [3]) {
            held.requests.append($0)
        } _: { _, server, senders, budget in
            for sender in senders { sender.send(count: 1) }
            await held.until(count: 3)
            (senders[0].gateway as? HTTP2Gateway)?.pool.share.limit = 1
            #expect(senders.map { $0.gateway.freeSlots > 0 }.count { $0 } == 1, "the others take nothing more")
            while let request = held.requests.popLast() { request.answer() }
            for sender in senders { await sender.untilAnswered(1) }
            #expect(senders.allSatisfy { $0.results.values.allSatisfy { $0 == "accepted" } })
            try await eventually("two to be closed") { budget.count == 1 }
        }
    }

    @Test func `are opened no faster than the loop can bear, however many are wanted at one moment`() async throws {
        try await run(gateways: 60, limit: 100, perSecond: 50) { _, server, senders, budget in
            let begun = ContinuousClock.now
            for sender in senders { sender.send(count: 1) }
            #expect(budget.count == 20, "at once")
            for sender in senders { await sender.untilAnswered(1) }
            #expect(begun.duration(to: .now) >= .milliseconds(700), "40 more at 50 a second: 0.8 s")
            #expect(server.connections.count == 60)
        }
    }

    @Test func `hold certificates and contexts only while they are open`() async throws {
        let loop = EventLoop(name: "test")
        defer { loop.shutDown() }
        try await loop.run { actor in
            let server = try MockAPNs(on: loop) { $0.answer() }
            defer { server.close() }
            let identity = try CertificateAuthority.make(commonName: "Client").issueClient(.init(userID: "com.example"))
            var openings = 0
            let gateway = try HTTP2Gateway(
                endpoint: try server.endpoint,
                certificate: {
                    openings += 1
                    return identity
                },
                settings: .brisk, loop: loop)
            let sender = Sender(gateway)
            #expect(openings == 0)
            sender.send(count: 1)
            await sender.untilAnswered(1)
            #expect(openings == 1)
            #expect(gateway.tls.isInUse)
            gateway.close()
            try await eventually("the certificate to be given up") { !gateway.tls.isInUse }
        }
    }

    @Test func `that cannot be made count as failed attempts, and are tried again`() async throws {
        let loop = EventLoop(name: "test")
        defer { loop.shutDown() }
        try await loop.run { actor in
            let server = try MockAPNs(on: loop) { $0.answer() }
            defer { server.close() }
            let gateway = try HTTP2Gateway(
                endpoint: try server.endpoint,
                certificate: { throw CryptographyError.unreadable(what: "certificate", reason: "it is gone") },
                settings: .brisk, loop: loop)
            let sender = Sender(gateway)
            sender.send(count: 1)
            await sender.until { sender.downtimes.count >= 2 }
            #expect(sender.downtimes.allSatisfy { $0.error.contains("it is gone") })
            gateway.close()
        }
    }
}

@Suite struct `Giving up a connection` {
    private typealias Contender = ConnectionTurns.Contender
    private let turns = ConnectionTurns(turn: .seconds(5), minimum: .seconds(1))
    private let nobody = Contender(weight: 1, connections: 0)

    @Test func `is soon where somebody has more than its share`() {
        let rich = Contender(weight: 1, connections: 4)
        #expect(!turns.isOver(after: .milliseconds(900), of: rich, for: nobody))
        #expect(turns.isOver(after: .seconds(1), of: rich, for: nobody))
    }

    @Test func `is after a turn where one connection is for two`() {
        let holder = Contender(weight: 1, connections: 1)
        #expect(!turns.isOver(after: .seconds(4), of: holder, for: nobody))
        #expect(turns.isOver(after: .seconds(5), of: holder, for: nobody))
    }

    @Test func `is soon for one that has nothing to send`() {
        let idle = Contender(weight: 1, connections: 1, idle: .seconds(1))
        #expect(turns.isOver(after: .seconds(1), of: idle, for: nobody))
        #expect(!turns.isOver(after: .milliseconds(900), of: idle, for: nobody))
        let brief = Contender(weight: 1, connections: 1, idle: .milliseconds(900))
        #expect(!turns.isOver(after: .seconds(4), of: brief, for: nobody))
        #expect(!turns.isOver(after: .seconds(4), of: idle, for: Contender(weight: 1, connections: 1)))
    }

    @Test func `is later for a greater weight, within bounds`() {
        #expect(!turns.isOver(after: .seconds(14), of: Contender(weight: 3, connections: 1), for: nobody))
        #expect(turns.isOver(after: .seconds(15), of: Contender(weight: 3, connections: 1), for: nobody))
        #expect(turns.isOver(after: .seconds(20), of: Contender(weight: 1000, connections: 1), for: nobody))
        #expect(
            !turns.isOver(
                after: .seconds(1), of: Contender(weight: 0.001, connections: 1),
                for: Contender(weight: 0.0001, connections: 0)))
    }

    @Test func `is never for one that has its share`() {
        let holder = Contender(weight: 2, connections: 2)
        #expect(!turns.isOver(after: .seconds(3600), of: holder, for: Contender(weight: 1, connections: 1)))
        #expect(turns.isOver(after: .seconds(3600), of: holder, for: Contender(weight: 3, connections: 1)))
    }
}
