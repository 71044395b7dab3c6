import APNsSimulator
import QueueCore
import TestSupport
import Testing
import Transport

@testable import PostgresStore
@testable import Workers

/// Simulates workers that die whenever they hold a certain recipient, with the real statements. Time passes by changing
/// the times of what waits.
@Suite(.timeLimit(.minutes(10))) struct `A recipient that kills workers` {
    private static let queue = "acme/com.acme/sandbox"
    /// The time in which a worker claims and sends jobs that become due one after the other, before it dies.
    private static let breath = "100 ms"

    private struct Course {
        var deaths = 0
        var sends = 0
    }

    /// The 510th recipient is alone in its job from the start.
    @Test(arguments: [137, 274, 411, 510])
    func `is found, and nobody who waited beside it has failed`(place: Int) async throws {
        try await withDatabase { _, database in
            let store = try await database.connect()
            let queueID = try await Self.fill(store)
            let poison = try await Self.number(
                store, "select id from pushq.device order by id offset \(place) limit 1")
            var course = Course()
            while try await Self.number(store, "select count(*) from pushq.job") > 0 {
                try await Self.live(store, queueID, poison: Int64(poison), &course)
                try #require(course.deaths < 40, "it is never found")
            }
            #expect(try await Self.number(store, "select sum(failed) from pushq.result") == 1)
            #expect(try await Self.number(store, "select sum(delivered) from pushq.result") == 529)
            // The whole job kills two workers. Then eight or nine halvings kill one each, and the single recipient
            // kills more until its fifth death. Sometimes a slow test lets both halves become due together.
            #expect((5...18).contains(course.deaths), "\(course.deaths) workers died")
            #expect(course.sends < 530 * 4 + 1000, "\(course.sends) were sent")
        }
    }

    /// Creates a campaign with 500 recipients in one job, and 30 sends with one recipient each.
    private static func fill(_ store: PostgresConnection) async throws -> Int32 {
        try await store.runScript(
            """
            insert into pushq.tenant (name) values ('acme');
            insert into pushq.app (tenant_id, bundle_id) select id, 'com.acme' from pushq.tenant;
            insert into pushq.queue (tenant_id, app_id, environment) select tenant_id, id, 'sandbox' from pushq.app;
            insert into pushq.device (queue_id, token) select q.id, int8send(i) from pushq.queue q, generate_series(1, 500) i;
            select pushq.start_campaign('\(queue)', 'k', '{"aps":{"alert":"x"}}');
            select pushq.send('\(queue)', '{"aps":{"alert":"x"}}', array[encode(int8send(i), 'hex')]) from generate_series(501, 530) i;
            """)
        let id = Int32(try await number(store, "select id from pushq.queue"))
        let campaign = Int64(try await number(store, "select id from pushq.campaign"))
        while try await store.fanOutStep(queueID: id, campaignID: campaign, jobLimit: 40, scanLimit: 50_000) != nil {}
        return id
    }

    /// A worker claims what is due next, and sends it or dies.
    private static func live(
        _ store: PostgresConnection, _ queueID: Int32, poison: Int64, _ course: inout Course
    ) async throws {
        try await store.runScript(
            """
            update pushq.job set run_at = run_at - greatest(interval '0', (select min(run_at) from pushq.job) - now()) - interval '\(breath)'
            """)
        let quotas = [Lane.normal, .bulk].map { ClaimQuota(queueID: queueID, lane: $0, jobs: 200) }
        let held = try await store.claim(quotas, workerID: 1, lease: .seconds(15), atMostOnceWindow: 100).map { claim in
            let job = HeldJob(
                claim, slot: 0, claimedAt: .now, window: 100, maximumPayloadBytes: 4096)
            RescuedJobRules.apply(to: job)
            return job
        }
        try await end(held.filter { $0.waiting == 0 }, in: store)
        let sent = held.filter { $0.waiting > 0 }
        var isDead = false
        for job in sent {
            for ordinal in job.sendAll() {
                course.sends += 1
                isDead = isDead || job.claim.deviceIDs[ordinal] == poison
                job.accept(ordinal)
            }
        }
        if isDead {
            course.deaths += 1
            try await store.runScript("update pushq.lease set deadline = now() - interval '1 minute'")
            while try await store.rescue(grace: .zero) > 0 {}
        } else {
            try await end(sent, in: store)
        }
    }

    private static func end(_ jobs: [HeldJob], in store: PostgresConnection) async throws {
        guard !jobs.isEmpty else { return }
        // Like the settler: one delay for each half.
        let delays = (0...1).map { _ in Double.random(in: 0...1) }
        let settled = jobs.map { job in
            job.settled { retry in
                switch retry.delay {
                case .fixed(let delay): delay
                case .backoff(let backoff, let step, _): backoff.ceiling(afterAttempt: step) * delays[retry.group]
                }
            }
        }
        _ = try await store.endJobs(settled, workerID: 1)
    }

    private static func number(_ store: PostgresConnection, _ sql: String) async throws -> Int {
        let rows = try await store.execute(Statement("number \(sql.hashValue)", "select (\(sql))::int8 as number"))
        return Int(try rows.one().optionalInt8("number") ?? -1)
    }
}

@Suite(.timeLimit(.minutes(10))) struct `A job whose row does not agree with itself` {
    /// Damage that a manual update or a disk can cause to a job of three recipients.
    @Test(arguments: [
        "outcomes = '\\x0000'", "outcomes = '\\x00000000'", "recipient_count = 2", "recipient_count = 500",
        "watermark = 400", "watermark = 400, at_most_once = true",
    ])
    func `ends as quarantined, and costs no worker`(damage: String) async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 3)
            try await fixture.connection.runScript(
                """
                select pushq.send('\(queue)', '{"aps":{"alert":"x"}}', array_agg(encode(token, 'hex'))) from pushq.device;
                update pushq.job set \(damage)
                """)
            try await fixture.withEngine { _ in
                try await eventually("the end of the job", within: .seconds(30)) {
                    try await fixture.number("select count(*) from pushq.result where failed > 0 and notes is not null")
                        == 1
                }
                try await fixture.connection.runScript(
                    #"select pushq.send('\#(queue)', '{"aps":{"alert":"x"}}', array[repeat('00ff', 16)])"#)
                try await eventually("another push to arrive", within: .seconds(30)) {
                    await fixture.simulator.snapshot().accepted == 1
                }
            }
            #expect(fixture.events.contains("was quarantined"))
        }
    }
}

@Suite(.timeLimit(.minutes(10))) struct `A job with an outcome that only a newer version knows` {
    /// A worker of that version has held one recipient back, and has given the job back or was lost.
    @Test func `is sent to its other recipients`() async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 3)
            try await fixture.connection.runScript(
                #"""
                select pushq.send('\#(queue)', '{"aps":{"alert":"x"}}', array_agg(encode(token, 'hex'))) from pushq.device;
                update pushq.job set outcomes = '\x000a00'
                """#)
            try await fixture.withEngine { _ in
                try await eventually("the end of the job", within: .seconds(30)) {
                    try await fixture.number("select count(*) from pushq.result where delivered = 2 and suppressed = 1")
                        == 1
                }
                #expect(await fixture.simulator.snapshot().accepted == 2)
            }
            #expect(!fixture.events.contains("was quarantined"))
        }
    }
}
