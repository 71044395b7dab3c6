import Foundation
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

/// Campaigns at a local time: `migrations/functions/local_time.sql`.
@Suite(.timeLimit(.minutes(10))) struct `A campaign at a local time` {
    private static let name = "\(QueueFixture.name)"

    // MARK: The due time in a zone

    private static let waves: [(time: String, options: String, zone: String, start: String, due: String?)] = [
        // From the first zone to the last, including half and quarter hours. Where the time has passed, the next day.
        ("09:00", "", "Etc/GMT-14", "2026-11-23T00:00:00Z", "2026-11-23T19:00:00Z"),
        ("09:00", "", "Pacific/Kiritimati", "2026-11-22T18:00:00Z", "2026-11-22T19:00:00Z"),
        ("09:00", "", "Pacific/Chatham", "2026-11-22T18:00:00Z", "2026-11-22T19:15:00Z"),
        ("09:00", "", "Asia/Kathmandu", "2026-11-23T00:00:00Z", "2026-11-23T03:15:00Z"),
        ("09:00", "", "Asia/Kolkata", "2026-11-23T00:00:00Z", "2026-11-23T03:30:00Z"),
        ("09:00", "", "Australia/Eucla", "2026-11-22T12:00:00Z", "2026-11-23T00:15:00Z"),
        ("09:00", "", "Europe/Vienna", "2026-11-23T00:00:00Z", "2026-11-23T08:00:00Z"),
        ("09:00", "", "America/St_Johns", "2026-11-23T06:00:00Z", "2026-11-23T12:30:00Z"),
        ("09:00", "", "Etc/GMT+12", "2026-11-23T00:00:00Z", "2026-11-23T21:00:00Z"),
        // Clocks go forward: the time is skipped, so the wave is later by the skipped time. The days before and after
        // are as usual.
        ("02:30", "", "Europe/Vienna", "2026-03-28T00:00:00Z", "2026-03-28T01:30:00Z"),
        ("02:30", "", "Europe/Vienna", "2026-03-29T00:00:00Z", "2026-03-29T01:30:00Z"),
        ("02:30", "", "Europe/Vienna", "2026-03-30T00:00:00Z", "2026-03-30T00:30:00Z"),
        ("02:30", "", "America/New_York", "2026-03-08T06:00:00Z", "2026-03-08T07:30:00Z"),
        ("02:30", "", "Australia/Sydney", "2026-10-03T15:00:00Z", "2026-10-03T16:30:00Z"),
        ("02:15", "", "Australia/Lord_Howe", "2026-10-03T15:00:00Z", "2026-10-03T15:45:00Z"),
        ("02:50", "", "Pacific/Chatham", "2026-09-26T13:00:00Z", "2026-09-26T14:05:00Z"),
        ("00:00", "", "America/Havana", "2026-03-08T04:30:00Z", "2026-03-08T05:00:00Z"),
        // Clocks go back: the time occurs twice, and the first time counts.
        ("02:30", "", "Europe/Vienna", "2026-10-25T00:00:00Z", "2026-10-25T00:30:00Z"),
        ("01:30", "", "America/New_York", "2026-11-01T05:00:00Z", "2026-11-01T05:30:00Z"),
        ("02:30", "", "Australia/Sydney", "2026-04-04T15:00:00Z", "2026-04-04T15:30:00Z"),
        ("01:45", "", "Australia/Lord_Howe", "2026-04-04T14:00:00Z", "2026-04-04T14:45:00Z"),
        ("03:15", "", "Pacific/Chatham", "2026-04-04T13:00:00Z", "2026-04-04T13:30:00Z"),
        // The time has passed: within the last hour, which is made up for, and earlier.
        ("09:00", "", "Europe/Vienna", "2026-11-23T08:00:00Z", "2026-11-23T08:00:00Z"),
        ("09:00", "", "Europe/Vienna", "2026-11-23T08:59:00Z", "2026-11-23T08:59:00Z"),
        ("09:00", "", "Europe/Vienna", "2026-11-23T09:01:00Z", "2026-11-24T08:00:00Z"),
        ("09:00", ", if_passed => 'now'", "Europe/Vienna", "2026-11-23T20:00:00Z", "2026-11-23T20:00:00Z"),
        ("09:00", ", if_passed => 'never'", "Europe/Vienna", "2026-11-23T20:00:00Z", nil),
        ("09:00", ", if_passed => 'never'", "Europe/Vienna", "2026-11-23T08:30:00Z", "2026-11-23T08:30:00Z"),
        (
            "09:00", ", if_passed => 'never', catch_up => '0'", "Europe/Vienna", "2026-11-23T08:30:00Z",
            nil
        ),
        ("09:00", ", catch_up => '12 hours'", "Europe/Vienna", "2026-11-23T20:00:00Z", "2026-11-23T20:00:00Z"),
        // Clocks change on the next day.
        ("02:30", "", "Europe/Vienna", "2026-03-28T12:00:00Z", "2026-03-29T01:30:00Z"),
        ("02:30", "", "Europe/Vienna", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"),
        // On a date, which is the same everywhere.
        ("2026-12-24T18:00", "", "Pacific/Kiritimati", "2026-11-23T00:00:00Z", "2026-12-24T04:00:00Z"),
        ("2026-12-24T18:00", "", "Europe/Vienna", "2026-11-23T00:00:00Z", "2026-12-24T17:00:00Z"),
        ("2026-12-24 18:00", "", "Etc/GMT+12", "2026-11-23T00:00:00Z", "2026-12-25T06:00:00Z"),
        ("2026-12-24T18:00", "", "Asia/Kathmandu", "2026-12-24T15:00:00Z", nil),
        (
            "2026-12-24T18:00", ", if_passed => 'next-day'", "Asia/Kathmandu", "2026-12-24T15:00:00Z",
            "2026-12-25T12:15:00Z"
        ),
        (
            "2026-12-23T18:00", ", if_passed => 'next-day'", "Asia/Kathmandu", "2026-12-24T06:00:00Z",
            "2026-12-24T12:15:00Z"
        ),
        // Zones that changed their rules: the last summer with summer time, and the next summer.
        ("09:00", "", "America/Mexico_City", "2022-07-01T00:00:00Z", "2022-07-01T14:00:00Z"),
        ("09:00", "", "America/Mexico_City", "2023-07-01T00:00:00Z", "2023-07-01T15:00:00Z"),
        ("09:00", "", "Europe/Istanbul", "2015-12-01T00:00:00Z", "2015-12-01T07:00:00Z"),
        ("09:00", "", "Europe/Istanbul", "2016-12-01T00:00:00Z", "2016-12-01T06:00:00Z"),
        // A zone that skipped the day.
        ("2011-12-30T09:00", "", "Pacific/Apia", "2011-12-29T00:00:00Z", "2011-12-30T19:00:00Z"),
    ]

    @Test func `is due when clocks in the device's zone show it, once, whatever they do there`() async throws {
        try await withDatabase { _, database in
            let store = try await database.connect()
            for (time, options, zone, start, due) in Self.waves {
                let statement = Statement(
                    "wave \(time)\(options)",
                    #"""
                    select pushq.shown_time(pushq.wave_of(
                      pushq.read_clock('\#(time)'\#(options)) || jsonb_build_object('start', $start::text), $zone)) as due
                    """#)
                let found = try await store.execute(statement, ["zone": .text(zone), "start": .text(start)]).one()
                    .optionalText("due")
                #expect(found == due, "\(time)\(options) in \(zone) from \(start)")
            }
        }
    }

    private static let mistakes: [(arguments: String, problem: String)] = [
        ("local_time => '24:00'", "“24:00” is not a local time; use one such as 09:00, or 2026-12-24T18:00"),
        ("local_time => '9 am'", "“9 am” is not a local time"),
        ("local_time => '2026-02-30T09:00'", "there is no day 2026-02-30"),
        ("local_time => '09:00', if_passed => 'nextday'", "if_passed cannot be “nextday”; did you mean “next-day”?"),
        ("local_time => '09:00', catch_up => '25 hours'", "catch_up 25:00:00 is not between 0 and 24 hours"),
        ("local_time => '09:00', default_zone => 'CET'", "the time zone “CET” is unknown"),
        ("default_zone => 'UTC'", "if_passed, catch_up and default_zone are for campaigns with a local_time"),
        ("local_time => '9999-12-31T23:00'", "the local time comes after the year 9999"),
    ]

    @Test func `is refused with a time or a rule that is none`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            for (arguments, problem) in Self.mistakes {
                let error = await #expect(throws: PostgresError.self, "\(arguments)") {
                    try await queue.startCampaign(options: ", \(arguments)")
                }
                #expect(error?.description.contains(problem) == true, "\(arguments): \(String(describing: error))")
            }
        }
    }

    @Test(arguments: ["infinity", "-infinity", "10000-01-01", "9999-12-31 12:00Z"])
    func `previews no waves of a start that is no time`(start: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            let error = await #expect(throws: PostgresError.self) {
                try await queue.run(
                    "select from pushq.preview_waves('\(QueueFixture.name)', '09:00', start_at => '\(start)')")
            }
            #expect(error?.description.contains(/start_at or send_by is (infinite|after the year 9999)/) == true)
        }
    }

    @Test func `previews a zone once, which is that of some devices and of those of which nobody has said one`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 6)
            try await queue.run(
                """
                insert into pushq.profile (queue_id, device_id, time_zone)
                select queue_id, id, case when get_byte(token, 7) = 1 then 'Europe/Vienna' else 'Europe/Paris' end
                from pushq.device where get_byte(token, 7) <= 3;
                insert into pushq.quiet_hours (queue_id, hours, time_zone)
                select queue_id, to_char(now() - interval '4 hours', 'HH24:MI') || to_char(now() + interval '4 hours', '-HH24:MI'),
                       'Europe/Vienna'
                from (select id as queue_id from pushq.queue) q
                """)
            for preview in [
                "preview_waves('\(QueueFixture.name)', '09:00', default_zone => 'Europe/Vienna')",
                "preview_quiet_hours('\(QueueFixture.name)')",
            ] {
                let zones = try await queue.texts(
                    "select format('%s %s', recipients, time_zones) from pushq.\(preview)")
                #expect(zones == ["6 {Europe/Vienna,Europe/Paris}"], "\(preview)")
            }
        }
    }

    // MARK: Its waves

    /// Returns a zone whose clocks never change, by its hours ahead of UTC: `Etc/GMT-2` is two hours ahead.
    private static func zone(_ hours: Int) -> String {
        hours == 0 ? "UTC" : "Etc/GMT\(hours > 0 ? "-" : "+")\(abs(hours))"
    }

    /// Runs `body` with a queue that has a device in each of the zones; nil: no time zone. Device number n, from 1, has
    /// token n.
    private func withDevices(
        _ hours: [Int?], _ body: @escaping @Sendable (isolated LoopActor, QueueFixture) async throws -> Void
    ) async throws {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database, devices: hours.count)
            for (index, hours) in hours.enumerated() {
                guard let hours else { continue }
                try await move(index + 1, to: hours, queue)
            }
            try await body(actor, queue)
        }
    }

    private func move(_ device: Int, to hours: Int, _ queue: QueueFixture) async throws {
        try await queue.run(
            """
            insert into pushq.profile (queue_id, device_id, time_zone)
            select queue_id, id, '\(Self.zone(hours))' from pushq.device where token = int8send(\(device))
            on conflict (queue_id, device_id) do update set time_zone = excluded.time_zone
            """)
    }

    /// The local time in UTC `minutes` minutes ago.
    private func time(minutesAgo minutes: Int = 1) -> String {
        String(Date.now.addingTimeInterval(Double(minutes) * -60).formatted(.iso8601).prefix(16))
    }

    /// Starts a campaign at the local time that it was in UTC a minute ago.
    @discardableResult
    private func start(_ queue: QueueFixture, key: String = "k", _ options: String = "") async throws -> Int64 {
        try await queue.startCampaign(key: key, options: ", local_time => '\(time())'\(options)")
    }

    /// Lets time pass for the campaign: moves its clock and its waves back by `time`.
    private func pass(_ time: String, _ queue: QueueFixture) async throws {
        try await queue.run(
            """
            update pushq.fan_out
            set start_at = start_at - interval '\(time)',
                clock = jsonb_strip_nulls(clock || jsonb_build_object(
                  'start', (clock ->> 'start')::timestamptz - interval '\(time)',
                  'day', ((clock ->> 'day')::date + (clock ->> 'time')::time - interval '\(time)')::date,
                  'time', (clock ->> 'time')::time - interval '\(time)'));
            update pushq.wave set due_at = due_at - interval '\(time)'
            """)
    }

    private static let inJobs = Statement(
        "in_jobs",
        #"""
        select array(
          select ('x' || right(encode(d.token, 'hex'), 8))::bit(32)::int
          from pushq.body b
          cross join unnest(b.device_ids) recipient
          join pushq.device d on d.queue_id = b.queue_id and d.id = recipient
          order by b.job_id, 1) as numbers
        """#)

    /// Fans out what is due, and returns the numbers of the devices that are in jobs so far.
    private func fanOut(_ queue: QueueFixture, jobs: Int = 40, scan: Int = 50_000) async throws -> [Int] {
        while try await queue.worker.fanOutStep(queueID: queue.id, jobLimit: jobs, scanLimit: scan) != nil {}
        return try await queue.connection.execute(Self.inJobs).one().int4Array("numbers").map(Int.init)
    }

    @Test func `reaches the devices of each zone when it is that time there, each once`() async throws {
        // Now in UTC, one and two hours later in zones behind it, and long ago in a zone ahead of it.
        try await withDevices([0, -1, -2, 6, nil, 0, -1]) { _, queue in
            try await start(queue)
            #expect(try await fanOut(queue) == [1, 6])
            #expect(try await queue.number("select left_out from pushq.fan_out") == 2)
            // Workers do not ask for its jobs until its next wave.
            #expect(
                try await queue.number("select count(*) from pushq.fan_out where not done and start_at > now()") == 1)
            try await pass("1 hour", queue)
            #expect(try await fanOut(queue) == [1, 6, 2, 7])
            try await pass("1 hour", queue)
            #expect(try await fanOut(queue) == [1, 6, 2, 7, 3])
            #expect(try await queue.number("select count(*) from pushq.fan_out where done and made = 5") == 1)
            #expect(try await queue.number("select count(*) from pushq.wave") == 0)
        }
    }

    @Test func `reaches a device once that moves between zones while it runs, and when it is that time there`()
        async throws
    {
        try await withDevices([0, -1, -2, -1, 0]) { _, queue in
            try await start(queue)
            // A step looks at two devices.
            #expect(try await queue.worker.fanOutStep(queueID: queue.id, jobLimit: 1, scanLimit: 2) == 0)
            // One device is already in its wave, the other is not yet.
            try await move(2, to: -2, queue)
            try await move(5, to: -2, queue)
            #expect(try await fanOut(queue, jobs: 1, scan: 2) == [1])
            // The device was reached, and moves to a zone where the time is still to come.
            try await move(1, to: -2, queue)
            // From a zone two hours behind to one where the time has passed.
            try await move(3, to: 0, queue)
            try await pass("1 hour", queue)
            #expect(try await fanOut(queue) == [1, 4])
            try await pass("1 hour", queue)
            #expect(try await fanOut(queue).sorted() == [1, 2, 3, 4, 5])
            #expect(try await queue.number("select count(*) from pushq.fan_out where done and made = 5") == 1)
        }
    }

    @Test func `reaches a device with its wave whose zone says no more when, if it is over there, gone or unknown`()
        async throws
    {
        try await withDevices([-1, -1, -1, 0]) { _, queue in
            try await start(queue)
            #expect(try await fanOut(queue) == [4])
            try await move(1, to: 6, queue)
            try await queue.run(
                """
                update pushq.profile set time_zone = case device_id when (
                  select id from pushq.device where token = int8send(3)) then 'Atlantis/Poseidonis' end
                where device_id in (select id from pushq.device where token in (int8send(2), int8send(3)))
                """)
            try await pass("1 hour", queue)
            #expect(try await fanOut(queue).sorted() == [1, 2, 3, 4])
            #expect(try await queue.number("select count(*) from pushq.fan_out where done and made = 4") == 1)
        }
    }

    @Test func `waits with next-day for that time in a zone to which a device has moved after it was over there`()
        async throws
    {
        try await withDevices([-5, -5, -5]) { _, queue in
            let time = time().suffix(5)
            _ = try await queue.startCampaign(options: ", local_time => '\(time)'")
            _ = try await queue.startCampaign(
                key: "short", options: ", local_time => '\(time)', send_by => now() + interval '10 hours'")
            #expect(try await fanOut(queue) == [])
            try await pass("5 hours", queue)
            // In the old zone the time was three hours ago; in the new one it is now.
            try await move(2, to: -2, queue)
            // The campaign that must not be sent tomorrow goes to all devices.
            #expect(try await fanOut(queue).sorted() == [1, 1, 2, 3, 3])
            #expect(
                try await queue.number("select round(extract(epoch from min(due_at) - now()) / 60) from pushq.wave")
                    / 60 == 20)
            try await pass("21 hours", queue)
            #expect(try await fanOut(queue).sorted() == [1, 1, 2, 2, 3, 3])
            #expect(try await queue.number("select count(*) from pushq.wave") == 0)
        }
    }

    @Test func `leaves out nobody with a zone for those without one, and a rule for where the time has passed`()
        async throws
    {
        try await withDevices([6, nil, 0]) { _, queue in
            try await start(queue, ", if_passed => 'now', default_zone => 'UTC'")
            #expect(try await fanOut(queue) == [1, 2, 3])
            #expect(try await queue.number("select count(*) from pushq.fan_out where done and left_out = 0") == 1)
        }
    }

    @Test func `begins now if its start has passed, and is refused for a day that has passed by now`() async throws {
        try await withDevices([0, -1]) { _, queue in
            let past = ", start_at => now() - interval '3 days'"
            let options = ", local_time => '\(time().suffix(5))'\(past)"
            let campaign = try await queue.startCampaign(options: options)
            #expect(try await fanOut(queue) == [1])
            #expect(try await queue.number("select count(*) from pushq.wave where due_at > now()") == 1)
            #expect(try await queue.startCampaign(options: options) == campaign)
            let previewed = "select count(*) from pushq.preview_waves('\(Self.name)'\(options)) where due_at >= now()"
            #expect(try await queue.number(previewed) == 2)
            let error = await #expect(throws: PostgresError.self) {
                try await queue.startCampaign(key: "day", options: ", local_time => '\(time(minutesAgo: 2880))'\(past)")
            }
            #expect(error?.description.contains("has passed in every time zone") == true)
        }
    }

    @Test func `is for a list of tokens or a filter, too, and the same when the call is repeated`() async throws {
        try await withDevices([0, -1, 0]) { _, queue in
            let when = time()
            let tokens = ", tokens => array[encode(int8send(1), 'hex'), encode(int8send(2), 'hex')], local_time => "
            let list = try await queue.startCampaign(options: "\(tokens)'\(when)'")
            #expect(try await queue.startCampaign(options: "\(tokens)'\(when.replacing("T", with: " "))'") == list)
            let error = await #expect(throws: PostgresError.self) {
                try await queue.startCampaign(options: "\(tokens)'\(time(minutesAgo: 5))'")
            }
            #expect(error?.description.contains("key “k” was used for another campaign") == true)
            #expect(try await fanOut(queue) == [1])
            try await start(queue, key: "filter", ", filter => 'time_zone = ''UTC'''")
            #expect(try await fanOut(queue) == [1, 1, 3])
        }
    }

    @Test func `is the same campaign when the call is repeated by a session that writes intervals in another way`()
        async throws
    {
        try await withDevices([0]) { _, queue in
            let options = ", local_time => '09:00', catch_up => '24 hours', urgent => "
            for tokens in ["", ", tokens => array['ab']"] {
                let key = "k\(tokens.count)"
                let first = try await queue.startCampaign(key: key, options: "\(tokens)\(options)false")
                try await queue.run("set intervalstyle = iso_8601")
                #expect(try await queue.startCampaign(key: key, options: "\(tokens)\(options)false") == first)
                #expect(
                    try await queue.startCampaign(
                        key: key, options: "\(tokens)\(options.replacing("24 hours", with: "1 day"))null") == first)
                try await queue.run("reset intervalstyle")
            }
        }
    }

    @Test func `is sent within a day of that time, unless another end is given`() async throws {
        try await withDevices([0]) { _, queue in
            try await start(queue)
            try await start(queue, key: "short", ", send_by => now() + interval '1 hour'")
            try await start(queue, key: "long", ", send_by => now() + interval '40 hours'")
            _ = try await fanOut(queue)
            let hours = "select round(extract(epoch from send_by - now()) / 3600) from pushq.job order by id"
            #expect(try await queue.number("\(hours) limit 1") == 24)
            #expect(try await queue.number("\(hours) limit 1 offset 1") == 1)
            #expect(try await queue.number("\(hours) offset 2") == 40)
        }
    }

    @Test func `is resumed more than a day late with a new end only, and is then sent until that`() async throws {
        try await withDevices([0, -1]) { _, queue in
            let (pause, resume) = ("select pushq.pause_campaign('\(Self.name)', 'k')", "pushq.resume_campaign")
            try await start(queue)
            #expect(try await fanOut(queue) == [1])
            try await queue.run(pause)
            try await pass("30 hours", queue)
            try await queue.run("update pushq.job set send_by = send_by - interval '30 hours'")
            let error = await #expect(throws: PostgresError.self) {
                try await queue.run("select \(resume)('\(Self.name)', 'k')")
            }
            #expect(error?.description.contains("the time to send campaign “k” ended at") == true)
            try await queue.run("select \(resume)('\(Self.name)', 'k', send_by => now() + interval '10 hours')")
            #expect(try await fanOut(queue) == [1, 2])
            let ends = "send_by = (select send_by from pushq.fan_out)"
            #expect(try await queue.number("select count(*) from pushq.job where \(ends)") == 2)

            // One campaign whose devices are not yet in waves, and one with a wave left.
            for hours in ["60 hours", "30 hours"] {
                try await start(queue, key: hours)
                try await queue.run("select pushq.pause_campaign('\(Self.name)', '\(hours)')")
                try await pass(hours, queue)
                let call = "select \(resume)('\(Self.name)', '\(hours)')"
                if hours == "60 hours" {
                    let error = await #expect(throws: PostgresError.self) { try await queue.run(call) }
                    #expect(error?.description.contains("the time to send campaign “60 hours” ended at") == true)
                } else {
                    try await queue.run(call)
                }
            }
        }
    }

    @Test func `makes no more jobs of a wave than are wanted at a time, and none while it is paused`() async throws {
        try await withDevices(Array(repeating: 0, count: 9)) { _, queue in
            let campaign = try await start(queue, ", max_rate => 1")
            let lane = try #require(Lane(rawValue: Int32(try await queue.number("select lane from pushq.fan_out"))))
            // At this rate, a job has two recipients.
            func step() async throws -> Int? {
                try await queue.worker.fanOutStep(
                    queueID: queue.id, lane: lane, campaignID: campaign, jobLimit: 2, scanLimit: 50_000)
            }
            // The first step assigns devices to waves.
            #expect(try await step() == 0)
            #expect(try await step() == 2)
            #expect(try await queue.number("select made from pushq.fan_out") == 4)
            try await queue.run("select pushq.pause_campaign('\(Self.name)', 'k')")
            #expect(try await step() == nil)
            try await queue.run("select pushq.resume_campaign('\(Self.name)', 'k')")
            #expect(try await step() == 2)
            #expect(try await step() == 1)
            #expect(try await step() == nil)
            #expect(try await queue.number("select count(*) from pushq.job") == 5)
        }
    }

    @Test func `is resumed with an end before its next wave while jobs wait, and not when none do`() async throws {
        try await withDevices([0, -1]) { _, queue in
            try await start(queue)
            #expect(try await fanOut(queue) == [1])
            func resume() async throws {
                try await queue.run(
                    """
                    select pushq.pause_campaign('\(Self.name)', 'k');
                    select pushq.resume_campaign('\(Self.name)', 'k', send_by => now() + interval '30 minutes')
                    """)
            }
            try await resume()
            let soon = "send_by between now() + interval '29 minutes' and now() + interval '30 minutes'"
            #expect(try await queue.number("select count(*) from pushq.job where \(soon)") == 1)
            try await queue.run("delete from pushq.job")
            let error = await #expect(throws: PostgresError.self) { try await resume() }
            #expect(error?.description.contains("is not after the next wave at") == true)
        }
    }

    @Test
    func `warns when it is resumed with an end before the local time of some, and is not resumed if all is to come`()
        async throws
    {
        try await withDevices([0, -1, -2, -3]) { _, queue in
            var warnings: [String] = []
            queue.connection.onWarning = { warnings.append("\($0)") }
            let resume = """
                select pushq.pause_campaign('\(Self.name)', 'k');
                select pushq.resume_campaign('\(Self.name)', 'k', send_by => now() + interval '90 minutes')
                """
            try await start(queue)
            // No device is in a wave yet, and the campaign could have been started with another end.
            let error = await #expect(throws: PostgresError.self) { try await queue.run("begin; \(resume)") }
            #expect(error?.description.contains("before the local time comes for 2 of its devices") == true)
            try await queue.run("rollback")
            #expect(try await fanOut(queue) == [1])
            #expect(warnings == [])
            try await queue.run(resume)
            #expect(warnings.count == 1 && warnings[0].contains("2 of its devices would get nothing"), "\(warnings)")
            #expect(warnings.first?.contains("before the local time comes for them") == true, "\(warnings)")
            warnings = []
            try await queue.run(resume.replacing("90 minutes", with: "10 hours"))
            #expect(warnings == [])
        }
    }

    @Test func `ends at the time with which it is resumed, also for those whose local time is later`() async throws {
        try await withDevices([0, -1, -2, -2]) { _, queue in
            func resume(within time: String) async throws {
                try await queue.run(
                    """
                    select pushq.pause_campaign('\(Self.name)', 'k');
                    select pushq.resume_campaign('\(Self.name)', 'k', send_by => now() + interval '\(time)')
                    """)
            }
            let minutes = "select round(extract(epoch from start_at - now()) / 60) from pushq.fan_out"
            let shown = "select count(next_wave_at) from pushq.show_campaigns('\(Self.name)', 'k', 1)"
            try await start(queue)
            #expect(try await fanOut(queue) == [1])
            try await resume(within: "30 minutes")
            #expect(try await queue.number(minutes) == 30)
            #expect(try await queue.number(shown) == 0, "no wave is sent any more")
            // With a later end the waves are due at their own times again.
            try await resume(within: "90 minutes")
            #expect((57...60).contains(try await queue.number(minutes)))
            #expect(try await queue.number(shown) == 1)
            try await pass("90 minutes", queue)
            try await queue.run("update pushq.fan_out set send_by = send_by - interval '90 minutes'")
            #expect(try await fanOut(queue) == [1, 2, 3, 4])
            #expect(try await queue.number("select count(*) from pushq.fan_out where done and made = 4") == 1)
            let over = "select sum(recipient_count) from pushq.job where send_by <= now() and run_at <= now()"
            #expect(try await queue.number(over) == 3)
        }
    }

    @Test func `is scheduled until its first wave, whose time stays that of its start`() async throws {
        try await withDevices([-1, -3]) { _, queue in
            try await start(queue)
            func summary() async throws -> CampaignSummary {
                try #require(try await queue.connection.campaign("k", ofQueue: QueueFixture.name))
            }
            #expect(try await fanOut(queue) == [])
            let sorted = try await summary()
            #expect(sorted.state == "scheduled" && sorted.startsAt == sorted.nextWaveAt)
            try await pass("1 hour", queue)
            try await queue.run("update pushq.campaign set created_at = created_at - interval '1 hour'")
            #expect(try await fanOut(queue) == [1])
            let begun = try await summary()
            #expect(begun.state == "running" && abs(begun.startsAt.timeIntervalSince(sorted.startsAt) + 3600) < 0.001)
            #expect(try #require(begun.nextWaveAt) > begun.startsAt)
        }
    }

    @Test func `is cancelled with the waves that are still to come`() async throws {
        try await withDevices([0, -1]) { _, queue in
            try await start(queue)
            #expect(try await fanOut(queue) == [1])
            try await queue.run("select pushq.cancel_campaign('\(Self.name)', 'k')")
            #expect(try await queue.number("select count(*) from pushq.wave") == 0)
            #expect(try await fanOut(queue) == [1])
        }
    }

    @Test(arguments: [true, false])
    func `counts as cancelled those of a list whom it would have reached, and nobody whom it leaves out`(
        isSorted: Bool
    ) async throws {
        try await withDevices([0, -1, nil, -1, nil, 6]) { _, queue in
            try await start(queue, ", tokens => array(select encode(token, 'hex') from pushq.device)")
            if isSorted { #expect(try await fanOut(queue) == [1]) }
            try await queue.run("select pushq.cancel_campaign('\(Self.name)', 'k')")
            #expect(try await queue.number("select total from pushq.campaign_progress") == 3)
            #expect(try await queue.number("select cancelled + waiting from pushq.campaign_progress") == 3)
            #expect(try await queue.number("select left_out from pushq.fan_out") == 3)
        }
    }

    @Test func `is traced for a device whose time is still to come, and for one that is left out`() async throws {
        try await withDevices([-1, nil]) { _, queue in
            try await start(queue)
            _ = try await fanOut(queue)
            func trace(_ device: Int) async throws -> String {
                let statement = Statement(
                    "trace \(device)",
                    #"""
                    select string_agg(what, '; ') as text
                    from pushq.trace('\#(Self.name)', token => encode(int8send(\#(device)), 'hex'), campaign => 'k')
                    """#)
                return try await queue.connection.execute(statement).one().text("text")
            }
            let (waiting, without) = (try await trace(1), try await trace(2))
            #expect(
                waiting.contains("not yet: in its time zone, the campaign's local time is at 20"),
                "\(waiting)")
            #expect(without.contains("it was left out: its time zone is not known"), "\(without)")
        }
    }

    @Test func `is previewed wave by wave`() async throws {
        try await withDevices([0, 0, -1, 6, nil]) { _, queue in
            var clock = CampaignClock()
            clock.localTime = time()
            let preview = try await queue.connection.preview(
                CampaignDraft(
                    MessageDraft(payload: #"{"aps":{"alert":"x"}}"#), key: "k", inQueue: QueueFixture.name,
                    clock: clock))
            #expect(preview.waves.map(\.recipients) == [2, 1, 2])
            #expect(preview.waves.map(\.timeZones) == [["UTC"], ["Etc/GMT+1"], ["Etc/GMT-6", "unknown"]])
            #expect(preview.waves.map { $0.dueAt == nil } == [false, false, true])
        }
    }
}
