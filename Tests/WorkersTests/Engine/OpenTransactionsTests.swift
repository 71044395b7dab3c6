import APNsSimulator
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@testable import Workers

/// Everything that a producer or operator can call or lock, in a transaction that stays open. Another tenant's pushes
/// must go on meanwhile.
@Suite(.timeLimit(.minutes(10))) struct `A transaction that stays open` {
    /// What the transaction does. `$q` stands for the first tenant's queue, `$id` for its ID, `$token` for one of its
    /// tokens, `$job` for one of its jobs that has failed recipients.
    struct Deed: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let sql: String

        init(_ sql: String) {
            testDescription = sql.split(separator: "\n").joined(separator: " ")
            self.sql = sql
        }
    }

    /// The functions of docs/sql-api.md that write. Calls of several functions hold the locks of all of them.
    static let calls = [
        #"pushq.send('$q', '{"aps":{"alert":"x"}}', array['$token'], key => 'k')"#,
        #"pushq.send('$q', '{"aps":{"alert":"x"}}', array['00ff00ff'], urgent => true)"#,
        """
        pushq.send('$q', '{"aps":{"timestamp":1,"event":"update","content-state":{}}}', array['$token'],
                   push_type => 'liveactivity', replace_waiting => true)
        """,
        #"pushq.start_campaign('$q', 'other', '{"aps":{"alert":"x"}}')"#,
        #"pushq.start_campaign('$q', 'other', '{"aps":{"alert":"x"}}', array['00ff', '00fe'])"#,
        #"pushq.add_to_list('$q', pushq.new_list('$q'), array['00ff', '$token'])"#,
        "pushq.pause_campaign('$q', 'running')", "pushq.cancel_campaign('$q', 'running')",
        "pushq.resume_campaign('$q', 'paused')",
        "pushq.retry_failed('$q', $job)", "pushq.retry_failed_campaign('$q', 'running')",
        "pushq.register_device('$q', '$token')", "pushq.register_channel('$q', 'abc', 0)",
        #"pushq.broadcast('$q', 'abc', '{"aps":{"timestamp":1,"event":"update","content-state":{}}}', 0)"#,
        """
        pushq.send_many('$q', array['{"aps":{"alert":"x"}}', '{"aps":{"alert":"y"}}']::json[],
                        tokens => array['$token', '00ff']),
        pushq.add_tokens_to_list('$q', pushq.new_list('$q'), array[decode('00ff', 'hex')]),
        pushq.add_users_to_list('$q', pushq.new_list('$q'), array['anna']),
        pushq.abandon_list('$q', pushq.new_list('$q'))
        """,
        """
        pushq.set_badge('$q', '$token', badge => 3), pushq.set_device('$q', '$token', false),
        pushq.unregister_device('$q', '$token'), pushq.forget_device('$q', '$token'),
        pushq.forget_user('$q', 'anna')
        """,
        """
        pushq.save_audience('$q', 'vips', 'user is missing'), pushq.remove_audience('$q', 'vips'),
        pushq.add_schedule('$q', 'weekly', '@weekly', '{"aps":{"alert":"x"}}'), pushq.pause_schedule('$q', 'weekly'),
        pushq.resume_schedule('$q', 'weekly'), pushq.run_schedule('$q', 'weekly'),
        pushq.remove_schedule('$q', 'weekly')
        """,
        """
        pushq.set_campaign_rate('$q', 'running', 5), pushq.cancel('$q', root_id), pushq.cancel_job('$q', id),
        pushq.cancel_jobs('$q', array[id])
        from pushq.job where queue_id = $id and run_at between now() + interval '1 minute' and now() + interval '1 day'
        """,
    ].map { Deed("select \($0)") }

    /// Functions that a producer may call and that only read, beside those whose names begin with `show_` or
    /// `preview_`. PostgreSQL cannot tell: they are volatile, too.
    static let readers: Set = [
        "check_time_zone", "earlier_list_campaign", "feedback_after", "feedback_cursor", "status", "tokens_of_users",
        "trace",
    ]

    @Test func `is tried with all functions that a producer may call and that write`() async throws {
        try await withDatabase { _, database in
            let rows = try await database.connect().execute(
                Statement(
                    "volatile",
                    """
                    select distinct p.proname::text as name
                    from pg_proc p
                    where p.pronamespace = 'pushq'::regnamespace and p.provolatile = 'v'
                      and has_function_privilege('pushq_producer', p.oid, 'execute')
                    """))
            let functions = Set(rows.map { $0.text("name") })
                .filter { !$0.hasPrefix("show_") && !$0.hasPrefix("preview_") }
            #expect(functions.isSuperset(of: Self.readers))
            let called = Self.calls.flatMap { deed in
                deed.sql.matches(of: /pushq\.(\w+)\(/).map { String($0.output.1) }
            }
            #expect(functions.subtracting(Self.readers) == Set(called))
        }
    }

    /// Statements of `pushq-admin`, and locks on every row that one of these, or an operator by hand, may lock.
    static let operations = [
        "update pushq.queue set paused_at = now(), paused_reason = 'x' where id = $id",
        "update pushq.queue set weight = 2 where id = $id",
        "update pushq.tenant set suspended_at = now() where name = 'acme'",
        "update pushq.rate_limit set rate = 5 where queue_id = $id",
        "update pushq.credential set version = version + 1 where tenant_id = (select tenant_id from pushq.queue where id = $id)",
        "delete from pushq.job where queue_id = $id", "delete from pushq.lease where queue_id = $id",
        "update pushq.device set active = false, inactive_since = now() where queue_id = $id",
        "update pushq.feedback set verdict = 'kept' where queue_id = $id",
        "update pushq.channel set retired_at = now() where queue_id = $id",
        "select from pushq.fan_out where queue_id = $id for update",
        "select from pushq.campaign where queue_id = $id for update",
        "select from pushq.campaign_tally where queue_id = $id for update",
        "select from pushq.message where queue_id = $id for update",
        "select from pushq.result where queue_id = $id for update",
        "select from pushq.body where queue_id = $id for update",
        "select from pushq.newest_update for update", "select from pushq.send_key for update",
        "select from pushq.worker for update", "select from pushq.duty for update",
    ].map(Deed.init)

    @Test(arguments: calls + operations)
    func `keeps no other tenant's pushes from being sent and recorded, nor a worker waiting`(deed: Deed) async throws {
        try await EngineFixture.run { configuration in
            configuration.rules.latency = .milliseconds(20) ... .milliseconds(20)
        } _: { _, fixture in
            let acme = try await fixture.makeQueue(devices: 2000)
            let beta = try await fixture.makeQueue(tenant: "beta", app: "com.beta", devices: 600)
            let deed = try await prepare(acme, for: deed, in: fixture)
            // The leases belong to a lost worker. They are rescued unless the transaction has locked them.
            _ = try await fixture.connection.claim(
                [ClaimQuota(queueID: queueID(of: acme, in: fixture), lane: .bulk, jobs: 1)], workerID: 1,
                lease: .zero, atMostOnceWindow: 100)
            let session = try await fixture.database.connect()
            try await fixture.withEngine {
                $0.rescueGrace = .zero
            } _: { _ in
                try await session.runScript("begin; \(deed)")
                let waits = try await fixture.database.connect()
                var longest = 0
                try await fixture.startCampaign(beta, key: "beta")
                for number in 1...20 {
                    let root = try await send(to: beta, in: fixture)
                    try await eventually("the end of push \(number) of another tenant", within: .seconds(20)) {
                        longest = max(longest, try await lockWait(waits))
                        return try await fixture.number("select count(*) from pushq.result where root_id = \(root)")
                            == 1
                    }
                }
                try await eventually("the end of another tenant's campaign", within: .seconds(20)) {
                    longest = max(longest, try await lockWait(waits))
                    return try await fixture.progress(key: "beta")["delivered"] == 600
                }
                #expect(longest < 1000, "a worker waited for a lock, in ms")
                try await session.runScript("rollback")
            }
        }
    }

    /// A producer retries yesterday's failed recipients. This copies the message to today, as a worker does that
    /// retries other recipients of it.
    @Test func `and was begun after midnight keeps no other tenant's pushes from being recorded`() async throws {
        try await EngineFixture.run { _, fixture in
            let acme = try await fixture.makeQueue(devices: 2000)
            // Its devices are those of the job that has ended, so that no push is refused.
            let beta = try await fixture.makeQueue(tenant: "beta", app: "com.beta", devices: 200)
            let deed = try await prepare(acme, for: Deed("select pushq.retry_failed('$q', $job)"), in: fixture)
            try await fixture.connection.runScript(
                """
                do $$
                begin
                  while pushq.make_partition(pushq.today() - 1, 0) is not null loop end loop;
                end $$;
                update pushq.message set day = day - 1;
                update pushq.body set day = day - 1;
                update pushq.result set day = day - 1, body_day = body_day - 1;
                update pushq.job set body_day = body_day - 1;
                update pushq.fan_out set message_day = message_day - 1;
                delete from pushq.rate_limit;
                """)
            // One recipient in each waiting job.
            let tokens = try await fixture.connection.execute(
                Statement(
                    "refused",
                    """
                    select encode(d.token, 'hex') as hex
                    from pushq.job j
                    join pushq.body b on b.day = j.body_day and b.queue_id = j.queue_id and b.job_id = j.id
                    join pushq.device d on d.queue_id = j.queue_id and d.id = b.first_device_id
                    where j.queue_id = pushq.queue_id($1) and j.lane = 2
                    """), [.text("\(acme)")])
            await fixture.simulator.use(
                Rules(
                    outcomes: tokens.map {
                        OutcomeRule(.refuse(.init(.serviceUnavailable)), tokenPrefix: $0.text("hex"))
                    }))
            let session = try await fixture.database.connect()
            try await session.runScript("begin; \(deed)")
            try await fixture.withEngine { _ in
                let held = "select count(*) from pushq.lease where queue_id = pushq.queue_id('\(acme)')"
                // Two jobs of 200 recipients, and the push that waited.
                try await eventually("all to be sent", within: .seconds(20)) {
                    await fixture.simulator.snapshot().arrived == 401
                }
                try await fixture.startCampaign(beta, key: "beta")
                for number in 1...10 {
                    let root = try await send(to: beta, in: fixture)
                    try await eventually("the end of push \(number) of another tenant", within: .seconds(5)) {
                        try await fixture.number("select count(*) from pushq.result where root_id = \(root)") == 1
                    }
                }
                try await eventually("the end of another tenant's campaign", within: .seconds(20)) {
                    try await fixture.progress(key: "beta")["delivered"] == 200
                }
                #expect(try await fixture.number(held) == 2, "that transaction keeps its own message from going on")
                try await eventually("that to be said", within: .seconds(20)) {
                    fixture.events.contains("of acme/com.acme/sandbox cannot be ended")
                }
                try await session.runScript("rollback")
                try await eventually("what was held up goes on", within: .seconds(20)) {
                    try await fixture.number("select count(*) from pushq.result where retried > 0") >= 2
                }
            }
        }
    }

    /// Creates what is to be locked: a running campaign with an ended job that has failures, a paused campaign, a
    /// suspect that is due to be judged, a rate, a channel, a key, and a send for later. Returns the deed's SQL.
    private func prepare(_ acme: QueueName, for deed: Deed, in fixture: EngineFixture) async throws -> String {
        let id = try await queueID(of: acme, in: fixture)
        try await fixture.connection.runScript(
            """
            insert into pushq.rate_limit (tenant_id, queue_id, rate, burst) select tenant_id, id, 100, 10 from pushq.queue where id = \(id);
            select pushq.register_channel('\(acme)', 'abc', 0);
            insert into pushq.feedback (queue_id, device_id, reason, reported_at, recorded_at, verdict)
            select \(id), min(id), 1, now(), now() - interval '1 hour', 'suspect' from pushq.device where queue_id = \(id);
            select pushq.send('\(acme)', '{"aps":{"timestamp":1,"event":"update","content-state":{}}}', array['00ee'],
                              push_type => 'liveactivity', replace_waiting => true, key => 'earlier');
            select pushq.send('\(acme)', '{"aps":{"alert":"x"}}', array['00ed'], run_at => now() + interval '1 hour');
            """)
        try await fixture.startCampaign(acme, key: "running")
        _ = try await fixture.connection.fanOutStep(queueID: id, jobLimit: 3, scanLimit: 50_000)
        let claimed = try await fixture.connection.claim(
            [ClaimQuota(queueID: id, lane: .bulk, jobs: 1)], workerID: 1, lease: .seconds(15), atMostOnceWindow: 100)
        let job = try #require(claimed.first)
        let failed = [UInt8](repeating: Outcome.failed(.otherTransient).rawValue, count: job.deviceIDs.count)
        _ = try await fixture.connection.endJobs(
            [SettledJob(key: job.key, outcomes: failed, again: [], reports: [], notes: nil)], workerID: 1)
        try await fixture.startCampaign(acme, key: "paused")
        try await fixture.connection.runScript("select pushq.pause_campaign('\(acme)', 'paused')")
        let token = try await fixture.connection.execute(
            Statement(
                "token", "select encode(token, 'hex') as hex from pushq.device where queue_id = $1 order by id limit 1"),
            [.int4(id)])
        return deed.sql.replacing("$q", with: "\(acme)").replacing("$id", with: "\(id)")
            .replacing("$token", with: token[0].text("hex")).replacing("$job", with: "\(job.key.jobID)")
    }

    private func queueID(of queue: QueueName, in fixture: EngineFixture) async throws -> Int32 {
        Int32(try await fixture.number("select pushq.queue_id('\(queue)')"))
    }

    private func send(to queue: QueueName, in fixture: EngineFixture) async throws -> Int64 {
        let push = Statement("push", #"select pushq.send($1, '{"aps":{"alert":"x"}}', array['00ff'])"#)
        return try await fixture.connection.execute(push, [.text("\(queue)")]).one().int8("send")
    }

    /// The milliseconds that a worker's statement has waited for a lock so far. Statements of upkeep are left out,
    /// because nothing waits for them.
    private func lockWait(_ connection: PostgresConnection) async throws -> Int {
        let statement = Statement(
            "lock_wait",
            """
            select coalesce(max(extract(epoch from clock_timestamp() - l.waitstart) * 1000), 0)::int8 as milliseconds
            from pg_locks l
            join pg_stat_activity a using (pid)
            where a.datname = current_database() and not l.granted and a.application_name like 'pushq work%'
              and a.application_name <> 'pushq work (upkeep)'
            """)
        return Int(try await connection.execute(statement).one().int8("milliseconds"))
    }
}
