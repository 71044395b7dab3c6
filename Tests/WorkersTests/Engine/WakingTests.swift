import APNsSimulator
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@testable import Workers

@Suite(.timeLimit(.minutes(10))) struct `An idle worker` {
    private static let sleepers = "select count(*) from pushq.sleeper"

    @Test func `is notified again after PostgreSQL has crashed and forgotten that it sleeps`() async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue()
            try await fixture.withEngine {
                $0.idlePoll = .seconds(3600)
            } _: { _ in
                try await eventually("the worker to sleep") { try await fixture.number(Self.sleepers) == 1 }
                // The effect of a crash: an unlogged table is empty, and all sessions have ended.
                try await fixture.connection.runScript(
                    """
                    truncate pushq.sleeper;
                    select pg_terminate_backend(pid) from pg_stat_activity
                    where datname = current_database() and application_name like 'pushq work%'
                    """)
                try await eventually("the worker to sleep again", within: .seconds(40)) {
                    try await fixture.number(Self.sleepers) == 1
                }
                // The time between two polls grows from 5 ms on: the last ones come 5 and 10 s after it fell asleep.
                try await Task.sleep(for: .seconds(6))
                try await fixture.connection.runScript(
                    #"select pushq.send('\#(queue)', '{"aps":{"alert":"x"}}', array[repeat('00ff', 16)])"#)
                try await eventually("the push to arrive before the next poll", within: .seconds(3)) {
                    await fixture.simulator.snapshot().accepted == 1
                }
            }
        }
    }

    @Test func `is notified of its own queues alone`() async throws {
        try await EngineFixture.run { _, fixture in
            let acme = try await fixture.makeQueue()
            let beta = try await fixture.makeQueue(tenant: "be_ta", app: "com.beta")
            try await fixture.connection.runScript("insert into pushq.sleeper (worker_id) values (2)")
            let session = try await fixture.database.connect()
            let heard = Locked<[String]>([])
            session.onNotification = { channel, _ in heard.withLock { $0.append(channel) } }
            for worker in [1, 2, 3] { try await session.listen(to: Notice.channel(of: Int64(worker))) }
            try await fixture.connection.fallAsleep(1, serving: "be_ta/com.beta/*")
            try await fixture.connection.fallAsleep(3, serving: "b%/com.beta/*")
            for queue in [acme, beta] {
                try await fixture.connection.runScript(
                    #"select pushq.send('\#(queue)', '{"aps":{"alert":"x"}}', array[repeat('00ff', 16)])"#)
            }
            try await eventually("three notifications") { heard.withLock { $0.count } >= 3 }
            _ = try await session.execute(Statement("one", "select 1"))
            #expect(heard.withLock { $0.sorted() } == ["pushq_1", "pushq_2", "pushq_2"])
        }
    }

    @Test func `that is notified spares all later producers the notification until it sleeps again`() async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue()
            try await fixture.withEngine { _ in
                try await eventually("the worker to sleep") { try await fixture.number(Self.sleepers) == 1 }
                let push = #"select pushq.send('\#(queue)', '{"aps":{"alert":"x"}}', array[repeat('00ff', 16)])"#
                try await fixture.connection.runScript(push)
                try await eventually("the push to arrive") { await fixture.simulator.snapshot().accepted >= 1 }
                // The worker polls by itself as long as work arrives. On a busy machine, it may fall asleep between two
                // pushes.
                var wasAwake = 0
                for _ in 0..<20 where wasAwake <= 25 {
                    wasAwake = 0
                    for _ in 0..<50 {
                        try await fixture.connection.runScript(push)
                        wasAwake += try await fixture.number(Self.sleepers) == 0 ? 1 : 0
                    }
                }
                #expect(wasAwake > 25)
            }
        }
    }
}

@Suite(.timeLimit(.minutes(10))) struct `What an operator stops` {
    /// Ways to stop everything in a queue; cancelling also gives up what is in the queue.
    enum Order: CaseIterable {
        case pauseQueue, suspendTenant, pauseCampaign, cancelCampaign

        func carryOut(_ queue: QueueName, in fixture: EngineFixture) async throws {
            switch self {
            case .pauseQueue: try await fixture.connection.pauseQueue(queue, reason: "test")
            case .suspendTenant: _ = try await fixture.connection.setTenant(queue.tenant, isSuspended: true)
            case .pauseCampaign:
                _ = try await fixture.connection.order(.pause, campaign: "k", ofQueue: queue)
            case .cancelCampaign:
                _ = try await fixture.connection.order(.cancel, campaign: "k", ofQueue: queue)
            }
        }
    }

    /// A worker that hears no notification asks for the mark every 100 ms, so that hardly anything shows whether it
    /// hears any. Where a notification is about a queue or tenant, the worker here asks much later.
    /// - Parameter hearsNotifications: if false, as behind a pooler, the worker has to ask for the mark.
    @Test(arguments: Order.allCases, [true, false])
    func `stops at once, though the settings are read again much later`(order: Order, hearsNotifications: Bool)
        async throws
    {
        try await EngineFixture.run { configuration in
            configuration.rules.latency = .milliseconds(20) ... .milliseconds(20)
            configuration.streamLimit = 4
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 20_000, settings: "update pushq.queue set connections = 1")
            if !hearsNotifications {
                try await fixture.connection.runScript(
                    """
                    create or replace function pushq.tell(what text, number bigint) returns void language sql as $$ $$
                    """)
            }
            let isOnlyTold = hearsNotifications && (order == .pauseQueue || order == .suspendTenant)
            // A worker that holds jobs begins each round of its writes with this question.
            let rounds = Locked(0)
            let proxy = try await DatabaseProxy { message in
                if message.statementName?.hasPrefix("pushq_halted_queues_") == true { rounds.withLock { $0 += 1 } }
                return .pass
            }
            defer { proxy.close() }
            let address = try DatabaseAddress(
                url: proxy.connectionString(database: fixture.database.name, user: TestServer.workerLogin),
                environment: [:])
            try await fixture.startCampaign(queue)
            try await fixture.withEngine(over: address) {
                $0.settingsRefresh = .seconds(3600)
                if isOnlyTold {
                    $0.flushInterval = .seconds(30)
                    $0.lease = .seconds(120)
                }
            } _: { _ in
                try await eventually("the campaign to be sent", within: .seconds(30)) {
                    await fixture.simulator.snapshot().arrived > 200
                }
                try await order.carryOut(queue, in: fixture)
                let before = await fixture.simulator.snapshot().arrived
                let roundsBefore = rounds.withLock { $0 }
                // Four streams with answers after 20 ms carry 200 pushes a second: 20,000 would take 100 s.
                try await eventually("nothing to be held any more", within: .seconds(90)) {
                    try await fixture.number("select count(*) from pushq.lease") == 0
                }
                let arrived = await fixture.simulator.snapshot().arrived
                #expect(arrived < 19_000)
                // The round after the order shows the mark. A claim that was under way may take one more.
                #expect(rounds.withLock { $0 } - roundsBefore <= 10)
                // The worker holds a thousand or more that it would send until its next round.
                if isOnlyTold { #expect(arrived - before < 600) }
                try await stays("nothing more is sent", for: .milliseconds(300)) {
                    await fixture.simulator.snapshot().arrived == arrived
                }
                if order == .pauseCampaign {
                    #expect(
                        try await fixture.connection.order(.resume(sendBy: nil), campaign: "k", ofQueue: queue))
                    try await eventually("the campaign to go on", within: .seconds(30)) {
                        await fixture.simulator.snapshot().arrived > arrived + 100
                    }
                }
            }
        }
    }
}
