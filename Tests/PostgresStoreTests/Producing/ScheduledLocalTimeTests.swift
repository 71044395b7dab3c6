import Foundation
import PostgresStore
import TestSupport
import Testing

/// Schedules at a local time: `pushq.run_wave` in `migrations/functions/local_time.sql`.
@Suite(.timeLimit(.minutes(10))) struct `A daily schedule at a local time` {
    private static let queue = "\(QueueFixture.name)"

    // MARK: Each day once

    /// Over 13 months: the number of days with two runs, the number without a run, and how many minutes after its run a
    /// campaign is due, at least and at most. A negative number is before the run.
    private static let days = Statement(
        "days",
        #"""
        with recursive runs as (
          select pushq.cron_run($cron, $run_zone, $start::timestamptz) as run, 1 as n
          union all
          select pushq.cron_run($cron, $run_zone, run), n + 1 from runs where n < 400),
        due as (
          select run, pushq.wave_of(
                   pushq.read_clock($time) || jsonb_build_object(
                     'start', run, 'run', pushq.run_local($cron, $run_zone, run), 'run_zone', $run_zone::text),
                   $zone) as due
          from runs),
        days as (select (due at time zone $zone)::date as day, count(*) as n from due group by 1)
        select (select count(*) from days where n > 1) as twice,
               (select max(day) - min(day) + 1 - count(*) from days) as never,
               (select extract(epoch from min(due - run)) / 60 from due)::int8 as earliest,
               (select extract(epoch from max(due - run)) / 60 from due)::int8 as latest
        """#)

    private struct Case {
        var zone: String
        var time: String
        var cron: String
        var runZone = "UTC"
        var start = "2026-12-01"
    }

    private static let cases = [
        Case(zone: "Australia/Adelaide", time: "09:00", cron: "@daily"),
        Case(zone: "Europe/Berlin", time: "09:00", cron: "0 8 * * *"),
        Case(zone: "Europe/Berlin", time: "08:30", cron: "0 8 * * *", runZone: "Europe/Berlin"),
        // The run's time, or the device's, is skipped or occurs twice when clocks change.
        Case(zone: "Europe/Berlin", time: "03:00", cron: "30 2 * * *", runZone: "Europe/Berlin"),
        Case(zone: "Europe/Berlin", time: "02:30", cron: "0 2 * * *", runZone: "Europe/Berlin"),
        Case(zone: "America/Havana", time: "00:00", cron: "0 5 * * *"),
        // Clocks skip the last hour of a day, so the run is on the next day.
        Case(zone: "America/Nuuk", time: "00:15", cron: "30 23 * * *", runZone: "America/Nuuk"),
        Case(zone: "America/Scoresbysund", time: "09:00", cron: "0 23 * * *", runZone: "America/Scoresbysund"),
        Case(zone: "UTC", time: "06:00", cron: "30 23 * * *", runZone: "America/Nuuk"),
        // First, only the schedule's clocks change; then both change, on different days.
        Case(zone: "Asia/Kolkata", time: "12:00", cron: "0 8 * * *", runZone: "Europe/Berlin"),
        Case(zone: "America/New_York", time: "08:30", cron: "0 14 * * *", runZone: "Europe/Berlin"),
        Case(zone: "Africa/Casablanca", time: "00:30", cron: "0 0 * * *"),
        Case(zone: "Australia/Lord_Howe", time: "10:45", cron: "@daily"),
        Case(zone: "Pacific/Chatham", time: "13:00", cron: "@daily"),
        // A zone that skipped 30 December, on either side of the change, which was at 10:00 UTC.
        Case(zone: "Pacific/Apia", time: "09:00", cron: "@daily", start: "2011-08-01"),
        Case(zone: "Pacific/Apia", time: "20:00", cron: "@daily", start: "2011-08-01"),
    ]

    private static let zones = [
        "Australia/Adelaide", "Australia/Lord_Howe", "Pacific/Chatham", "Pacific/Easter", "Asia/Kolkata",
        "Asia/Kathmandu", "America/St_Johns", "America/New_York", "America/Havana", "America/Santiago", "America/Nuuk",
        "America/Scoresbysund", "Europe/Berlin", "Europe/Dublin", "Africa/Casablanca", "Africa/Cairo", "Asia/Beirut",
        "Asia/Gaza", "Antarctica/Troll",
        "Pacific/Kiritimati", "Etc/GMT+12", "UTC",
    ]

    private static func randomCase(_ dice: inout SeededGenerator) -> Case {
        let quarters = (0..<96).map { "\($0 / 40)\($0 / 4 % 10):\(["00", "15", "30", "45"][$0 % 4])" }
        return Case(
            zone: zones.randomElement(using: &dice)!, time: quarters.randomElement(using: &dice)!,
            cron: "\([0, 15, 30].randomElement(using: &dice)!) \(Int.random(in: 0...23, using: &dice)) * * *",
            runZone: zones.randomElement(using: &dice)!)
    }

    @Test func `reaches a device once on each day of its zone, behind the run, however clocks change`() async throws {
        var dice = SeededGenerator(seed: 11)
        let cases = Self.cases + seeds(5).map { _ in Self.randomCase(&dice) }
        try await withDatabase { _, database in
            let store = try await database.connect()
            for each in cases {
                let found = try await store.execute(
                    Self.days,
                    [
                        "cron": .text(each.cron), "run_zone": .text(each.runZone), "start": .text(each.start),
                        "time": .text(each.time), "zone": .text(each.zone),
                    ]
                ).one()
                #expect(found.int8("twice") == 0, "\(each)")
                // Apia skipped one day.
                #expect(found.int8("never") == (each.zone == "Pacific/Apia" ? 1 : 0), "\(each)")
                // A campaign is due before its run only on a day of a clock change. Clocks in Troll change by two
                // hours.
                #expect(found.int8("earliest") >= -60 && found.int8("latest") <= 27 * 60, "\(each)")
            }
        }
    }

    // MARK: Its runs

    /// The hour and minute in UTC `minutes` minutes from now.
    private static func clock(_ minutes: Int) -> (hour: Int, minute: Int) {
        let minute = Int(Date.now.timeIntervalSince1970) / 60 + minutes
        return (minute / 60 % 24, minute % 60)
    }

    /// Adds a schedule with a run five minutes ago at the local time `minutes` minutes from now in UTC, and starts the
    /// run.
    private func run(_ name: String, at minutes: Int, daysAgo: Int = 0, _ queue: QueueFixture) async throws {
        let (run, time) = (Self.clock(-5), Self.clock(minutes))
        let local = "\(time.hour < 10 ? "0" : "")\(time.hour):\(time.minute < 10 ? "0" : "")\(time.minute)"
        let options = #"{"local_time": "\#(local)", "default_zone": "UTC"}"#
        let day = daysAgo == 0 ? "'* * *'" : "to_char(now() - interval '\(daysAgo) days 5 minutes', 'DD MM *')"
        try await queue.run(
            """
            set time zone 'UTC';
            select pushq.add_schedule(
              '\(Self.queue)', '\(name)', '\(run.minute) \(run.hour) ' || \(day), '{"aps":{"alert":"x"}}',
              after_outage => 'once', options => '\(options)');
            update pushq.schedule
            set next_at = pushq.cron_run(cron, time_zone, now() - interval '\(daysAgo) days 30 minutes')
            where name = '\(name)'
            """)
        guard case .started = try #require(try await queue.worker.runDueSchedule()).event else {
            Issue.record("it was not started")
            return
        }
        while try await queue.worker.fanOutStep(queueID: queue.id, jobLimit: 40, scanLimit: 50_000) != nil {}
    }

    /// Returns in how many minutes the wave is due.
    private static let wait = "select round(extract(epoch from min(due_at) - now()) / 60) from pushq.wave"

    @Test func `counts the time from the run, so that a late start neither skips a day nor sends twice`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            // The local time came between the run and its start.
            try await run("behind", at: -3, queue)
            #expect(try await queue.number("select count(*) from pushq.job") == 1)
            #expect(try await queue.number("select count(*) from pushq.wave") == 0)
            // The local time came before the run, so it belonged to the previous run.
            try await run("before", at: -10, queue)
            #expect(try await queue.number("select count(*) from pushq.job") == 1)
            #expect((1428...1431).contains(try await queue.number(Self.wait)))
        }
    }

    @Test func `counts the time from the start if that is more than a day behind the run`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            try await run("late", at: 10, daysAgo: 2, queue)
            #expect((8...10).contains(try await queue.number(Self.wait)))
            #expect(try await queue.number("select count(*) from pushq.job") == 0)
        }
    }
}
