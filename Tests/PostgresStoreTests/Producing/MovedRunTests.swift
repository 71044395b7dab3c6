import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

/// Schedules whose next run was stored before the server got other time zone data: `pushq.moved_run`.
@Suite(.timeLimit(.minutes(10))) struct `A schedule's run that was calculated with other time zone data` {
    /// Runs `body` with a schedule that runs once a day, `minutes` from now, in UTC.
    private func withSchedules(
        _ names: [String] = ["s"], minutes: Int, _ body: @escaping @Sendable (QueueFixture) async throws -> Void
    ) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            let cron = try await queue.texts(
                """
                select concat_ws(' ', extract(minute from t), extract(hour from t), '* * *')
                from (select now() at time zone 'UTC' + interval '\(minutes) minutes' as t) n
                """)[0]
            for name in names {
                try await queue.run(
                    #"""
                    select pushq.add_schedule('\#(QueueFixture.name)', '\#(name)', '\#(cron)', '{"aps":{"alert":"x"}}')
                    """#)
            }
            try await body(queue)
        }
    }

    private func runDue(_ queue: QueueFixture) async throws -> [DueRun.Event] {
        var events: [DueRun.Event] = []
        while let run = try await queue.worker.runDueSchedule() { events.append(run.event) }
        return events
    }

    /// The run of the day before was started at the time that the present data says, or at that of the former data; or
    /// the schedule is new.
    @Test(
        arguments: ["next_at - interval '24 hours'", "next_at - interval '25 hours'", "null"], ["skip", "once", "all"])
    func `and is later now is started once, at its time`(lastRun: String, afterOutage: String) async throws {
        try await withSchedules(["s", "t"], minutes: 30) { queue in
            try await queue.run(
                """
                update pushq.schedule
                set after_outage = '\(afterOutage)', run_at = \(lastRun), next_at = next_at - interval '1 hour',
                    problem = 'it failed', failures = 1, retry_at = now()
                """)
            #expect(try await runDue(queue) == [.moved, .moved])
            #expect(try await queue.number("select count(*) from pushq.campaign") == 0)
            let states = try await queue.texts(
                """
                select distinct concat_ws(' ', next_at = pushq.cron_run(cron, time_zone, now()), problem, missed_at)
                from pushq.schedule
                """)
            #expect(states == ["t"])
            #expect(try await runDue(queue) == [])
        }
    }

    @Test(arguments: ["skip", "once", "all"])
    func `and is earlier now is started once, late`(afterOutage: String) async throws {
        try await withSchedules(minutes: -70) { queue in
            try await queue.run(
                """
                update pushq.schedule
                set after_outage = '\(afterOutage)', next_at = next_at - interval '23 hours',
                    run_at = next_at - interval '47 hours'
                """)
            let events = try await runDue(queue)
            #expect(events.count == 1 && events.first != .moved, "\(events)")
            #expect(try await queue.number("select count(*) from pushq.campaign") == 1)
            let next = "select count(*) from pushq.schedule where next_at = pushq.cron_run(cron, time_zone, now())"
            #expect(try await queue.number(next) == 1)
        }
    }
}
