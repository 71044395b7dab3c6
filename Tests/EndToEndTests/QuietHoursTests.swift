import Foundation
import LocalStack
import PostgresStore
import TestSupport
import Testing

extension `Real processes that start campaigns` {
    @Suite struct `Quiet hours by command` {
        /// A range of hours that contains the current time in UTC, but not in Kathmandu.
        private static func hoursNow() -> String {
            let hour = Calendar.utc.component(.hour, from: .now)
            return String(format: "%02d:00-%02d:00", (hour + 22) % 24, (hour + 2) % 24)
        }

        @Test func `hold everybody who has them until they end, though a worker is killed before and amidst`()
            async throws
        {
            try await withRig {
                $0.devices = 3000
                $0.sql = """
                    insert into pushq.profile (queue_id, device_id, time_zone)
                    select queue_id, id, (array['UTC', 'Asia/Kathmandu', null])[1 + (id >> 10) % 3] from pushq.device
                    """
            } _: { rig in
                let now = Self.hoursNow()
                let set = try await rig.admin(
                    ["queue", "set", "\(rig.queue)", "--quiet-hours", now, "--quiet-release", "8s"])
                #expect(set.code == 0, "\(set.errors)")
                let campaign = ["campaign", "\(rig.queue)", "--key", "news", "--payload", "-", "--audience", "all"]
                let dry = try await rig.pushq(campaign + ["--dry-run"], input: #"{"aps":{"alert":"News"}}"#)
                #expect(dry.code == 0, "\(dry.errors)")
                #expect(dry.output.contains("in quiet hours") && dry.output.contains("in UTC"), "\(dry.output)")
                let free = try await rig.pushq(
                    campaign + ["--dry-run", "--quiet-hours", "none"], input: #"{"aps":{"alert":"News"}}"#)
                #expect(free.code == 0 && !free.output.contains("in quiet hours"), "\(free.output)")
                let started = try await rig.pushq(campaign, input: #"{"aps":{"alert":"News"}}"#)
                #expect(started.code == 0, "\(started.errors)")

                let doomed = try rig.startWorker()
                try await rig.waitUntilEnded(200)
                await doomed.kill()
                try rig.startWorker()
                try await rig.waitUntilEnded(2000)
                let waiting = "select sum(recipient_count) from pushq.job where is_quiet and run_at > now()"
                try await eventually("a thousand who wait", within: .seconds(60)) {
                    try await rig.number(waiting) == 1000
                }
                let shown = try await rig.admin(["campaign", "show", "\(rig.queue)", "news", "--json"])
                #expect(shown.output.replacing(" ", with: "").contains(#""in_quiet_hours":1000"#), "\(shown.output)")
                #expect(shown.output.contains("\"released_at\""), "\(shown.output)")
                // APNs has refused nothing, and nothing is counted as retried. A worker was killed with its jobs.
                let counts = try await rig.admin(["stats", "--json"])
                for text in [shown.output, counts.output] {
                    #expect(text.replacing(" ", with: "").contains(#""retried":0"#), "\(text)")
                }
                let token = try await rig.store.current().execute(
                    .init(
                        "some token",
                        """
                        select encode(token, 'hex') as token
                        from pushq.device join pushq.profile on device_id = id where time_zone = 'UTC' limit 1
                        """)
                ).one().text("token")
                let trace = try await rig.admin(["trace", "\(rig.queue)", "--token", token])
                #expect(
                    trace.output.contains("it waits until then: the device has quiet hours, \(now) in UTC"),
                    "\(trace.output)")

                // Makes the quiet hours end now. The waiting recipients are due as long after now as they were after
                // the end.
                try await rig.run(
                    """
                    update pushq.job set run_at = now() + (run_at - (select pushq.quiet_until(now(), hours, 'UTC') from pushq.quiet_hours));
                    update pushq.quiet_hours
                    set hours = to_char((now() - interval '2 hours') at time zone 'UTC', 'HH24:MI:SS') || '-'
                                || to_char(now() at time zone 'UTC', 'HH24:MI:SS');
                    """)
                let ended = try await rig.number("select extract(epoch from clock_timestamp()) * 1000000")
                let second = try rig.startWorker()
                try await rig.waitUntilEnded(2300)
                await second.kill()
                try await rig.waitUntilFinished()
                let audit = try await rig.audit()
                audit.expectWhole()
                #expect(try await rig.number("select delivered from pushq.campaign_progress") == 3000)
                // The release takes eight seconds. No push is sent before its job is due.
                let late = try rig.recordFiles.flatMap { try SimulatorRecord(path: $0).arrivals }
                    .filter { $0 > Int(ended) }.sorted()
                try #require(late.count >= 1000)
                #expect(late.last! > Int(ended) + 6_000_000)
                // The first 300 were sent before the worker was killed. Evenly, 300 of a thousand take 2.4 of eight
                // seconds.
                #expect(late[299] > Int(ended) + 1_500_000, "a flood")
            }
        }

        @Test func `are refused where they make no sense, with what to do`() async throws {
            try await withRig {
                $0.devices = 0
                $0.isRecorded = false
            } _: { rig in
                try await rig.expectRefusals(of: [
                    (["--quiet-hours", "22-8"], "such as 22:00-08:00"),
                    (["--quiet-hours", "08:00-07:00"], "20 hours"),
                    (["--quiet-urgent", "on"], "give --quiet-hours"),
                    (["--quiet-hours", "22:00-08:00", "--quiet-release", "3h"], "between 0s and 2h"),
                    (["--quiet-hours", "22:00-08:00", "--quiet-time-zone", "Mars/Olympus"], "Mars/Olympus"),
                    (["--no-quiet-hours", "--quiet-urgent", "on"], "cannot be used with"),
                ])
                #expect(try await rig.setQueue(["--quiet-hours", "7:30-9:00"]).code == 0)
                #expect(
                    try await rig.setQueue(["--quiet-urgent", "on", "--quiet-time-zone", "Europe/Vienna"]).code == 0)
                let list = try await rig.admin(["queue", "list"])
                #expect(
                    list.output.contains("07:30-09:00, released over 15 min, urgent ones, too, Europe/Vienna"),
                    "\(list.output)")
                #expect(try await rig.setQueue(["--no-quiet-hours"]).code == 0)
                #expect(try await rig.number("select count(*) from pushq.quiet_hours") == 0)
                let campaign = try await rig.pushq(
                    [
                        "campaign", "\(rig.queue)", "--key", "k", "--payload", "-", "--audience", "all",
                        "--quiet-hours",
                        "late",
                    ],
                    input: #"{"aps":{"alert":"x"}}"#)
                #expect(campaign.code != 0 && campaign.errors.contains("such as 22:00-08:00"), "\(campaign.errors)")
                // A schedule accepts quiet hours, too.
                let schedule = try await rig.pushq(
                    [
                        "schedule", "add", "\(rig.queue)", "daily", "--cron", "@daily", "--payload", "-", "--audience",
                        "all", "--quiet-hours", "21:00-09:00",
                    ], input: #"{"aps":{"alert":"x"}}"#)
                #expect(schedule.code == 0, "\(schedule.errors)")
                #expect(
                    try await rig.number(
                        "select count(*) from pushq.schedule where options ->> 'quiet_hours' = '21:00-09:00'") == 1)
            }
        }
    }
}

extension Calendar {
    fileprivate static var utc: Calendar {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = TimeZone(identifier: "UTC")!
        return calendar
    }
}
