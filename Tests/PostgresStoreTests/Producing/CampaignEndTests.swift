import Foundation
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

/// The end of a campaign that is due later for some devices: at a local time, or after their quiet hours.
@Suite(.timeLimit(.minutes(10))) struct `The end of a campaign` {
    private static let name = "\(QueueFixture.name)"

    /// Runs `body` with a queue that has a device in each of `zones`, whose clocks never change.
    private func withDevices(
        in zones: [String], _ body: @escaping @Sendable (isolated LoopActor, QueueFixture) async throws -> Void
    ) async throws {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database, devices: zones.count)
            for (index, zone) in zones.enumerated() {
                try await queue.run(
                    """
                    insert into pushq.profile (queue_id, device_id, time_zone)
                    select queue_id, id, '\(zone)' from pushq.device where token = int8send(\(index + 1))
                    """)
            }
            try await body(actor, queue)
        }
    }

    /// The local time in UTC a minute ago, such as 2026-11-30T09:30: without the day, it would be the next day's just
    /// after midnight.
    private static let now = #"to_char(now() at time zone 'UTC' - interval '1 minute', 'YYYY-MM-DD"T"HH24:MI')"#

    /// Ends that are a minute before the second of two waves. The waves are an hour apart.
    private static let early = [
        "send_by => now() + interval '58 minutes'",
        "expiration => extract(epoch from now() + interval '58 minutes')::bigint",
        "send_by => now() + interval '20 hours', expiration => extract(epoch from now() + interval '58 minutes')::bigint",
    ]

    @Test(arguments: early) func `at a local time is not before its last wave, which the start and a preview say`(
        end: String
    ) async throws {
        try await withDevices(in: ["UTC", "Etc/GMT+1", "Etc/GMT+1"]) { _, queue in
            let problem =
                #/it ends at .*Z, before the local time comes for 2 of its devices \(Etc/GMT\+1\): they would get nothing/#
            let tokens = "tokens => array(select encode(token, 'hex') from pushq.device)"
            for options in [end, "\(end), filter => 'user is missing'", "\(end), \(tokens)"] {
                let error = await #expect(throws: PostgresError.self, "\(options)") {
                    try await queue.startCampaign(options: ", local_time => \(Self.now), \(options)")
                }
                #expect(error?.description.contains(problem) == true, "\(error?.description ?? "")")
                let advice = options.contains(tokens) ? "leave their devices off the list" : "a filter on time_zone"
                #expect(error?.description.contains(advice) == true, "\(error?.description ?? "")")
            }
            let preview = try await queue.texts(
                """
                select array_to_string(p.problems, E'\\n')
                from pushq.preview_campaign(
                  '\(Self.name)', 'k', payload => '{"aps":{"alert":"x"}}', local_time => \(Self.now), \(end)) p
                """)[0]
            #expect(preview.contains(problem))
            let waves = try await queue.texts(
                """
                select format('%s %s', recipients, is_late)
                from pushq.preview_waves('\(Self.name)', \(Self.now), \(end)) order by due_at
                """)
            #expect(waves == ["1 f", "2 t"])
            // A filter leaves out the devices for which it would be too late. The campaign then reaches all devices
            // that the preview counts.
            let filter = "filter => 'time_zone = ''UTC'''"
            let campaign = try await queue.startCampaign(options: ", local_time => \(Self.now), \(end), \(filter)")
            try await queue.fanOut(campaign)
            #expect(try await queue.number("select sum(recipient_count) from pushq.job where send_by > now()") == 1)
            #expect(try await queue.number("select count(*) from pushq.fan_out where done and left_out = 0") == 1)
        }
    }

    @Test func `at a local time may be too early for one device in a hundred, which a warning says`() async throws {
        try await withDevices(in: Array(repeating: "UTC", count: 100) + ["Etc/GMT+1"]) { _, queue in
            var warnings: [String] = []
            queue.connection.onWarning = { warnings.append("\($0)") }
            let options = ", local_time => \(Self.now), \(Self.early[0])"
            try await queue.fanOut(try await queue.startCampaign(options: options))
            #expect(try await queue.number("select sum(recipient_count) from pushq.job") == 100)
            #expect(warnings.count == 1 && warnings[0].contains("before the local time comes for 1 of its devices"))
            // Nobody is told to raise a rate, which would not help the one device.
            _ = try await queue.startCampaign(key: "rate", options: options + ", max_rate => 1000")
            #expect(warnings.count == 2 && warnings[1].contains("before the local time comes for 1 of its devices"))
        }
    }

    @Test func `at a local time may not be too early for all of its recipients, however many it leaves out`()
        async throws
    {
        try await withDevices(in: Array(repeating: "UTC", count: 200) + ["Etc/GMT+1"]) { _, queue in
            try await queue.run("update pushq.profile set time_zone = null where time_zone = 'UTC'")
            let error = await #expect(throws: PostgresError.self) {
                _ = try await queue.startCampaign(options: ", local_time => \(Self.now), \(Self.early[0])")
            }
            #expect(error?.description.contains("before the local time comes for 1 of its devices") == true)
        }
    }

    @Test func `at a local time may be too early for devices of a list that get nothing in any case`() async throws {
        try await withDevices(in: ["UTC", "Etc/GMT+1"]) { _, queue in
            let tokens = "tokens => array(select encode(token, 'hex') from pushq.device)"
            try await queue.run(
                "update pushq.device set active = false, inactive_since = now() where token = int8send(2)")
            _ = try await queue.startCampaign(options: ", local_time => \(Self.now), \(Self.early[0]), \(tokens)")
            try await queue.run(
                """
                select pushq.start_campaign(
                  '\(Self.name)', 'list', '{"aps":{"alert":"x"}}', list => l, local_time => \(Self.now), \(Self.early[0]))
                from (
                  select pushq.new_list('\(Self.name)') as l) n
                cross join lateral (
                  select pushq.add_to_list('\(Self.name)', l, array(select encode(token, 'hex') from pushq.device))) a
                """)
        }
    }

    @Test func `of a schedule's runs is not looked at again while nothing is changed, whoever has travelled`()
        async throws
    {
        try await withDevices(in: ["UTC"]) { _, queue in
            func add(_ options: String, cron: String = "0 7 * * *") async throws {
                try await queue.run(
                    """
                    select pushq.add_schedule(
                      '\(Self.name)', 's', '\(cron)', '{"aps":{"alert":"x"}}', replaces => true,
                      options => '{"local_time": "09:00", "filter": "user is missing", \(options)}')
                    """)
            }
            try await add(#""send_by": "4 hours""#)
            try await queue.run(
                """
                insert into pushq.device (queue_id, token) values (\(queue.id), '\\xaa');
                insert into pushq.profile (queue_id, device_id, time_zone)
                select queue_id, id, 'Etc/GMT+12' from pushq.device where token = '\\xaa'
                """)
            try await add(#""send_by": "4 hours""#)
            for (send, cron) in [("5 hours", "0 7 * * *"), ("4 hours", "1 7 * * *")] {
                let error = await #expect(throws: PostgresError.self) {
                    try await add(#""send_by": "\#(send)""#, cron: cron)
                }
                #expect(
                    error?.description.contains("before the local time comes for") == true, "\(error as Any)")
            }
        }
    }

    @Test func `at a local time may be any time after the last wave`() async throws {
        try await withDevices(in: ["UTC", "Etc/GMT+1"]) { _, queue in
            let late = [
                "", ", send_by => now() + interval '62 minutes'", ", expiration => 0",
                ", expiration => extract(epoch from now() + interval '62 minutes')::bigint",
            ]
            // The same for the repeated calls.
            let now = try await queue.texts("select \(Self.now)")[0]
            for (index, end) in late.enumerated() {
                let options = ", local_time => '\(now)'\(end)"
                let campaign = try await queue.startCampaign(key: "k\(index)", options: options)
                // A producer may repeat the call after the end.
                try await queue.run("update pushq.profile set time_zone = 'Etc/GMT+2' where time_zone = 'Etc/GMT+1'")
                #expect(try await queue.startCampaign(key: "k\(index)", options: options) == campaign)
                try await queue.run("update pushq.profile set time_zone = 'Etc/GMT+1' where time_zone = 'Etc/GMT+2'")
            }
        }
    }

    @Test func `of a schedule's runs is not before their last wave, counted from the run and not from now`()
        async throws
    {
        try await withDevices(in: ["UTC", "Etc/GMT+12"]) { _, queue in
            func add(_ name: String, _ end: String, filter: String = "user is missing") async throws {
                try await queue.run(
                    """
                    select pushq.add_schedule(
                      '\(Self.name)', '\(name)', '0 7 * * *', '{"aps":{"alert":"x"}}',
                      options => '{"local_time": "09:00", "filter": "\(filter)", \(end)}')
                    """)
            }
            for end in [#""expiration": "4 hours""#, #""send_by": "13 hours""#] {
                let error = await #expect(throws: PostgresError.self) { try await add("short", end) }
                #expect(
                    error?.description.contains("before the local time comes for 1 of its devices (Etc/GMT+12)")
                        == true,
                    "\(error?.description ?? "")")
                try await add("some\(end.count)", end, filter: "time_zone = ''UTC''")
            }
            try await add("long", #""expiration": "15 hours", "send_by": "15 hours""#)
            try await add("once", #""expiration": "0""#)
            // A device in another zone does not keep the run from reaching the other devices.
            try await queue.run(
                """
                insert into pushq.device (queue_id, token) values (\(queue.id), '\\xaa');
                insert into pushq.profile (queue_id, device_id, time_zone)
                select queue_id, id, 'Etc/GMT+12' from pushq.device where token = '\\xaa';
                update pushq.schedule
                set cron = '* * * * *', next_at = date_trunc('minute', now()),
                    options = options || '{"send_by": "1 hour"}'
                where name = 'long'
                """)
            #expect(try await queue.texts("select event from pushq.run_due_schedule()") == ["started"])
        }
    }

    @Test(arguments: early) func `before that of quiet hours suppresses those who have them, and a preview counts them`(
        end: String
    ) async throws {
        try await withDevices(in: ["UTC", "Etc/GMT+1", "Etc/GMT+1"]) { _, queue in
            // In UTC the quiet hours end in half an hour, and in the other zone an hour later.
            let hours = try await queue.texts(
                """
                select to_char(n - interval '2 hours', 'HH24:MI') || to_char(n + interval '30 minutes', '-HH24:MI')
                from (select now() at time zone 'UTC' as n) n
                """)[0]
            let ends = try await queue.texts(
                """
                select format('%s %s', recipients, is_late)
                from pushq.preview_quiet_hours('\(Self.name)', '\(hours)', \(end)) order by until
                """)
            #expect(ends == ["1 f", "2 t"])
            // The queue's own end is a day after the start.
            #expect(
                try await queue.number(
                    "select count(*) from pushq.preview_quiet_hours('\(Self.name)', '\(hours)') where is_late") == 0)
            let campaign = try await queue.startCampaign(options: ", quiet_hours => '\(hours)', \(end)")
            try await queue.fanOut(campaign)
            var jobs = try await queue.claim()
            for index in jobs.indices { jobs[index].asksQuietHours = true }
            let isSuppressed = try await queue.worker.heldToQuietHours(jobs, workerID: 1).flatMap(\.quietHolds.values)
                .map { hold in
                    if case .forGood = hold { true } else { false }
                }
            #expect(isSuppressed.count == 3 && isSuppressed.count { $0 } == 2)
        }
    }
}
