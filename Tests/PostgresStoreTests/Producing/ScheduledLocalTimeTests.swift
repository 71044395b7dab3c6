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
        // In some years, Cairo's clocks are put back some days after Vienna's.
        Case(zone: "Africa/Cairo", time: "10:30", cron: "0 9 * * *", runZone: "Europe/Vienna", start: "2026-06-01"),
        Case(zone: "Africa/Cairo", time: "10:30", cron: "0 9 * * *", runZone: "Europe/Vienna", start: "2029-06-01"),
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
        "Asia/Gaza", "Asia/Jerusalem", "Antarctica/Troll", "Europe/Vienna", "Atlantic/Azores", "Africa/El_Aaiun",
        "Pacific/Apia", "Pacific/Kiritimati", "Etc/GMT+12", "UTC",
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

    /// On some days of ten years: how many different numbers of days after its run a campaign is due, and how many
    /// minutes after its run at least and at most. On 15 January, it is due `wait` minutes after its run, or a day
    /// later. A time at the end of a day that clocks skip counts for that day.
    private static let lags = Statement(
        "lags",
        #"""
        with clock as (
          select to_char((timestamp '2026-01-15' + $hour * interval '1 hour') at time zone $run_zone at time zone $zone
                           + $wait * interval '1 minute', 'HH24:MI') as time),
        due as (
          select d.day + c.time::time as local, t.run,
                 pushq.wave_of(
                   pushq.read_clock(c.time) || jsonb_build_object(
                     'start', t.run, 'run', d.day + $hour * interval '1 hour', 'run_zone', $run_zone::text),
                   $zone) as due
          from clock c
          cross join unnest($days::text[]::date[]) d(day)
          cross join lateral (select (d.day + $hour * interval '1 hour') at time zone $run_zone as run) t)
        select count(distinct round(extract(epoch from due at time zone $zone - local) / 86400)) as lags,
               (extract(epoch from min(due - run)) / 60)::int8 as earliest,
               (extract(epoch from max(due - run)) / 60)::int8 as latest
        from due
        """#)

    /// Days on which clocks of some zones have changed and those of others have not yet, and ends of years.
    private static let oddDays = [
        "03-13", "03-26", "03-27", "03-31", "04-07", "04-25", "09-20", "10-02", "10-25", "10-26", "10-27", "10-28",
        "10-29", "10-30", "11-03", "12-31",
    ]

    @Test func `is as many days behind its run in each year, whatever the clocks of the two zones do`() async throws {
        try await withDatabase { _, database in
            let store = try await database.connect()
            var dice = SeededGenerator(seed: 12)
            for (zone, runZone) in Self.zones.flatMap({ zone in Self.zones.map { (zone, $0) } }) {
                let days = (0..<8).map { _ in
                    "\(Int.random(in: 2026...2036, using: &dice))-\(Self.oddDays.randomElement(using: &dice)!)"
                }
                // By day, so that the run is not at a time that clocks skip or show twice.
                let hour = Int.random(in: 6...20, using: &dice)
                let wait = [-30, 0, 30, 60, 90].randomElement(using: &dice)!
                let found = try await store.execute(
                    Self.lags,
                    [
                        "zone": .text(zone), "run_zone": .text(runZone), "days": .textArray(days),
                        "hour": .int4(Int32(hour)), "wait": .int4(Int32(wait)),
                    ]
                ).one()
                let what: Comment = "\(runZone) at \(hour):00, \(zone) \(wait) minutes later, on \(days)"
                #expect(found.int8("lags") == 1, what)
                #expect(found.int8("earliest") >= 0 && found.int8("latest") <= 27 * 60, what)
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
