import PostgresStore
import TestSupport
import Testing
import Transport

/// The warnings for a campaign whose rate is too low for the time that it has.
@Suite(.timeLimit(.minutes(10))) struct `The rate of a campaign` {
    private static let name = "\(QueueFixture.name)"
    private static let minute = "max_rate => 1, send_by => now() + interval '1 minute'"

    private func withQueue(
        devices: Int, _ body: @escaping @Sendable (isolated LoopActor, QueueFixture) async throws -> Void
    ) async throws {
        try await withDatabase { actor, database in
            try await body(actor, try await QueueFixture(database, devices: devices))
        }
    }

    /// Starts a campaign, and returns the warnings.
    private func warnings(_ queue: QueueFixture, _ options: String, key: String = "k") async throws -> [String] {
        var warnings: [String] = []
        queue.connection.onWarning = { warnings.append("\($0)") }
        defer { queue.connection.onWarning = nil }
        _ = try await queue.startCampaign(key: key, options: ", \(options)")
        return warnings
    }

    private func preview(_ queue: QueueFixture, _ options: String) async throws -> String {
        try await queue.texts(
            """
            select format('%s of %s, %s', would_expire, recipients, extract(epoch from done_at - now())::int)
            from pushq.preview_campaign('\(Self.name)', 'p', payload => '{"aps":{"alert":"x"}}', \(options))
            """)[0]
    }

    @Test func `that is too low for its time is said by the start and counted by a preview`() async throws {
        try await withQueue(devices: 1000) { _, queue in
            #expect(try await preview(queue, Self.minute) == "940 of 1000, 60")
            let said = try await warnings(queue, Self.minute)
            #expect(said.count == 1, "\(said)")
            #expect(said[0].contains("about 940 of 1000 recipients would expire: at the rate of the campaign, 1/s"))
            #expect(said[0].contains("raise max_rate, or give a later send_by"), "\(said)")
            // The campaign is started anyway. A repetition does not warn again.
            #expect(try await queue.number("select count(*) from pushq.campaign") == 1)
            #expect(try await warnings(queue, Self.minute) == [])
        }
    }

    /// Options of campaigns to 1,000 devices at about 0.01 pushes a second, with the number of warnings for each.
    private static let paces = [
        ("max_rate => 0.01", 1), ("max_rate => 0.012", 0), ("max_rate => 0.01, holdout => 0.2", 0),
        ("max_rate => 0.01, holdout => 0.999999999", 0),
        ("max_rate => 0.01, send_by => now() + interval '2 days'", 0),
        ("max_rate => 0.01, filter => 'locale = ''de'''", 0),
        ("max_rate => 0.01, tokens => array(select encode(token, 'hex') from pushq.device limit 800)", 0),
        ("max_rate => 0.01, expiration => extract(epoch from now() + interval '1 hour')::bigint", 1),
        ("max_rate => 0.01, filter => 'locale is missing'", 1),
        ("max_rate => 0.01, tokens => array(select encode(token, 'hex') from pushq.device limit 900)", 1),
        ("max_rate => 0.01, start_at => now() + interval '1 day'", 1),
    ]

    @Test func `counts for a day if nobody says when the time ends, and for that alone which is sent`() async throws {
        try await withQueue(devices: 1000) { _, queue in
            let previewed = try await preview(queue, "max_rate => 0.01")
            #expect(previewed == "136 of 1000, 86400")
            for (index, (options, count)) in Self.paces.enumerated() {
                let said = try await warnings(queue, options, key: "k\(index)")
                #expect(said.count == count, "\(options): \(said)")
            }
        }
    }

    @Test(arguments: [true, false]) func `may be that of its queue or its tenant, which an operator sets`(
        ofQueue: Bool
    ) async throws {
        try await withQueue(devices: 1000) { _, queue in
            try await queue.run(
                """
                insert into pushq.rate_limit (tenant_id, queue_id, campaign_id, rate, burst)
                select tenant_id, \(ofQueue ? "id" : "0"), 0, 1, 1 from pushq.queue
                """)
            let options = "max_rate => 100, send_by => now() + interval '1 minute'"
            #expect(try await preview(queue, options) == "940 of 1000, 60")
            let said = try await warnings(queue, options)
            #expect(said.count == 1 && said[0].contains("at the rate of the \(ofQueue ? "queue" : "tenant"), 1/s"))
            #expect(said[0].contains("pushq-admin \(ofQueue ? "queue" : "tenant") set --rate"), "\(said)")
        }
    }

    @Test func `at a local time has a day for each wave, and a wave waits for the one before it`() async throws {
        try await withQueue(devices: 1000) { _, queue in
            try await queue.run(
                """
                insert into pushq.profile (queue_id, device_id, time_zone)
                select queue_id, id, case when get_byte(token, 7) % 2 = 0 then 'UTC' else 'Etc/GMT+1' end
                from pushq.device
                """)
            let time = "local_time => to_char(now() at time zone 'UTC' + interval '1 minute', 'HH24:MI')"
            // Each wave has 500 recipients and a day. The second wave begins and ends an hour later.
            let slow = "\(time), max_rate => 0.005"
            let expired = try await queue.number(
                """
                select would_expire
                from pushq.preview_campaign('\(Self.name)', 'p', payload => '{"aps":{"alert":"x"}}', \(slow))
                """)
            #expect((545...552).contains(expired), "\(expired)")
            #expect(try await warnings(queue, slow, key: "slow").count == 1)
            #expect(try await warnings(queue, "\(time), max_rate => 0.012", key: "fine") == [])
        }
    }

    /// Quiet hours that began an hour ago and end in three minutes, at a full minute.
    private static let quietFor3Minutes = """
        quiet_hours => to_char(now() at time zone 'UTC' - interval '1 hour', 'HH24:MI')
          || to_char(now() at time zone 'UTC' + interval '3 minutes', '-HH24:MI')
        """

    @Test(arguments: [
        "", #", local_time => to_char(now() at time zone 'UTC' - interval '2 minutes', 'YYYY-MM-DD"T"HH24:MI')"#,
    ])
    func `has the time that quiet hours leave`(clock: String) async throws {
        try await withQueue(devices: 1000) { _, queue in
            try await queue.run(
                """
                insert into pushq.profile (queue_id, device_id, time_zone) select queue_id, id, 'UTC' from pushq.device
                """)
            let until = { (minutes: Int) in "send_by => date_trunc('minute', now()) + interval '\(minutes) minutes'" }
            let options = "max_rate => 1, \(until(4)), \(Self.quietFor3Minutes)\(clock)"
            #expect(try await preview(queue, options).hasPrefix("940 of 1000, "))
            let said = try await warnings(queue, options).filter { $0.contains("would expire") }
            #expect(said.count == 1 && said[0].contains("about 940 of 1000"), "\(said)")
            // A recipient that quiet hours suppress takes no permit and does not expire.
            let short = "max_rate => 1, \(until(2)), \(Self.quietFor3Minutes)\(clock)"
            #expect(try await preview(queue, short) == "0 of 1000, ")
            #expect(try await warnings(queue, short, key: "short").filter { $0.contains("would expire") } == [])
            // Without profiles, the time zones of these devices are unknown.
            try await queue.run("delete from pushq.profile")
            if clock.isEmpty {
                let open = "max_rate => 1, send_by => now() + interval '1 minute', \(Self.quietFor3Minutes)"
                #expect(try await preview(queue, open) == "940 of 1000, 60")
            }
        }
    }

    @Test func `is used for none whose time has ended before, and for no inactive token of a list`() async throws {
        try await withQueue(devices: 1000) { _, queue in
            let sent = try await queue.texts(
                """
                select format('%s %s', late, done_at = '2026-12-01 00:01:40Z')
                from pushq.sent_at_rate(
                  1, array['2026-12-01 00:00Z', '2026-12-01 10:00Z']::timestamptz[],
                  array['2026-12-01 01:00Z', '2026-12-01 01:00Z']::timestamptz[], array[100, 1])
                """)
            #expect(sent == ["1 t"])
            try await queue.run(
                "update pushq.device set active = false, inactive_since = now() where get_byte(token, 7) >= 25")
            #expect(try await queue.number("select count(*) from pushq.device where active") == 99)
            let tokens = "\(Self.minute), tokens => array(select encode(token, 'hex') from pushq.device)"
            #expect(try await preview(queue, tokens) == "39 of 1000, 60")
            let time = #"local_time => to_char(now() at time zone 'UTC' - interval '1 minute', 'YYYY-MM-DD"T"HH24:MI')"#
            #expect(try await preview(queue, "\(tokens), \(time), default_zone => 'UTC'") == "39 of 1000, 60")
        }
    }

    @Test func `that an expiration makes too low is said with that`() async throws {
        try await withQueue(devices: 1000) { _, queue in
            let expiration = "expiration => extract(epoch from now() + interval '1 minute')::bigint"
            for (index, end) in ["", ", send_by => now() + interval '1 hour'"].enumerated() {
                let said = try await warnings(queue, "max_rate => 1, \(expiration)\(end)", key: "k\(index)")
                #expect(said.count == 1 && said[0].contains("raise max_rate, or give a later expiration"), "\(said)")
            }
            let said = try await warnings(
                queue, "\(Self.minute), expiration => extract(epoch from now() + interval '1 hour')::bigint", key: "by")
            #expect(said.count == 1 && said[0].contains("raise max_rate, or give a later send_by"), "\(said)")
        }
    }

    @Test func `of a schedule is looked at when it is added, and not for each run`() async throws {
        try await withQueue(devices: 1000) { _, queue in
            var warnings: [String] = []
            queue.connection.onWarning = { warnings.append("\($0)") }
            for (name, options) in [
                ("slow", #"{"max_rate": 0.01}"#), ("short", #"{"max_rate": 10, "send_by": "1 minute"}"#),
                ("fine", #"{"max_rate": 10, "send_by": "1 hour"}"#),
                ("local", #"{"max_rate": 0.001, "local_time": "09:00", "default_zone": "UTC"}"#),
            ] {
                try await queue.run(
                    """
                    select pushq.add_schedule(
                      '\(Self.name)', '\(name)', '0 7 * * *', '{"aps":{"alert":"x"}}', options => '\(options)')
                    """)
            }
            let slow = warnings.filter { $0.contains("recipients would expire") }
            #expect(warnings.count == 3 && slow.count == 3, "\(warnings)")
            warnings = []
            try await queue.run(
                """
                update pushq.schedule set cron = '* * * * *', next_at = date_trunc('minute', now()) where name = 'slow'
                """)
            #expect(try await queue.texts("select event from pushq.run_due_schedule()") == ["started"])
            #expect(warnings == [])
            // A producer who runs the schedule by hand does get the warning.
            try await queue.run("select pushq.run_schedule('\(Self.name)', 'slow')")
            #expect(warnings.count == 1, "\(warnings)")
        }
    }

    private static let halts = [
        """
        update pushq.queue set paused_at = now(), paused_reason = 'lunch';
        update pushq.queue set paused_at = null, paused_reason = null
        """,
        "select pushq.suspend_tenant('acme', true); select pushq.suspend_tenant('acme', false)",
    ]

    @Test(arguments: halts) func `is known from the last campaign that nothing held up`(halt: String) async throws {
        try await withQueue(devices: 1500) { _, queue in
            /// Starts a campaign and ends it after `seconds` seconds.
            func ended(_ key: String, seconds: Int, delivered: Int = 1500, options: String = "") async throws {
                let campaign = try await queue.startCampaign(key: key, options: options)
                try await queue.fanOut(campaign)
                try await queue.run(
                    """
                    insert into pushq.result (day, queue_id, root_id, job_id, message_id, ended_at, body_day, lane,
                                              attempt, outcomes, delivered, rejected, failed, suppressed, expired,
                                              cancelled, unknown, retried)
                    select pushq.today(), queue_id, root_id, id, message_id, clock_timestamp(), pushq.today(), lane, 1,
                           '', 0, 0, 0, 0, 0, 0, 0, 0
                    from pushq.job where root_id = \(campaign);
                    delete from pushq.job where root_id = \(campaign);
                    update pushq.fan_out set start_at = clock_timestamp() - interval '\(seconds) seconds'
                    where campaign_id = \(campaign);
                    update pushq.campaign set created_at = clock_timestamp() - interval '\(seconds) seconds'
                    where id = \(campaign);
                    update pushq.campaign_tally set delivered = \(delivered), suppressed = \(1500 - delivered)
                    where campaign_id = \(campaign)
                    """)
            }
            func speed() async throws -> String? {
                try await queue.texts(
                    """
                    select coalesce(round(speed)::text, 'unknown')
                    from pushq.preview_campaign('\(Self.name)', 'p', payload => '{"aps":{"alert":"x"}}')
                    """)[0]
            }
            try await ended("paced", seconds: 1000, options: ", max_rate => 100")
            #expect(try await speed() == "unknown")
            try await ended("free", seconds: 10)
            #expect(try await speed() == "150")
            // A retry of the same campaign ends much later.
            try await queue.run(
                """
                with retry as (
                  insert into pushq.body (day, queue_id, job_id, root_id, slice, first_device_id, last_device_id,
                                          device_ids)
                  select day, queue_id, nextval('pushq.id'), root_id, -1, first_device_id, first_device_id,
                         array[first_device_id]
                  from pushq.body
                  where root_id = (select id from pushq.campaign where key = 'free') and slice = 0
                  limit 1
                  returning day, queue_id, job_id, root_id)
                insert into pushq.result (day, queue_id, root_id, job_id, message_id, ended_at, body_day, lane,
                                          attempt, outcomes, delivered, rejected, failed, suppressed, expired,
                                          cancelled, unknown, retried)
                select day, queue_id, root_id, job_id, 0, clock_timestamp() + interval '1000 seconds', day, 2, 1, '',
                       0, 0, 0, 0, 0, 0, 0, 0
                from retry
                """)
            #expect(try await speed() == "150", "the retry does not count")
            try await ended("suppressed", seconds: 1, delivered: 100)
            try await ended("late", seconds: 1000, options: ", quiet_hours => '22:00-08:00'")
            try await ended("paused", seconds: 1000)
            try await queue.run("update pushq.campaign set forgiven_at = now() where key = 'paused'")
            try await ended("lifted", seconds: 1000, options: ", max_rate => 100")
            try await queue.run("delete from pushq.rate_limit")
            #expect(try await speed() == "150")
            // This campaign's start time is before it was created.
            try await ended("past", seconds: 20)
            try await queue.run(
                """
                update pushq.fan_out set start_at = start_at - interval '3 days'
                where campaign_id = (select id from pushq.campaign where key = 'past')
                """)
            #expect(try await speed() == "75")
            // The queue or its tenant was stopped meanwhile.
            try await queue.run(halt)
            try await ended("halted", seconds: 600)
            #expect(try await speed() == "75")
        }
    }
}
