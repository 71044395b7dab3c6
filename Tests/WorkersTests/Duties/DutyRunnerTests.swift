import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@testable import Workers

@Suite(.timeLimit(.minutes(10))) struct `A duty of the fleet` {
    /// A duty that takes several times as long as its lease, in steps.
    private final class LongDuty: Duty {
        let name = "upkeep"
        let pause = Duration.seconds(3600)
        private let steps: Int
        private(set) var runs = 0
        private(set) var done = 0

        init(steps: Int) { self.steps = steps }

        func run(_ lease: DutyLease) async throws(PostgresError) {
            runs += 1
            while done < steps, try await lease.mayContinue() {
                done += 1
                try? await Task.sleep(for: .milliseconds(200))
            }
        }
    }

    private func runner(_ duty: LongDuty, workerID: Int64, of database: TestDatabase, on loop: EventLoop) -> DutyRunner
    {
        let context = EngineContext.testing(over: database.address, on: loop, workerID: workerID)
        return DutyRunner(context, duties: [duty], lease: .seconds(5))
    }

    private func whileRunning(
        _ duties: [any Duty], of database: TestDatabase, on actor: isolated LoopActor, _ body: () async throws -> Void
    ) async throws {
        let runner = DutyRunner(EngineContext.testing(over: database.address, on: actor.loop), duties: duties)
        let running = Task { [runner] in
            _ = actor
            await runner.run()
        }
        try await body()
        runner.stop()
        await running.value
    }

    private func lease(of duty: any Duty, _ context: EngineContext) -> DutyLease {
        DutyLease(
            name: duty.name, workerID: 1, length: .seconds(60), store: context.postgres.upkeep, takenAt: .now,
            isStopping: { false })
    }

    /// SQL: lets it be some days later than it is.
    private func setToday(_ days: Int) -> String {
        """
        create or replace function pushq.today() returns date
        language sql stable parallel safe as $$ select (now() at time zone 'UTC')::date + \(days) $$
        """
    }

    private func look(_ sql: String, in database: TestDatabase) async throws -> Int64 {
        try await database.connect().execute(Statement("look", "select (\(sql))::int8 as number")).one().int8("number")
    }

    @Test func `that takes longer than its lease is done by one worker`() async throws {
        try await withDatabase { actor, database in
            // The duty takes twelve seconds, under a lease of five.
            let (long, idle) = (LongDuty(steps: 60), LongDuty(steps: 0))
            let workers = [
                runner(long, workerID: 1, of: database, on: actor.loop),
                runner(idle, workerID: 2, of: database, on: actor.loop),
            ]
            let first = Task { [workers] in
                _ = actor
                await workers[0].run()
            }
            try await eventually("the first worker is at it", within: .seconds(30)) { long.runs == 1 }
            let second = Task { [workers] in
                _ = actor
                await workers[1].run()
            }
            try await eventually("the end of the duty", within: .seconds(60)) { long.done == 60 }
            try await eventually("its row", within: .seconds(30)) {
                try await look(
                    "select count(*) from pushq.duty where name = 'upkeep' and worker_id is null", in: database)
                    == 1
            }
            #expect(idle.runs == 0)
            for worker in workers { worker.stop() }
            await first.value
            await second.value
        }
    }

    @Test func `that a draining worker leaves is due at once for another`() async throws {
        try await withDatabase { actor, database in
            let long = LongDuty(steps: 100_000)
            let worker = runner(long, workerID: 1, of: database, on: actor.loop)
            let running = Task { [worker] in
                _ = actor
                await worker.run()
            }
            try await eventually("the worker is at it", within: .seconds(30)) { long.done > 2 }
            worker.stop()
            await running.value
            #expect(
                try await look(
                    "select count(*) from pushq.duty where name = 'upkeep' and worker_id is null and next_at <= now()",
                    in: database) == 1)
        }
    }

    /// A duty that takes no time.
    private final class ShortDuty: Duty {
        let name: String
        let pause = Duration.seconds(3600)
        private(set) var runs = 0

        init(_ name: String) { self.name = name }

        func run(_ lease: DutyLease) async throws(PostgresError) { runs += 1 }
    }

    @Test func `that a clock that was ahead put off is due when the clock is right again`() async throws {
        try await withDatabase { actor, database in
            try await database.connect().runScript(
                """
                update pushq.duty set next_at = now() + interval '10 days' where name in ('upkeep', 'credentials');
                update pushq.duty set worker_id = 7, deadline = now() + interval '10 days' where name = 'credentials';
                update pushq.duty set next_at = now() + interval '1 hour' where name = 'figures'
                """)
            let duties = ["upkeep", "credentials", "figures"].map(ShortDuty.init)
            try await whileRunning(duties, of: database, on: actor) {
                try await eventually("both", within: .seconds(30)) { duties.map(\.runs) == [1, 1, 0] }
            }
        }
    }

    @Test func `that is upkeep deletes nothing in the round that finds no partition for today`() async throws {
        try await withDatabase { actor, database in
            let connection = try await database.connect()
            try await connection.runScript(setToday(100))
            let context = EngineContext.testing(over: database.address, on: actor.loop)
            let duty = UpkeepDuty(context)
            let lease = lease(of: duty, context)
            let past =
                "select count(*) from pg_class where relname like 'result\\_%' and to_date(substring(relname from '_([0-9]{8})$'), 'YYYYMMDD') < pushq.today() - 90"
            try await duty.run(lease)
            #expect(try await look(past, in: database) == 6)
            #expect(try await connection.hasToday())
            try await duty.run(lease)
            #expect(try await look(past, in: database) == 0)
        }
    }

    /// After days without a worker, a run failed for PostgreSQL's reasons, and was tried again a minute later.
    @Test func `that is schedules starts nothing before upkeep has made the day's partitions`() async throws {
        try await withDatabase { actor, database in
            let connection = try await database.connect()
            _ = try await connection.createTenant("acme")
            _ = try await connection.createApp("com.acme", of: "acme")
            _ = try await connection.createQueue(.init(tenant: "acme", app: "com.acme", environment: .sandbox))
            try await connection.runScript(
                #"""
                select pushq.add_schedule('acme/com.acme/sandbox', 's', '* * * * *', '{"aps":{"alert":"x"}}');
                update pushq.schedule set next_at = date_trunc('minute', now());
                """#)
            try await connection.runScript(setToday(100))
            let context = EngineContext.testing(over: database.address, on: actor.loop)
            let duty = SchedulesDuty(context)
            let lease = lease(of: duty, context)
            try await duty.run(lease)
            #expect(try await look("select count(*) from pushq.schedule where problem is null", in: database) == 1)
            #expect(try await look("select count(*) from pushq.campaign", in: database) == 0)
            try await connection.runScript(setToday(0))
            try await duty.run(lease)
            #expect(try await look("select count(*) from pushq.campaign", in: database) == 1)
        }
    }

    /// All duties share a connection, and statements that wait for a lock for long lose it.
    @Test func `starts a campaign in time although a table is locked that another duty needs`() async throws {
        try await EngineFixture.run { _, fixture in
            _ = try await fixture.makeQueue(devices: 1)
            let session = try await fixture.database.connect()
            try await fixture.withEngine { engine in
                try await eventually("it to be ready") { await engine.snapshot().obstacles.isEmpty }
                try await session.runScript("begin; lock table pushq.feedback")
                let wait = """
                    select coalesce(max(extract(epoch from clock_timestamp() - l.waitstart)), 0)
                    from pg_locks l
                    join pg_stat_activity a using (pid)
                    where a.datname = current_database() and not l.granted
                      and a.application_name = 'pushq work (upkeep)'
                    """
                try await fixture.connection.runScript(
                    #"""
                    select pushq.add_schedule(
                      'acme/com.acme/sandbox', 's', format('0 0 1 %s *', extract(month from now() + interval '6 months')),
                      '{"aps":{"alert":"x"}}');
                    update pushq.schedule set next_at = now() + interval '15 seconds';
                    """#)
                var longest = 0
                try await eventually("a duty to fail, and the campaign of the schedule", within: .seconds(60)) {
                    longest = max(longest, try await fixture.number(wait))
                    return try await fixture.number("select count(*) from pushq.campaign") == 1
                        && fixture.events.contains("the duty listing failed")
                }
                // After ten seconds, the session would be given up, and the next one would wait as well.
                #expect(longest < 5, "a duty waited for the lock, in s")
                try await session.runScript("rollback")
            }
        }
    }

    @Test func `that is due waits for no other one that was`() async throws {
        try await withDatabase { actor, database in
            let duties = (1...8).map { ShortDuty("duty \($0)") }
            try await database.connect().runScript(
                "insert into pushq.duty (name) select 'duty ' || n from generate_series(1, 8) n")
            try await whileRunning(duties, of: database, on: actor) {
                try await eventually("the first one", within: .seconds(30)) { duties.contains { $0.runs == 1 } }
                let begun = ContinuousClock.now
                try await eventually("all", within: .seconds(60)) { duties.allSatisfy { $0.runs == 1 } }
                // If one of them were run every five seconds, the last one would wait for 35.
                #expect(begun.duration(to: .now) < .seconds(30))
            }
        }
    }

    @Test func `that has nothing to do is put off without a run, until it has`() async throws {
        try await withDatabase { actor, database in
            let duty = ShortDuty("reports")
            let due = "select count(*) from pushq.duty where name = 'reports' and next_at <= now()"
            try await whileRunning([duty], of: database, on: actor) {
                try await eventually("it to be put off", within: .seconds(30)) {
                    try await look(due, in: database) == 0
                }
                #expect(duty.runs == 0)
                try await database.connect().runScript(
                    """
                    insert into pushq.feedback_record (queue_id, token, reason, reported_at)
                    values (1, int8send(1), 1, now());
                    update pushq.duty set next_at = now() where name = 'reports'
                    """)
                try await eventually("its run", within: .seconds(30)) { duty.runs == 1 }
            }
        }
    }

    /// A duty that finds that it is due again at once.
    private final class EagerDuty: Duty {
        let name = "credentials"
        private(set) var pause = Duration.seconds(3600)
        let longestPause = Duration.seconds(3600)
        private(set) var runs = 0

        func run(_ lease: DutyLease) async throws(PostgresError) {
            runs += 1
            pause = .zero
        }
    }

    /// The pause that stood before the run used to be taken, so that an expired certificate that a worker had locked
    /// was reported ten minutes late.
    @Test func `that finds in its run when it is due again is due then`() async throws {
        try await withDatabase { actor, database in
            let duty = EagerDuty()
            try await whileRunning([duty], of: database, on: actor) {
                try await eventually("another run", within: .seconds(30)) { duty.runs > 1 }
            }
        }
    }
}
