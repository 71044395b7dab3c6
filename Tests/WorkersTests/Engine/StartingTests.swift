import APNsSimulator
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@testable import Workers

@Suite(.timeLimit(.minutes(10))) struct `An engine that starts` {
    /// Cuts a session when it first binds a statement of one of these names, before the server sees the message.
    private func cuttingOnce(_ names: [String]) async throws -> DatabaseProxy {
        let left = Locked(names)
        return try await DatabaseProxy { message in
            guard let statement = message.statementName else { return .pass }
            return left.withLock { left in
                guard let index = left.firstIndex(where: { statement.hasPrefix("pushq_\($0)_") }) else { return .pass }
                left.remove(at: index)
                return .cut
            }
        }
    }

    @Test func `outlasts a server that is restarted at this moment`() async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 3)
            let proxy = try await cuttingOnce(["worker_rights", "has_migration_table", "queue_names"])
            defer { proxy.close() }
            // On a busy machine, three sessions may take longer than a worker waits.
            try await fixture.withEngine(over: try proxy.address(of: fixture.database)) {
                $0.startTime = .seconds(60)
            } _: { _ in
                try await eventually("it to start", within: .seconds(60)) { fixture.events.contains("started") }
                try await fixture.startCampaign(queue)
                try await fixture.waitForCampaigns(within: .seconds(60))
            }
            #expect(try await fixture.progress()["delivered"] == 3)
            // On a busy machine, a connection for fan-out may also fail.
            #expect(fixture.events.all.count { $0.contains("out of reach") } >= 3)
            #expect(fixture.events.contains("PostgreSQL is back"))
        }
    }

    @Test func `waits for its database where others are served meanwhile, and says so`() async throws {
        try await EngineFixture.run { _, fixture in
            let isThere = Locked(false)
            // While the server is away.
            let proxy = try await DatabaseProxy { _ in isThere.withLock(\.self) ? .pass : .cut }
            defer { proxy.close() }
            try await fixture.withEngine(over: try proxy.address(of: fixture.database)) {
                $0.waits = .always
            } _: { engine in
                try await eventually("it to say so", within: .seconds(60)) {
                    fixture.events.contains("cannot be used, trying again")
                }
                let obstacles = await engine.snapshot().obstacles
                #expect(obstacles.count == 1 && obstacles[0].contains("cannot be used"))
                isThere.withLock { $0 = true }
                try await eventually("it to start", within: .seconds(60)) { fixture.events.contains("started") }
                try await eventually("nothing to be in its way", within: .seconds(60)) {
                    await engine.snapshot().obstacles.isEmpty
                }
            }
        }
    }

    @Test func `ends when it is told to, though its database never came`() async throws {
        try await EngineFixture.run { _, fixture in
            let proxy = try await DatabaseProxy { _ in .cut }
            defer { proxy.close() }
            var sinceTold = Stopwatch()
            try await fixture.withEngine(over: try proxy.address(of: fixture.database)) {
                $0.waits = .untilInReach
            } _: { _ in
                try await eventually("it to say so", within: .seconds(60)) {
                    fixture.events.contains("cannot be used, trying again")
                }
                sinceTold = Stopwatch()
            }
            // An attempt to connect may take ten seconds. The drain does not wait for it.
            #expect(sinceTold.quietTime < .seconds(8))
            #expect(fixture.events.contains("stopped after 0 requests"))
            #expect(!fixture.events.contains("started"))
        }
    }

    @Test func `waits for a server that is out of reach, and says so after the first attempt`() async throws {
        try await EngineFixture.run { _, fixture in
            let isThere = Locked(false)
            let proxy = try await DatabaseProxy { _ in isThere.withLock(\.self) ? .pass : .cut }
            defer { proxy.close() }
            try await fixture.withEngine(over: try proxy.address(of: fixture.database)) {
                $0.waits = .untilInReach
                $0.startTime = .seconds(120)
            } _: { engine in
                // After the first attempt to connect, and not at the end of the time that the start may take.
                try await eventually("it to say so at once", within: .seconds(60)) {
                    fixture.events.contains("cannot be used, trying again")
                }
                #expect(await engine.snapshot().isHeldUp)
                isThere.withLock { $0 = true }
                try await eventually("it to start", within: .seconds(60)) { fixture.events.contains("started") }
            }
        }
    }

    /// A login may be limited to three sessions, and a worker needs five. Such a worker would send pushes whose
    /// outcomes it cannot record, and the next worker would do the same.
    @Test func `sends nothing while it has no connection on which it could record that`() async throws {
        try await Self.withEngineLackingLeases(fromStart: true) { fixture, queue, refusals, allow in
            try await fixture.startCampaign(queue)
            // The pauses before these attempts are long enough for several claims, if there were any.
            let before = refusals.withLock { $0 }
            try await eventually("five more attempts to connect", within: .seconds(90)) {
                refusals.withLock { $0 } >= before + 5
            }
            #expect(await fixture.simulator.snapshot().arrived == 0)
            allow()
            try await fixture.waitForCampaigns(within: .seconds(90))
        }
    }

    @Test func `goes on over the connection for claims when it has lost that for leases alone`() async throws {
        try await Self.withEngineLackingLeases(fromStart: false) { fixture, queue, _, allow in
            try await fixture.startCampaign(queue)
            try await fixture.waitForCampaigns(within: .seconds(90))
            allow()
            try await eventually("all to be well again", within: .seconds(90)) {
                fixture.events.contains("PostgreSQL is back")
            }
        }
    }

    /// Runs `body` with an engine that gets no session for leases until the closure is called, and with the number of
    /// sessions that were refused. Expects that the queue's 20 devices got their push.
    private static func withEngineLackingLeases(
        fromStart isStarting: Bool,
        _ body:
            @escaping @Sendable (
                EngineFixture, QueueName, _ refusals: Locked<Int>, _ allow: @Sendable () -> Void
            ) async throws -> Void
    ) async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 20)
            let (isRefused, refusals) = (Locked(isStarting), Locked(0))
            let name = "pushq work (leases)"
            let proxy = try await DatabaseProxy { message in
                guard message.type == nil, isRefused.withLock(\.self),
                    String(decoding: message.bytes, as: UTF8.self).contains(name)
                else { return .pass }
                refusals.withLock { $0 += 1 }
                return .cut
            }
            defer { proxy.close() }
            try await fixture.withEngine(over: try proxy.address(of: fixture.database)) {
                $0.waits = .untilInReach
            } _: { engine in
                if !isStarting {
                    try await eventually("it to start", within: .seconds(60)) { fixture.events.contains("started") }
                    isRefused.withLock { $0 = true }
                    try await fixture.connection.runScript(
                        """
                        select pg_terminate_backend(pid) from pg_stat_activity
                        where datname = current_database() and application_name = '\(name)'
                        """)
                }
                try await eventually("it to say why", within: .seconds(60)) {
                    await !engine.snapshot().obstacles.isEmpty
                        && (fixture.events.contains("out of reach") || fixture.events.contains("cannot be used"))
                }
                try await body(fixture, queue, refusals) { isRefused.withLock { $0 = false } }
            }
            #expect(try await fixture.progress()["delivered"] == 20)
            #expect(await fixture.simulator.snapshot().arrived == 20)
        }
    }
}
