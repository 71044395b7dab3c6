import Foundation
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

/// Schedules: `migrations/functions/schedules.sql`.
@Suite(.timeLimit(.minutes(10))) struct `A schedule` {
    private static let queue = "\(QueueFixture.name)"

    /// A run once an hour, but not within the next minutes.
    private static let hourly = "\((Int(Date.now.timeIntervalSince1970) / 60 + 30) % 60) * * * *"

    private func withSchedule(
        _ cron: String = Self.hourly, _ arguments: String = "",
        _ body: @escaping @Sendable (isolated LoopActor, TestDatabase, QueueFixture) async throws -> Void
    ) async throws {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database, devices: 3)
            try await add(cron, arguments, to: queue)
            try await body(actor, database, queue)
        }
    }

    private func add(
        _ cron: String = Self.hourly, _ arguments: String = "", name: String = "s", to queue: QueueFixture
    ) async throws {
        try await queue.run(
            #"select pushq.add_schedule('\#(Self.queue)', '\#(name)', '\#(cron)', '{"aps":{"alert":"x"}}'\#(arguments))"#
        )
    }

    /// Makes the schedule look as if no worker ran for `time` until now: its next run is the first one in that time.
    private func neglect(for time: String, _ queue: QueueFixture, name: String = "s") async throws {
        try await queue.run(
            """
            update pushq.schedule set next_at = pushq.cron_run(cron, time_zone, now() - interval '\(time)')
            where name = '\(name)'
            """)
    }

    /// Starts what is due, as a worker does, and returns the result of each run.
    @discardableResult
    private func runDue(_ queue: QueueFixture) async throws -> [DueRun] {
        var runs: [DueRun] = []
        while let run = try await queue.worker.runDueSchedule() { runs.append(run) }
        return runs
    }

    private func keys(_ queue: QueueFixture) async throws -> [String] {
        let statement = Statement(
            "keys", "select coalesce(array_agg(key order by id), '{}') as keys from pushq.campaign")
        return try await queue.connection.execute(statement).one().textArray("keys")
    }

    private func isDue(_ queue: QueueFixture) async throws -> Bool {
        try await queue.number("select count(*) from pushq.schedule where next_at <= now()") > 0
    }

    /// A column of the schedule, as text.
    private func value(_ column: String, _ queue: QueueFixture) async throws -> String? {
        let statement = Statement("value \(column)", "select (\(column))::text as value from pushq.schedule s")
        return try await queue.connection.execute(statement).one().optionalText("value")
    }

    // MARK: Its runs

    @Test func `starts a campaign at each run, once, under the key of that run, with all that it was given`()
        async throws
    {
        let options = """
            , options => '{"filter": "user is missing", "max_rate": 50, "urgent": true, "priority": 5, \
            "collapse_id": "c", "send_by": "2 hours", "expiration": "1 hour", "stop_at_errors": 0.25}'
            """
        try await withSchedule(Self.hourly, options) { _, _, queue in
            #expect(try await runDue(queue) == [])
            try await neglect(for: "1 hour", queue)
            let key = try #require(try await value("pushq.run_key(name, next_at)", queue))
            let runs = try await runDue(queue)
            #expect(runs.map(\.event) == [.started(campaign: key)])
            #expect(runs.map(\.queue) == [Self.queue] && runs.map(\.schedule) == ["s"])
            #expect(try await runDue(queue) == [])
            #expect(try await keys(queue) == [key])
            let facts = try await queue.connection.execute(
                Statement(
                    "facts",
                    #"""
                    select concat_ws(' ', k.filter, k.stop_at_errors, r.rate, f.lane % 3, f.send_by = k.created_at + interval '2 hours',
                                     f.start_at = k.created_at, m.priority, m.collapse_id,
                                     m.expiration - extract(epoch from k.created_at) between 3599 and 3601, m.payload) as text
                    from pushq.campaign k
                    join pushq.fan_out f on f.campaign_id = k.id
                    join pushq.message m on m.id = k.message_id
                    join pushq.rate_limit r on r.campaign_id = k.id
                    """#)
            ).one().text("text")
            #expect(facts == #"user is missing 0.25 50 0 t t 5 c t {"aps":{"alert":"x"}}"#)
            #expect(try await value("next_at > now() and next_at <= now() + interval '1 hour'", queue) == "true")
        }
    }

    @Test func `that was missed for a day makes up for each run, for one, or for none, as it says`() async throws {
        for (policy, count) in [("all", 24), ("once", 1), ("skip", 1)] {
            try await withSchedule(Self.hourly, ", after_outage => '\(policy)'") { _, _, queue in
                try await neglect(for: "1 day", queue)
                let last = try #require(
                    try await value("pushq.run_key(name, pushq.cron_run(cron, time_zone, now(), true))", queue))
                #expect(try await runDue(queue).count == count, "\(policy)")
                let keys = try await keys(queue)
                #expect(keys.count == count && Set(keys).count == count && keys.last == last, "\(policy): \(keys)")
                #expect(try await isDue(queue) == false)
            }
        }
    }

    @Test func `says how many runs it leaves out, and which`() async throws {
        for (policy, outage, runs) in [
            ("once", "1 day", 23), ("skip", "1 day", 23), ("all", "3 hours", nil), ("once", "1 hour", nil),
        ] {
            try await withSchedule(Self.hourly, ", after_outage => '\(policy)'") { _, _, queue in
                try await neglect(for: outage, queue)
                let shown = try await queue.texts(
                    """
                    select pushq.shown_time(next_at) from pushq.schedule
                    union all
                    select pushq.shown_time(pushq.cron_run(cron, time_zone, pushq.cron_run(cron, time_zone, now(), true)
                                                                            - interval '1 second', true))
                    from pushq.schedule
                    """)
                let wanted = runs.map { DueRun.LeftOut(runs: $0, first: shown[0], last: shown[1]) }
                let found = try await runDue(queue)
                #expect(found.first?.leftOut == wanted, "\(policy)")
                #expect(found.dropFirst().allSatisfy { $0.leftOut == nil })
                #expect(try await value("pushq.shown_time(missed_at)", queue) == wanted?.last, "\(policy)")
            }
        }
        try await withSchedule("* * * * *", ", after_outage => 'once'") { _, _, queue in
            try await neglect(for: "1 year", queue)
            #expect(try await runDue(queue).first?.leftOut?.runs == 10_000)
        }
    }

    @Test func `leaves a run out that is more than an hour late only if it skips`() async throws {
        for (policy, events) in [("all", 1), ("once", 1), ("skip", 0)] {
            try await withDatabase { _, database in
                let queue = try await QueueFixture(database)
                // A daily run at the time of two hours ago.
                let minute = try await queue.number(
                    "select extract(minute from (now() - interval '2 hours') at time zone 'UTC')")
                let hour = try await queue.number(
                    "select extract(hour from (now() - interval '2 hours') at time zone 'UTC')")
                try await add("\(minute) \(hour) * * *", ", after_outage => '\(policy)'", to: queue)
                try await neglect(for: "3 hours", queue)
                let runs = try await runDue(queue)
                #expect(runs.count == 1)
                #expect(try await keys(queue).count == events, "\(policy)")
                if policy == "skip" {
                    #expect(runs.map(\.event) == [.missed] && runs[0].leftOut?.runs == 1)
                    #expect(try await value("missed_at < now() - interval '1 hour'", queue) == "true")
                }
                #expect(try await isDue(queue) == false)
            }
        }
    }

    @Test func `is started once by several workers that look at the same time`() async throws {
        try await withSchedule { _, database, queue in
            try await neglect(for: "1 hour", queue)
            let (one, other) = (queue.worker, try await database.connect(login: TestServer.workerLogin))
            try await one.runScript("begin")
            let first = try await one.runDueSchedule()
            // The second worker does not wait, and finds no run.
            #expect(try await other.runDueSchedule() == nil)
            try await one.runScript("commit")
            #expect(try await other.runDueSchedule() == nil)
            #expect(first != nil)
            #expect(try await keys(queue).count == 1)
        }
    }

    @Test func `is started by another worker if the first is lost before its commit, and not again after it`()
        async throws
    {
        try await withSchedule { _, database, queue in
            try await neglect(for: "1 hour", queue)
            let doomed = try await database.connect(login: TestServer.workerLogin)
            try await doomed.runScript("begin")
            #expect(try await doomed.runDueSchedule() != nil)
            doomed.close()
            try await eventually("the lost worker's transaction is over") {
                try await queue.worker.runDueSchedule() != nil
            }
            #expect(try await keys(queue).count == 1)
            // This is the state if a worker's commit was not answered, or if the schedule was restored from a copy: the
            // run is due again, and its campaign exists.
            try await neglect(for: "1 hour", queue)
            #expect(try await runDue(queue).count == 1)
            #expect(try await keys(queue).count == 1)
        }
    }

    @Test func `that cannot start its run says why, tries again, and holds up no other one`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            _ = try await queue.connection.saveAudience(
                "vips", filter: "tag 'a'", ofQueue: QueueFixture.name, isReplacing: false)
            let options = ", options => '{\"filter\": \"audience vips\"}', after_outage => 'once'"
            try await add(Self.hourly, options, to: queue)
            try await add(Self.hourly, name: "other", to: queue)
            try await queue.run("delete from pushq.audience")
            for name in ["s", "other"] { try await neglect(for: "1 hour", queue, name: name) }
            let runs = try await runDue(queue)
            #expect(runs.count == 2)
            #expect(
                runs.contains { $0.schedule == "s" && $0.event == .failed(problem: "there is no audience “vips”") },
                "\(runs)")
            #expect(try await keys(queue).map { $0.prefix(6) } == ["other@"])
            #expect(try await runDue(queue) == [])
            let shown = try await queue.connection.schedules(ofQueue: QueueFixture.name, named: "s")
            #expect(
                shown[0].problems.contains {
                    $0.contains(/could not be started, and is tried again at \S+: there is no audience “vips”/)
                })

            try await queue.run("update pushq.schedule set retry_at = now() where problem is not null")
            #expect(try await runDue(queue).map(\.event) == [.failedAgain])
            _ = try await queue.connection.saveAudience(
                "vips", filter: "tag 'a'", ofQueue: QueueFixture.name, isReplacing: false)
            try await queue.run("update pushq.schedule set retry_at = now() where problem is not null")
            #expect(try await runDue(queue).count == 1)
            #expect(try await keys(queue).count == 2)
            try await queue.addCredential()
            #expect(try await queue.connection.schedules(ofQueue: QueueFixture.name, named: "s")[0].problems == [])
        }
    }

    @Test func `that fell due while its tenant was suspended is tried at once when that is resumed`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await add(Self.hourly, ", after_outage => 'skip'", to: queue)
            try await neglect(for: "1 hour", queue)
            try await queue.run("select pushq.suspend_tenant('acme', true)")
            #expect(try await runDue(queue).map(\.event) == [.failed(problem: "tenant “acme” is suspended")])
            #expect(try await runDue(queue) == [])
            try await queue.run("select pushq.suspend_tenant('acme', false)")
            #expect(try await runDue(queue).count == 1)
            #expect(try await keys(queue).count == 1)
        }
    }

    @Test func `whose saved audience has grown too large since says so, and holds up no other one`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            func save(_ filter: String) async throws {
                _ = try await queue.connection.saveAudience(
                    "tiny", filter: filter, ofQueue: QueueFixture.name, isReplacing: true)
            }
            try await save("tag 'a'")
            let filter = Array(repeating: "audience tiny", count: 20).joined(separator: " or ")
            try await add(Self.hourly, ", options => '{\"filter\": \"\(filter)\"}', after_outage => 'once'", to: queue)
            try await add(Self.hourly, name: "other", to: queue)
            try await save(Array(repeating: "tag 'a'", count: 190).joined(separator: " or "))
            for name in ["s", "other"] { try await neglect(for: "1 hour", queue, name: name) }
            _ = try await runDue(queue)
            #expect(try await keys(queue).map { $0.prefix(6) } == ["other@"])
            let shown = try await queue.connection.schedules(ofQueue: QueueFixture.name, named: "s")
            let problem = "the filter is too large with its saved audiences: it has 3800 conditions, and may have 200"
            #expect(shown[0].problems.contains { $0.contains(problem) }, "\(shown[0].problems)")
        }
    }

    @Test func `whose key a producer has used in an open transaction is tried again, and holds up no other one`()
        async throws
    {
        try await withSchedule { _, database, queue in
            try await add(name: "other", to: queue)
            for name in ["s", "other"] { try await neglect(for: "1 hour", queue, name: name) }
            let key = try await queue.texts("select pushq.run_key(name, next_at) from pushq.schedule where name = 's'")[
                0]
            let producer = try await database.connect()
            let start = #"select pushq.start_campaign('\#(Self.queue)', '\#(key)', '{"aps":{"alert":"x"}}')"#
            try await producer.runScript("begin; \(start)")
            let runs = try await runDue(queue)
            #expect(runs.count == 2)
            let problem = "another transaction holds campaign “\(key)”"
            #expect(runs.contains { $0.schedule == "s" && $0.event == .failed(problem: problem) }, "\(runs)")
            #expect(try await keys(queue).map { $0.prefix(6) } == ["other@"])
        }
    }

    @Test func `makes up many runs without holding up another schedule`() async throws {
        try await withSchedule(Self.hourly, ", after_outage => 'all'") { _, _, queue in
            try await add(name: "other", to: queue)
            try await neglect(for: "2 days", queue)
            try await neglect(for: "1 hour", queue, name: "other")
            let order = try await runDue(queue).map(\.schedule)
            #expect(order.count == 49)
            #expect(try #require(order.firstIndex(of: "other")) < 2)
        }
    }

    @Test func `is tried again later each time, and many that fail keep no other tenant's from its time`() async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            _ = try await queue.connection.createTenant("beta")
            _ = try await queue.connection.createApp("com.beta", of: "beta")
            let neighbour = QueueName(tenant: "beta", app: "com.beta", environment: .sandbox)
            _ = try await queue.connection.createQueue(neighbour)
            try await queue.run(
                #"select pushq.add_schedule('\#(neighbour)', 'theirs', '\#(Self.hourly)', '{"aps":{"alert":"x"}}')"#)
            for number in 1...20 { try await add(name: "failing\(number)", to: queue) }
            try await queue.run(
                #"update pushq.schedule set options = '{"filter": "audience gone"}' where name like 'failing%'"#)
            func fail() async throws -> [DueRun] {
                try await queue.run(
                    """
                    update pushq.schedule set retry_at = now() where problem is not null;
                    update pushq.schedule
                    set next_at = pushq.cron_run(cron, time_zone, now(), true)
                      - case name when 'theirs' then interval '0' else interval '1 hour' end
                    """)
                return try await runDue(queue)
            }
            for _ in 1...3 {
                let order = try await fail().map(\.schedule)
                #expect(order.count == 21)
                #expect(try #require(order.firstIndex(of: "theirs")) < 2, "\(order)")
            }
            let waits =
                "select round(extract(epoch from retry_at - tried_at)) from pushq.schedule where name = 'failing1'"
            #expect(try await queue.number(waits) == 240)
            for _ in 1...3 { _ = try await fail() }
            #expect(try await queue.number(waits) == 900)
        }
    }

    @Test func `is tried again at once if a clock that was ahead wrote when`() async throws {
        try await withSchedule { _, _, queue in
            try await queue.run(
                """
                update pushq.schedule
                set next_at = pushq.cron_run(cron, time_zone, now(), true), problem = 'gone', failures = 1,
                    retry_at = now() + interval '14 minutes'
                """)
            #expect(try await runDue(queue).isEmpty, "no run waits longer than 15 minutes")
            try await queue.run("update pushq.schedule set retry_at = now() + interval '1 day'")
            #expect(try await runDue(queue).count == 1)
        }
    }

    @Test func `is chosen without looking at the others again for each that is due`() async throws {
        try await withSchedule { _, _, queue in
            try await queue.run(
                """
                with
                  t as (insert into pushq.tenant (name) select 'many' || i from generate_series(1, 40) i returning id),
                  a as (
                    insert into pushq.app (tenant_id, bundle_id) select t.id, 'com.many' from t returning tenant_id, id),
                  q as (
                    insert into pushq.queue (tenant_id, app_id, environment)
                    select a.tenant_id, a.id, 'sandbox' from a
                    returning id)
                insert into pushq.schedule (queue_id, name, cron, time_zone, after_outage, payload, options, next_at)
                select q.id, 's' || i, '* * * * *', 'UTC', 'once', '{"aps":{"alert":"x"}}', '{}',
                       date_trunc('minute', now())
                from q, generate_series(1, 50) i
                """)
            let rows = """
                select sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint from pg_stat_user_tables
                where schemaname = 'pushq' and relname in ('schedule', 'queue')
                """
            // The first call also reads the table to plan the statement.
            _ = try await queue.connection.runDueSchedule()
            try await queue.run("select pg_stat_force_next_flush()")
            let before = try await queue.number(rows)
            let run = try await queue.connection.runDueSchedule()
            try await queue.run("select pg_stat_force_next_flush()")
            guard case .started = try #require(run).event else {
                Issue.record("\(String(describing: run))")
                return
            }
            let read = try await queue.number("\(rows) -- afterwards") - before
            #expect(read > 2000)
            #expect(read < 5000, "2,001 schedules and 41 queues, and those that are due of the tenant whose turn it is")
        }
    }

    // MARK: Operations on a schedule

    @Test func `that is paused starts nothing, and does not make up for it when it is resumed`() async throws {
        try await withSchedule(Self.hourly, ", after_outage => 'all'") { _, _, queue in
            let (store, name) = (queue.connection, QueueFixture.name)
            #expect(try await store.order(.pause, schedule: "s", ofQueue: name))
            #expect(try await store.order(.pause, schedule: "s", ofQueue: name) == false)
            try await neglect(for: "1 day", queue)
            #expect(try await runDue(queue) == [])
            let paused = try await store.schedules(ofQueue: name, named: "s", runs: 3)[0]
            #expect(paused.isPaused && paused.nextRuns.count == 3 && paused.nextRuns.allSatisfy { $0 > .now })
            #expect(paused.problems.contains { $0.contains("resume it with: pushq schedule resume") })
            #expect(try await store.order(.resume, schedule: "s", ofQueue: name))
            #expect(try await store.order(.resume, schedule: "s", ofQueue: name) == false)
            #expect(try await runDue(queue) == [])
            #expect(try await keys(queue) == [])
        }
    }

    @Test func `can be tried by hand, which changes nothing for its runs`() async throws {
        try await withSchedule { _, _, queue in
            let before = try await value("s", queue)
            let one = try await queue.connection.runSchedule("s", ofQueue: QueueFixture.name)
            let two = try await queue.connection.runSchedule("s", ofQueue: QueueFixture.name)
            #expect(one != two)
            #expect(try await keys(queue) == [one, two])
            #expect(try await value("s", queue) == before)
        }
    }

    @Test func `is the same when it is added again, and replaced only if that is wanted`() async throws {
        try await withSchedule { _, _, queue in
            let before = try await value("s", queue)
            try await add(to: queue)
            #expect(try await value("s", queue) == before)
            try await add(Self.hourly, ", after_outage => null, replaces => null", to: queue)
            #expect(try await value("after_outage", queue) == "skip")
            for replaces in ["", ", replaces => null"] {
                let error = await #expect(throws: PostgresError.self) { try await add("@daily", replaces, to: queue) }
                #expect(
                    error?.description.contains("there is already a different schedule “s”: \(Self.hourly) in UTC")
                        == true)
            }
            try await add("@daily", ", replaces => true, time_zone => 'Europe/Vienna'", to: queue)
            #expect(try await value("cron", queue) == "@daily")
            #expect(
                try await value(
                    "next_at = date_trunc('day', now() at time zone time_zone + interval '1 day') at time zone time_zone",
                    queue)
                    == "true")
            #expect(try await queue.connection.order(.remove, schedule: "s", ofQueue: QueueFixture.name))
            #expect(try await queue.connection.order(.remove, schedule: "s", ofQueue: QueueFixture.name) == false)
        }
    }

    @Test func `is the same however its cron expression, its filter and its payload are written`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            func add(_ cron: String, _ payload: String, _ filter: String) async throws -> String {
                try await queue.texts(
                    """
                    select pushq.add_schedule('\(QueueFixture.name)', 's', '\(cron)', '\(payload)',
                                              options => jsonb_build_object('filter', '\(filter)'))::text
                    """)[0]
            }
            let first = try await add("0 9 * * 1,2", #"{"aps":{"alert":"é"},"id":"4e1b"}"#, "tag \"a\"")
            let again = try await add(" 00  9 * * MON-TUE", #"{"id": "4e1b", "aps":{"alert":"\u00e9"}}"#, "(TAG \"a\")")
            #expect(again == first)
            for (cron, filter) in [("0 9 * * 1,3", "tag \"a\""), ("0 9 * * 1,2", "tag \"b\"")] {
                await #expect(throws: PostgresError.self) {
                    try await add(cron, #"{"aps":{"alert":"é"},"id":"4e1b"}"#, filter)
                }
            }
        }
    }

    @Test(arguments: [0, 1, 3], [false, true])
    func `is shown with as many next runs as are asked for`(runs: Int, isPaused: Bool) async throws {
        try await withSchedule { _, _, queue in
            if isPaused { try await queue.run("select pushq.pause_schedule('\(QueueFixture.name)', 's')") }
            #expect(
                try await queue.number(
                    "select cardinality(next_runs) from pushq.show_schedules('\(QueueFixture.name)', null, \(runs))")
                    == runs)
        }
    }

    @Test func `that is replaced while a run is due starts it with the new content`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            _ = try await queue.connection.saveAudience(
                "vips", filter: "tag 'a'", ofQueue: QueueFixture.name, isReplacing: false)
            try await add(Self.hourly, ", options => '{\"filter\": \"audience vips\"}'", to: queue)
            try await queue.run("delete from pushq.audience")
            try await neglect(for: "1 hour", queue)
            let due = try #require(try await value("next_at", queue))
            // A problem holds up the schedule; its new content does not have that problem.
            #expect(try await runDue(queue).map(\.event) == [.failed(problem: "there is no audience “vips”")])
            try await add(
                Self.hourly, ", options => '{\"priority\": 5}', replaces => true, time_zone => 'UTC'", to: queue)
            #expect(try await runDue(queue).count == 1)
            #expect(try await keys(queue).count == 1)
            #expect(try await value("run_at", queue) == due)
            #expect(try await queue.number("select priority from pushq.message") == 5)
        }
    }

    @Test func `that gets other times while a run is due has missed it, unless it is paused`() async throws {
        try await withSchedule { _, _, queue in
            try await neglect(for: "2 hours", queue)
            let last = try #require(try await value("next_at + interval '1 hour'", queue))
            try await add("@yearly", ", replaces => true", to: queue)
            #expect(try await value("missed_at", queue) == last)
            #expect(try await runDue(queue) == [])

            try await queue.run("update pushq.schedule set missed_at = null, paused_at = now(), next_at = now()")
            try await add("@monthly", ", replaces => true", to: queue)
            #expect(try await value("missed_at", queue) == nil)
        }
    }

    @Test func `shows its next runs, and in words what is in their way`() async throws {
        try await withSchedule { _, _, queue in
            let (store, name) = (queue.connection, QueueFixture.name)
            func shown() async throws -> ScheduleSummary { try await store.schedules(ofQueue: name, runs: 3)[0] }
            let hours = try await shown().nextRuns.map { $0.timeIntervalSince1970 / 3600 }
            #expect(hours.count == 3 && hours[1] == hours[0] + 1 && hours[2] == hours[0] + 2)
            let credential =
                "the queue has no credential; add one with: pushq-admin credential add, or choose one that the tenant "
                + "has with: pushq-admin queue set \(name) --credential NAME"
            #expect(try await shown().problems == [credential])
            try await queue.addCredential()
            #expect(try await shown().problems == [])

            try await queue.run("update pushq.queue set paused_at = now(), paused_reason = 'by hand'")
            #expect(try await shown().problems == ["the queue is paused, so its campaigns wait: by hand"])
            try await queue.run("update pushq.queue set paused_at = null, paused_reason = null")
            try await neglect(for: "1 hour", queue)
            #expect(
                try await shown().problems[0].hasSuffix("is late: no worker starts it; see: pushq-admin worker list"))
            #expect(try await store.setTenant("acme", isSuspended: true) == true)
            #expect(try await shown().problems == ["tenant “acme” is suspended: nothing is started"])
            #expect(try await runDue(queue).map(\.event) == [.failed(problem: "tenant “acme” is suspended")])
            #expect(try await keys(queue) == [])
        }
    }

    private static let mistakes: [(arguments: String, problem: String)] = [
        ("'s', '0 9 * *', PAYLOAD", "the cron expression is wrong at position 8"),
        ("'a b', '@daily', PAYLOAD", "“a b” cannot be the name of a schedule"),
        ("'s', '@daily', PAYLOAD, time_zone => 'CET'", "the time zone “CET” is unknown"),
        ("'s', '@daily', PAYLOAD, time_zone => ''", "the time zone is empty"),
        ("'s', '@daily', PAYLOAD, after_outage => 'onec'", "after_outage cannot be “onec”; did you mean “once”?"),
        ("'s', '@daily', PAYLOAD, options => '[]'", "the options are not a JSON object"),
        (
            "'s', '@daily', PAYLOAD, options => '{\"maxrate\": 5}'",
            "there is no option “maxrate” of a campaign; did you mean “max_rate”?"
        ),
        ("'s', '@daily', PAYLOAD, options => '{\"start_at\": \"1 h\"}'", "there is no option “start_at” of a campaign"),
        (
            "'s', '@daily', PAYLOAD, options => '{\"max_rate\": \"fast\"}'",
            "the option “max_rate” cannot be “fast”; write it as a number, without quotes"
        ),
        (
            "'s', '@daily', PAYLOAD, options => '{\"send_by\": \"later\"}'",
            "the option “send_by” cannot be “later”; write it as an interval, such as \"6 hours\""
        ),
        ("'s', '@daily', PAYLOAD, options => '{\"filter\": \"tga 1\"}'", "the filter is wrong at position 1"),
        ("'s', '@daily', PAYLOAD, options => '{\"priority\": 7}'", "priority"),
        (
            "'s', '@daily', PAYLOAD, options => '{\"local_time\": \"2026-12-24T18:00\"}'",
            "the local time of a schedule has no date, and “2026-12-24T18:00” has one"
        ),
        ("'s', '@daily', '{\"aps\":1}'", "aps"),
        ("'s', '@daily', PAYLOAD, options => '{\"send_by\": \"-1 hour\"}'", "send_by"),
    ]

    @Test func `shows one run where nobody says how many`() async throws {
        try await withSchedule { _, _, queue in
            let runs = "select cardinality(next_runs) from pushq.show_schedules('\(QueueFixture.name)', 's', null)"
            let count = try await queue.number(runs)
            #expect(count == 1)
        }
    }

    @Test func `is refused with whatever a campaign would be refused with, and leaves nothing behind`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            for (arguments, problem) in Self.mistakes {
                let call = arguments.replacing("PAYLOAD", with: #"'{"aps":{"alert":"x"}}'"#)
                let error = await #expect(throws: PostgresError.self, "\(arguments)") {
                    try await queue.run("select pushq.add_schedule('\(Self.queue)', \(call))")
                }
                #expect(error?.description.contains(problem) == true, "\(arguments): \(String(describing: error))")
            }
            try await add(to: queue)
            for table in ["campaign", "message", "fan_out", "rate_limit"] {
                #expect(try await queue.number("select count(*) from pushq.\(table)") == 0, "\(table)")
            }
        }
    }
}
