import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

/// A campaign to the devices that match a filter.
@Suite(.timeLimit(.minutes(10))) struct `A campaign with a filter` {
    private static let name = "\(QueueFixture.name)"

    /// Creates six devices. `06` has no profile, `05` is for VoIP, and `04` is inactive.
    private func seed(_ queue: QueueFixture) async throws {
        try await queue.run(
            """
            select pushq.register_device('\(Self.name)', '01', 'ann', locale => 'de-AT', app_version => '2.9',
                                         tags => array['vip', 'beta'], attributes => '{"plan":"pro","visits":7,"staff":true}');
            select pushq.register_device('\(Self.name)', '02', 'bob', locale => 'de', app_version => '2.10',
                                         tags => array['beta'], attributes => '{"plan":"free","visits":12}');
            select pushq.register_device('\(Self.name)', '03', null, locale => 'en-GB', app_version => '2.10.0',
                                         time_zone => 'Europe/London', attributes => '{"visits":"7"}');
            select pushq.register_device('\(Self.name)', '04', 'ann', locale => 'de', tags => array['vip']);
            select pushq.set_device('\(Self.name)', '04', false);
            select pushq.register_device('\(Self.name)', '05', 'ann', kind => 'voip', locale => 'de');
            insert into pushq.device (queue_id, token) values (\(queue.id), '\\x06');
            update pushq.device set registered_at = now() - interval '40 days' where token = '\\x02';
            update pushq.profile set first_seen_at = '2026-01-31T23:30:00Z'
            where device_id = (select id from pushq.device where token = '\\x01');
            """)
    }

    /// The filter as an argument of a campaign.
    private func filter(_ text: String) -> String { ", filter => '" + text.replacing("'", with: "''") + "'" }

    /// The tokens of a campaign's recipients.
    private func recipients(_ campaign: Int64, _ queue: QueueFixture) async throws -> [String] {
        try await queue.fanOut(campaign)
        return try await inJobs(campaign, queue)
    }

    private func inJobs(_ campaign: Int64, _ queue: QueueFixture) async throws -> [String] {
        let statement = Statement(
            "tokens",
            #"""
            select encode(d.token, 'hex') as token
            from pushq.body b
            cross join unnest(b.device_ids) recipient
            join pushq.device d on d.queue_id = b.queue_id and d.id = recipient
            where b.root_id = $root
            order by token
            """#)
        return try await queue.connection.execute(statement, ["root": .int8(campaign)]).map { $0.text("token") }
    }

    private static let filters: [(filter: String, tokens: [String])] = [
        ("locale = 'de'", ["01", "02"]),
        ("locale = 'de_AT@calendar=japanese'", ["01"]),
        ("locale = 'de_at' or locale in ('en')", ["01", "03"]),
        ("locale != 'de'", ["03", "06"]),
        ("locale is missing", ["06"]),
        ("not locale is missing and locale not in ('de-AT', 'en')", ["02"]),
        ("app_version > 2.9", ["02", "03"]),
        ("app_version = '2.10.0'", ["02", "03"]),
        ("not app_version >= 2.10", ["01", "06"]),
        ("tag 'vip'", ["01"]),
        ("tag in ('vip', 'beta')", ["01", "02"]),
        ("not tag 'beta'", ["03", "06"]),
        ("tag is missing", ["03", "06"]),
        ("attribute plan in ('pro', 'team')", ["01"]),
        ("attribute plan != 'pro'", ["02", "03", "06"]),
        ("attribute visits >= 7", ["01", "02"]),
        ("attribute visits = 7.0", ["01"]),
        ("attribute visits = '7'", ["03"]),
        ("attribute plan < 'pq'", ["02"]),
        ("attribute staff = true", ["01"]),
        ("attribute \"visits\" is missing", ["06"]),
        ("time_zone = 'Europe/London'", ["03"]), ("time_zone in ('GB')", ["03"]),
        ("user in ('ann', 'bob') AND NOT User = 'bob'", ["01"]),
        ("user is missing", ["03", "06"]),
        ("seen within 30 days", ["01", "03"]),
        ("not seen within 1 week", ["02", "06"]),
        ("registered < '2026-02-01'", ["01"]),
        ("registered < '2026-02-01T00:30:00+01:00'", []),
        ("kind = 'alert' and locale = 'de' or user is missing and not (tag 'vip')", ["01", "02", "03", "06"]),
        ("kind = 'voip'", []),
    ]

    @Test func `goes to the active devices of its kind that the filter holds for, as many as it says before`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await seed(queue)
            for (text, tokens) in Self.filters {
                let preview = try await queue.connection.preview(
                    CampaignDraft(
                        MessageDraft(payload: #"{"aps":{"alert":"x"}}"#), key: text, inQueue: QueueFixture.name,
                        where: text))
                #expect(preview.recipients == tokens.count, "\(text)")
                let campaign = try await queue.startCampaign(key: text, options: filter(text))
                #expect(try await recipients(campaign, queue) == tokens, "\(text)")
            }
        }
    }

    @Test func `says before how many of the devices that it is for are inactive`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await seed(queue)
            let preview = try await queue.connection.preview(
                CampaignDraft(
                    MessageDraft(payload: #"{"aps":{"alert":"x"}}"#), key: "k", inQueue: QueueFixture.name,
                    where: "tag 'vip'"))
            #expect((preview.recipients, preview.inactive) == (1, 1))
        }
    }

    @Test func `is the same campaign when its filter is written differently, and another one with another filter`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            let first = try await queue.startCampaign(options: filter("locale = 'de' and tag 'vip'"))
            #expect(
                try await queue.startCampaign(options: filter(#"LOCALE="de"  and ( tag in ('vip') )"#)) == first
            )
            for other in ["", filter("locale = 'de'")] {
                await #expect {
                    try await queue.startCampaign(options: other)
                } throws: {
                    "\($0)".contains("key “k” was used for another campaign")
                }
            }
        }
    }

    @Test func `is paced by what it looks at, and goes on where a worker left off`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1000)
            try await queue.run(
                """
                insert into pushq.profile (queue_id, device_id, tags)
                select queue_id, id, array['tenth'] from pushq.device where get_byte(token, 7) % 10 = 0
                """)
            let wanted = try await queue.number("select count(*) from pushq.profile")
            let campaign = try await queue.startCampaign(options: filter("tag 'tenth'"))
            var made: [Int] = []
            while let jobs = try await queue.worker.fanOutStep(
                queueID: queue.id, campaignID: campaign, jobLimit: 40, scanLimit: 300)
            {
                made.append(jobs)
                #expect(made.count < 10)
            }
            // Four steps find fewer recipients than a job has. The last step finds that there are no more devices.
            #expect(made == [0, 0, 0, 0, 1])
            #expect(try await inJobs(campaign, queue).count == wanted)
        }
    }

    @Test func `makes no more jobs in a step than it is asked for, and misses and repeats nobody`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1000)
            let campaign = try await queue.startCampaign(options: filter("tag is missing") + ", max_rate => 10")
            let lane = try #require(Lane(rawValue: Int32(try await queue.number("select lane from pushq.fan_out"))))
            var steps = 0
            while let jobs = try await queue.worker.fanOutStep(
                queueID: queue.id, lane: lane, jobLimit: 3, scanLimit: 500)
            {
                #expect(jobs <= 3)
                steps += 1
            }
            // Each step finds 60 recipients.
            #expect(steps == 18)
            let tokens = try await inJobs(campaign, queue)
            #expect(tokens.count == 1000 && Set(tokens).count == 1000)
        }
    }

    @Test func `looks at fewer devices in a step if its filter is expensive, and at all of them in the end`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 20_000)
            try await queue.run(
                """
                insert into pushq.profile (queue_id, device_id, locale) select queue_id, id, 'de' from pushq.device;
                select pushq.save_audience('\(Self.name)', 'costly', 'locale in (' || repeat('''zz'',', 1900) || '''zz'')')
                """)
            let costly = Array(repeating: "audience costly", count: 5).joined(separator: " or ")
            let campaign = try await queue.startCampaign(options: filter("\(costly) or locale = 'de'"))
            // A step with all of the devices would take a second or more.
            _ = try await queue.worker.fanOutStep(
                queueID: queue.id, campaignID: campaign, jobLimit: 40, scanLimit: 50_000)
            #expect((1..<20_000).contains(try await queue.number("select made from pushq.fan_out")))
            let tokens = try await recipients(campaign, queue)
            #expect(tokens.count == 20_000 && Set(tokens).count == 20_000)
        }
    }

    @Test func `looks for thousands of versions as quickly as for a few`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 2000)
            try await queue.run(
                """
                insert into pushq.profile (queue_id, device_id, app_version)
                select queue_id, id, case when (id >> 10) % 2 = 0 then '03.1.0' else '4' end from pushq.device
                """)
            let versions = "3.1.0.0," + Array(repeating: "7", count: 4900).joined(separator: ",")
            let campaign = try await queue.startCampaign(options: filter("app_version in (\(versions))"))
            // It used to take a minute and a half.
            let stopwatch = Stopwatch()
            #expect(try await recipients(campaign, queue).count == 1000)
            #expect(stopwatch.quietTime < .seconds(20))
        }
    }

    @Test func `decides about a device once, when it comes to it`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 4)
            func tag(_ index: Int, _ tags: String) async throws {
                try await queue.run(
                    "select pushq.register_device('\(Self.name)', encode(int8send(\(index)), 'hex'), null, tags => \(tags))"
                )
            }
            for index in [1, 3] { try await tag(index, "array['vip']") }
            let campaign = try await queue.startCampaign(options: filter("tag 'vip'"))
            func step() async throws -> Int? {
                try await queue.worker.fanOutStep(queueID: queue.id, campaignID: campaign, jobLimit: 1, scanLimit: 2)
            }
            #expect(try await step() == 0)
            // The step has looked at the first two devices, but not at the others.
            try await tag(1, "'{}'")
            try await tag(2, "array['vip']")
            try await tag(3, "'{}'")
            try await tag(4, "array['vip']")
            #expect(try await step() == 0)
            #expect(try await step() == 1)
            #expect(try await step() == nil)
            #expect(try await inJobs(campaign, queue) == ["0000000000000001", "0000000000000004"])
        }
    }

    @Test func `counts days back from now if its start has passed, as a preview does`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            try await queue.run(
                """
                insert into pushq.profile (queue_id, device_id, seen_at)
                select queue_id, id, now() - interval '10 days' * row_number() over (order by id) + interval '9 days'
                from pushq.device
                """)
            let options = ", filter => 'seen within 7 days', start_at => now() - interval '30 days'"
            try await queue.fanOut(try await queue.startCampaign(options: options))
            #expect(try await queue.number("select sum(recipient_count) from pushq.job") == 1)
        }
    }

    @Test func `counts days back from its start, however late it comes to a device`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                insert into pushq.device (queue_id, token, registered_at)
                values (\(queue.id), '\\x01', now() - interval '23 hours'), (\(queue.id), '\\x02', now() - interval '25 hours')
                """)
            let campaign = try await queue.startCampaign(options: filter("seen within 1 day"))
            try await queue.run("update pushq.fan_out set start_at = start_at - interval '2 hours'")
            #expect(try await recipients(campaign, queue) == ["01", "02"])
        }
    }

    @Test func `knows nothing of the devices of another queue`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await seed(queue)
            try await queue.run(
                """
                insert into pushq.tenant (name) values ('beta');
                insert into pushq.app (tenant_id, bundle_id) select id, 'com.beta' from pushq.tenant where name = 'beta';
                insert into pushq.queue (tenant_id, app_id, environment)
                select tenant_id, id, 'sandbox' from pushq.app where bundle_id = 'com.beta';
                select pushq.register_device('beta/com.beta/sandbox', '01', 'eve', locale => 'fr', tags => array['vip']);
                -- The ID of one of the first queue's devices that has no profile.
                insert into pushq.profile (queue_id, device_id, tags)
                select (select max(id) from pushq.queue), id, array['vip'] from pushq.device where token = '\\x06'
                """)
            let campaign = try await queue.startCampaign(options: filter("tag 'vip' or locale = 'fr'"))
            #expect(try await recipients(campaign, queue) == ["01"])
            let preview = try await queue.connection.preview(
                CampaignDraft(
                    MessageDraft(payload: #"{"aps":{"alert":"x"}}"#), key: "o", inQueue: QueueFixture.name,
                    where: "tag 'vip'"))
            #expect(preview.recipients == 1)
        }
    }

    private static let refused: [(filter: String, position: Int, problem: String)] = [
        ("locle = 'de'", 1, "there is no field “locle”; did you mean “locale”?"),
        ("plan = 'pro'", 1, "there is no field “plan”; if it is an attribute, write: attribute plan"),
        ("version > 2", 1, "there is no field “version”: use app_version"),
        ("tag 'vip' adn tag 'x'", 11, "expected “and”, “or” or the end, not “adn”; did you mean “and”?"),
        ("locale = de", 10, "“de” needs quotes: 'de'"),
        ("locale = 'de", 10, "this quote is not closed"),
        ("locale = “de”", 10, "“ is not a quote: use '"),
        ("locale == 'de'", 8, "use = for “==”"),
        ("locale < 'de'", 8, "“locale” has no order: use =, != or in"),
        ("locale = ''", 10, "the locale is empty: to find devices without one, write locale is missing"),
        ("time_zone = ''", 13, "the time zone is empty: to find devices without one, write time_zone is missing"),
        (
            "time_zone = 'europe/vienna'", 13,
            "the time zone “europe/vienna” is unknown: use a name of the IANA database, such as Europe/Berlin; did you mean “Europe/Vienna”?"
        ),
        (
            "time_zone = 'america/port-au-prince'", 13,
            "the time zone “america/port-au-prince” is unknown: use a name of the IANA database, such as Europe/Berlin; did you mean “America/Port-au-Prince”?"
        ),
        (
            "time_zone != 'America/Port-Au-Prince'", 14,
            "“America/Port-Au-Prince” is written otherwise; did you mean “America/Port-au-Prince”?"
        ),
        (
            "time_zone = 'America/new_york'", 13,
            "“America/new_york” is written otherwise; did you mean “America/New_York”?"
        ),
        ("seen >= 2026-01-01", 9, "a time needs quotes, such as '2026-11-22'"),
        ("app_version > 1234567890123456789", 15, "“1234567890123456789” is not a version: it has more than 8"),
        ("locale = 'german!'", 10, "“german!” is not a language tag: use one such as de or de-AT"),
        (
            "time_zone = 'CET'", 13,
            "the time zone “CET” is unknown: use a name of the IANA database, such as Europe/Berlin"
        ),
        ("kind = 'voice'", 8, "the kind “voice” is unknown"),
        ("kind is missing", 9, "a kind is never missing"),
        ("tag = 'vip'", 5, "a tag is there or not: write tag 'vip', or not tag 'vip'"),
        ("app_version > 'x'", 15, "“x” is not a version: use numbers with dots, such as 4.12.1"),
        ("attribute visits > true", 18, "true and false have no order: use = or !="),
        ("attribute visits > 1.2.3", 20, "“1.2.3” is not a number; as a text it needs quotes: '1.2.3'"),
        ("attribute = 'x'", 11, "expected the name of an attribute, not “=”"),
        ("seen within 30 dayz", 16, "expected minutes, hours, days or weeks, not “dayz”; did you mean “days”?"),
        ("seen within 0 days", 13, "expected a number from 1 to 99999 behind “within”, not “0”"),
        ("seen within 99999 weeks", 13, "that is longer than 11574 days"),
        ("seen = '2026-01-01'", 6, "“seen” takes <, <=, >, >= or within"),
        ("seen > 'yesterday'", 8, "“yesterday” is not a time: use one such as 2026-11-22 or 2026-11-22T09:00:00+01:00"),
        ("seen > '2026-02-30'", 8, "“2026-02-30” is not an existing day and time"),
        ("user within 3 days", 6, "“within” is for “registered” and “seen” only"),
        ("user is nobody", 9, "expected “missing” behind “is”, not “nobody”"),
        ("user in 'ann'", 9, "expected “(” behind “in”, not “'ann'”"),
        ("user in ('ann' 'bob')", 16, "expected “,” or “)”, not “'bob'”"),
        ("(tag 'a' or (tag 'b')", 22, "the “(” at position 1 is not closed"),
        ("tag 'a')", 8, "this “)” closes nothing"),
        ("tag 'a' and", 12, "expected a field, “not” or “(”, not the end"),
        ("user", 5, "expected =, !=, <, <=, >, >=, “in”, “is” or “within” behind “user”, not the end"),
        ("", 1, "it is empty"),
        ("ähnlich 'x'", 1, "expected a field, “not” or “(”, not “ä”"),
        ("tag 'x'; drop table pushq.device", 8, "expected “and”, “or” or the end, not “;”"),
        (
            String(repeating: "(", count: 21) + "tag 'x'" + String(repeating: ")", count: 21), 21,
            "more than 20 parentheses are open here"
        ),
        ("tag '" + String(repeating: "x", count: 10_000) + "'", 10_001, "it is longer than 10000 characters"),
        (
            Array(repeating: "tag 'x'", count: 300).joined(separator: " or "), 2201,
            "it has 300 conditions, and may have 200: write one condition for several values, such as tag in ('a', 'b')"
        ),
    ]

    @Test func `is refused with the position of what is wrong and what to do about it`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            for (text, position, problem) in Self.refused {
                let error = await #expect(throws: PostgresError.self, "\(text)") {
                    try await queue.startCampaign(options: filter(text))
                }
                guard case .raised(let message, let hint)? = error else {
                    Issue.record("\(text): \(String(describing: error))")
                    continue
                }
                #expect(message.hasPrefix("the filter is wrong at position \(position): \(problem)"), "\(message)")
                #expect(hint == "docs/audiences.md has the grammar")
            }
            #expect(try await queue.number("select count(*) from pushq.campaign") == 0)
        }
    }

    @Test func `is parsed and answered at its greatest length`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            let chain = Array(repeating: "not tag 'x'", count: 200).joined(separator: " and ")
            let nested =

                "(" + String(repeating: "not (tag 'x' or ", count: 19) + "tag 'x'" + String(repeating: ")", count: 20)
            let users = (0..<1200).map { "'u\($0)'" }.joined(separator: ",")
            for (index, text) in [chain, nested, "user not in (\(users))"].enumerated() {
                let campaign = try await queue.startCampaign(key: "\(index)", options: filter(text))
                #expect(try await recipients(campaign, queue).count == 3, "\(text.prefix(40))")
            }
        }
    }
}
