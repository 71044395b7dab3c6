import Cryptography
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

/// Variants of a campaign's message, and its holdout: `migrations/functions/shares.sql`.
@Suite(.timeLimit(.minutes(10))) struct `A campaign in shares` {
    private static let name = "\(QueueFixture.name)"

    /// A variant as SQL.
    private static func variant(_ name: String, _ share: String) -> String {
        #"{"name":"\#(name)","share":\#(share),"payload":{"aps":{"alert":"\#(name)"}}}"#
    }

    /// The options of a campaign with the variants b and c and a holdout.
    private static let options =
        ", variants => '[\(variant("b", "0.3")),\(variant("c", "0.2"))]', holdout => 0.1"

    // MARK: The share of each device

    /// The share of a device by the rules of docs/variants.md. It shares no code with the function in SQL.
    private struct Judge {
        let key: String
        /// In the order: holdout if there is one, payload, variants.
        let shares: [(name: String, millionths: UInt64)]

        func share(of device: Int64) -> String {
            var bytes = Array(key.utf8) + [0]
            for place in 0..<8 { bytes.append(UInt8(truncatingIfNeeded: device >> (56 - 8 * place))) }
            let point = SHA256.digest(of: bytes).prefix(4).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
            var end: UInt64 = 0
            for (name, millionths) in shares {
                end += millionths
                // The end of the share, rounded to the nearest integer.
                if point < (end * (1 << 32) + 500_000) / 1_000_000 { return name }
            }
            return shares.last!.name
        }
    }

    private static let inJobs = Statement(
        "in_shares",
        #"""
        select recipient, s.name
        from pushq.campaign k
        join pushq.body b on b.queue_id = k.queue_id and b.root_id = k.id
        cross join unnest(b.device_ids) recipient
        join pushq.job j on j.queue_id = b.queue_id and j.id = b.job_id
        join pushq.campaign_share s on s.queue_id = k.queue_id and s.campaign_id = k.id and s.message_id = j.message_id
        where k.key = $key
        """#)

    /// The waiting recipients of a campaign, each with all shares that it is in.
    private func recipients(_ key: String, _ queue: QueueFixture) async throws -> [Int64: [String]] {
        let rows = try await queue.connection.execute(Self.inJobs, ["key": .text(key)], within: .seconds(60))
        return Dictionary(grouping: rows.map { ($0.int8("recipient"), $0.text("name")) }, by: \.0)
            .mapValues { $0.map(\.1) }
    }

    @Test func `puts each device into the one share that its hash says, whatever the shares, audience and steps`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            var random = SeededGenerator(seed: 7)
            // IDs with gaps of any length, as the devices of many queues leave them.
            try await queue.run(
                """
                select setseed(0.5);
                insert into pushq.device (queue_id, id, token)
                select q.id, sum(1 + floor(random() ^ 8 * 100000)::bigint) over (order by i), int8send(i)
                from pushq.queue q, generate_series(1, 4000) i;
                insert into pushq.profile (queue_id, device_id, tags, time_zone)
                select queue_id, id, case when id % 3 = 0 then array['vip'] else '{}' end, 'UTC' from pushq.device
                """)
            let all = try await queue.connection.execute(
                Statement(
                    "devices",
                    "select array_agg(id) as ids, array_agg(id) filter (where id % 3 = 0) as vips from pushq.device")
            ).one()
            for round in 1...Int(seeds(10).upperBound) {
                // The key may contain any characters.
                let key = ["k", "über", "a|b", "👍", ""][round % 5] + "\(round)"
                let holdout = round % 3 == 0 ? 0 : UInt64.random(in: 1...400_000, using: &random)
                let variants = (0..<Int.random(in: holdout == 0 ? 1...5 : 0...5, using: &random)).map { number in
                    (name: "v\(number)", millionths: UInt64.random(in: 1...110_000, using: &random))
                }
                let rest = 1_000_000 - variants.reduce(holdout) { $0 + $1.millionths }
                let judge = Judge(
                    key: key,
                    shares: (holdout == 0 ? [] : [("holdout", holdout)]) + [("payload", rest)] + variants)
                let list = variants.map { Self.variant($0.name, "\(Double($0.millionths) / 1_000_000)") }
                var options = ", holdout => \(Double(holdout) / 1_000_000)"
                if !list.isEmpty { options += ", variants => '[\(list.joined(separator: ","))]'" }
                var audience = all.int8Array("ids")
                switch round % 4 {
                case 0:
                    options += ", filter => 'tag ''vip'''"
                    audience = all.int8Array("vips")
                case 1: options += ", tokens => array(select encode(token, 'hex') from pushq.device)"
                case 2: options += ", local_time => '00:00', if_passed => 'now', default_zone => 'UTC'"
                default: break
                }
                let campaign = try await queue.startCampaign(key: key, options: options)
                let (jobs, scan) = (Int.random(in: 1...5, using: &random), Int.random(in: 100...3000, using: &random))
                var steps = 0
                while try await queue.worker.fanOutStep(
                    queueID: queue.id, campaignID: campaign, jobLimit: jobs, scanLimit: scan) != nil, steps < 500
                {
                    steps += 1
                }
                #expect(try await queue.number("select count(*) from pushq.fan_out where not done") == 0)
                let found = try await recipients(key, queue)
                var wrong = 0
                var held = 0
                for device in audience {
                    let share = judge.share(of: device)
                    if share == "holdout" { held += 1 }
                    if (found[device] ?? ["holdout"]) != [share] { wrong += 1 }
                }
                #expect(wrong == 0, "round \(round): \(judge.shares)")
                #expect(found.count + held == audience.count, "round \(round)")
                let counted = try await queue.number(
                    "select held_out * 1000000 + made from pushq.fan_out where campaign_id = \(campaign)")
                #expect(counted == held * 1_000_000 + found.count, "round \(round)")
                let shown = try await queue.connection.shares(ofCampaign: campaign, inQueue: QueueFixture.name)
                for share in shown {
                    #expect(share.total == audience.count { judge.share(of: $0) == share.name }, "round \(round)")
                }
            }
        }
    }

    @Test func `fills jobs share by share, and loses nobody between two steps`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 5000)
            let campaign = try await queue.startCampaign(options: Self.options)
            while try await queue.worker.fanOutStep(
                queueID: queue.id, campaignID: campaign, jobLimit: 1, scanLimit: 300) != nil
            {}
            let found = try await recipients("k", queue)
            #expect(found.count + (try await queue.number("select held_out from pushq.fan_out")) == 5000)
            #expect(found.values.allSatisfy { $0.count == 1 })
            // Each share has at most one job that is not full.
            #expect(try await queue.number("select count(*) from pushq.job where recipient_count < 500") <= 3)
        }
    }

    @Test func `takes as many steps as its recipients need, also when its shares leave more than a step's over`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 10_000)
            try await queue.run(
                "insert into pushq.profile (queue_id, device_id, locale) select queue_id, id, 'de' from pushq.device")
            let variants = (1...9).map { Self.variant("v\($0)", "0.1") }
            let campaign = try await queue.startCampaign(
                options: ", filter => 'locale = ''de''', variants => '[\(variants.joined(separator: ","))]'")
            var steps = 0
            // Each step creates one job, as under a rate. Ten shares leave up to ten jobs over.
            while steps < 100,
                try await queue.worker.fanOutStep(
                    queueID: queue.id, campaignID: campaign, jobLimit: 1, scanLimit: 50_000) != nil
            {
                steps += 1
            }
            #expect((20...22).contains(steps))
            #expect(try await queue.number("select made from pushq.fan_out where done") == 10_000)
        }
    }

    @Test func `has nobody in its holdout whom the clock leaves out`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1000)
            try await queue.run(
                """
                insert into pushq.profile (queue_id, device_id, time_zone)
                select queue_id, id, case when (id >> 10) % 2 = 0 then 'UTC' else 'Asia/Tokyo' end from pushq.device
                """)
            let now = #"to_char(now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI')"#
            let campaign = try await queue.startCampaign(
                options: ", local_time => \(now), if_passed => 'never', holdout => 0.3")
            try await queue.fanOut(campaign)
            #expect(try await queue.number("select left_out from pushq.fan_out") == 500)
            #expect(try await queue.number("select made + held_out from pushq.fan_out") == 500)
            #expect((100...200).contains(try await queue.number("select held_out from pushq.fan_out")))
        }
    }

    @Test func `keeps its holdout out of the recipients of a list that are cancelled`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1000)
            let campaign = try await queue.startCampaign(
                options: ", tokens => array(select encode(token, 'hex') from pushq.device), holdout => 0.4")
            let held = try await queue.number(
                """
                select count(*)
                from pushq.fan_out f, pushq.shares_of(f.shares, array(select id from pushq.device order by id)) s
                where s.share = 0
                """)
            // A sample, if there are too many recipients to check: each one is still counted in one of the numbers.
            let estimate =
                """
                from (select (pushq.list_left(f, 200)).* from pushq.fan_out f) n
                where n.recipients + n.held_out = 1000 and n.left_out = 0 and n.held_out between 250 and 550
                """
            #expect(try await queue.number("select count(*) \(estimate)") == 1)
            // Some recipients are already in jobs.
            #expect(
                try await queue.worker.fanOutStep(
                    queueID: queue.id, campaignID: campaign, jobLimit: 1, scanLimit: 600) != nil)
            try await queue.run("select pushq.cancel_campaign('\(QueueFixture.name)', 'k')")
            #expect(try await queue.number("select total from pushq.campaign_progress") == 1000 - held)
            #expect(try await queue.number("select cancelled + waiting from pushq.campaign_progress") == 1000 - held)
            #expect(try await queue.number("select held_out from pushq.campaign_progress") == held)
        }
    }

    @Test(arguments: [
        "", ", filter => 'tag ''vip'''", ", tokens => array(select encode(token, 'hex') from pushq.device)",
    ])
    func `is previewed as it is: who is in each share, and who of them lacks an attribute`(audience: String)
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 600)
            try await queue.run(
                """
                insert into pushq.profile (queue_id, device_id, tags, attributes)
                select queue_id, id, case when (id >> 10) % 3 > 0 then array['vip'] else '{}' end,
                       case when (id >> 10) % 5 = 0 then '{}' else '{"name": "Ann"}'::jsonb end
                from pushq.device
                """)
            let shares =
                #", variants => '[{"name":"b","share":0.3,"payload":{"aps":{"alert":"Ho {{name}}"}}}]', holdout => 0.2"#
            let campaign = try await queue.startCampaign(
                options: shares + audience.replacing("select token", with: "select encode(token, 'hex')"))
            try await queue.fanOut(campaign)
            let made = try await queue.texts(
                """
                select array_agg(n order by place)
                from (select 0 as place, held_out as n from pushq.fan_out
                      union all select place, made from pushq.campaign_share) s
                """)
            let previewed = try await queue.texts(
                """
                select in_shares
                from pushq.preview_campaign('\(Self.name)', 'k', payload => '{"aps":{"alert":"x"}}'\(shares)\(audience))
                """)
            #expect(previewed == made)
            let recipients = """
                select recipients
                from pushq.preview_campaign('\(Self.name)', 'k', payload => '{"aps":{"alert":"x"}}'\(shares)\(audience))
                """
            #expect(
                try await queue.number(recipients) == queue.number("select sum(made) from pushq.campaign_share"),
                "devices of the holdout are not recipients")
            let message = try await queue.texts(
                """
                select format('%s %s', recipients, lacking)
                from pushq.preview_message(
                  '\(Self.name)', '{"aps":{"alert":"Ho {{name}}"}}'::text, key => 'k', share => 'b'\(shares)\(audience))
                """)
            let outcome = try await queue.texts(
                """
                select format('%s %s', count(*), count(*) filter (where p.attributes = '{}'))
                from pushq.campaign_share s
                join pushq.job j on j.queue_id = s.queue_id and j.message_id = s.message_id
                join pushq.body b on b.queue_id = j.queue_id and b.job_id = j.id
                cross join unnest(b.device_ids) recipient
                join pushq.profile p on p.queue_id = b.queue_id and p.device_id = recipient
                where s.name = 'b'
                """)
            #expect(message == outcome)
        }
    }

    @Test func `is previewed with tokens that are no devices yet dealt to its shares, each once`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 10)
            let shares = ", variants => '[\(Self.variant("b", "0.3"))]', holdout => 0.2"
            let tokens = ", tokens => array(select encode(int8send(i), 'hex') from generate_series(1, 110) i)"
            let counts = try await queue.texts(
                """
                select format('%s %s', (select sum(n) from unnest(in_shares) n),
                              (select bool_and(n between 20 and 60) from unnest(in_shares) n))
                from pushq.preview_campaign('\(Self.name)', 'k', payload => '{"aps":{"alert":"x"}}'\(shares)\(tokens))
                """)
            #expect(counts == ["110 t"])
            let recipients = { (share: String) in
                """
                select sum(recipients)
                from pushq.preview_message(
                  '\(Self.name)', '{"aps":{"alert":"Ho {{name|}}"}}'::text, key => 'k', share => '\(share)'\(shares)\(tokens))
                """
            }
            let sum = try await queue.number(recipients("b")) + queue.number(recipients("payload"))
            #expect(
                try await sum
                    == 110
                    - queue.number(
                        """
                        select in_shares[1]
                        from pushq.preview_campaign('\(Self.name)', 'k', payload => '{"aps":{"alert":"x"}}'\(shares)\(tokens))
                        """))
            for (options, problem) in [
                (", key => 'k', share => 'c'", "the campaign has no share “c”"),
                ("", "which devices are in a share depends on the key"),
            ] {
                await #expect {
                    try await queue.run(
                        #"select pushq.preview_message('\#(Self.name)', '{"aps":{"alert":"x"}}'::text\#(shares)\#(options))"#
                    )
                } throws: {
                    "\($0)".contains(problem)
                }
            }
        }
    }

    // MARK: Repetition

    @Test func `is the same campaign if it is repeated, and another one with other shares`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 10)
            let campaign = try await queue.startCampaign(options: Self.options)
            let again =
                #", variants => '[{"share":0.30, "name":"b", "payload":{"aps": {"alert":"b"}}},\#(Self.variant("c", "2e-1"))]'"#
            #expect(try await queue.startCampaign(options: again + ", holdout => 0.1") == campaign)
            #expect(try await queue.number("select count(*) from pushq.message") == 3)
            for other in [
                "", ", holdout => 0.1", again, again + ", holdout => 0.2",
                ", variants => '[\(Self.variant("b", "0.3")),\(Self.variant("c", "0.25"))]', holdout => 0.1",
                ", variants => '[\(Self.variant("b", "0.3")),\(Self.variant("d", "0.2"))]', holdout => 0.1",
            ] {
                let error = await #expect(throws: PostgresError.self, "\(other)") {
                    try await queue.startCampaign(options: other)
                }
                #expect(error?.description.contains("key “k” was used for another campaign") == true)
            }
            // No holdout is the same as a holdout of 0.
            let plain = try await queue.startCampaign(key: "plain")
            #expect(try await queue.startCampaign(key: "plain", options: ", holdout => 0, variants => '[]'") == plain)
        }
    }

    private static let mistakes: [(arguments: String, problem: String)] = [
        ("holdout => 1", "holdout 1 is not a share of the devices; it is 0 or more and less than 1, such as 0.1"),
        ("holdout => -0.1", "holdout -0.1 is not a share"), ("holdout => 'NaN'", "holdout NaN is not a share"),
        ("variants => '{}'", "the variants are not a JSON array"),
        ("variants => '[1]'", "variant 1 is not a JSON object"),
        ("variants => '[\(variant("b", "0.5")),\(variant("b", "0.1"))]'", "variant 2 is called “b”, as another one is"),
        ("variants => '[\(variant("payload", "0.5"))]'", "variant 1 cannot be called “payload”"),
        ("variants => '[\(variant("", "0.5"))]'", "variant 1 cannot be called “”"),
        ("variants => '[\(variant("b", "0"))]'", "variant 1 has the share 0"),
        ("variants => '[\(variant("b", "1"))]'", "variant 1 has the share 1"),
        ("variants => '[\(variant("b", "\"5\""))]'", "variant 1 has no share"),
        (#"variants => '[{"name":"b","share":0.5}]'"#, "variant 1 has no payload"),
        (#"variants => '[{"name":"b","share":0.5,"payload":{"aps":{}},"badge":1}]'"#, "variant 1 has “badge”"),
        (#"variants => '[{"name":"b","name":"b","share":0.5,"payload":{}}]'"#, "variant 1 names a member twice"),
        (
            "variants => '[\(variant("b", "0.9"))]', holdout => 0.1",
            "the variants and the holdout take 100 % together, and leave nobody for the payload"
        ),
        (
            "holdout => 0.9999999999, max_rate => 1",
            "the variants and the holdout take 99.99999999 % together, and leave nobody for the payload"
        ),
        (
            #"variants => '[{"name":"b","share":0.5,"payload":{"acme":1}}]'"#,
            "variant “b”: aps is missing, which push type alert requires"
        ),
        (
            #"variants => '[{"name":"b","share":0.5,"payload":{"aps":{"alert":"{{x"}}}]'"#,
            "variant “b”: the placeholder at position"
        ),
        (
            "variants => '[\((1...10).map { variant("v\($0)", "0.01") }.joined(separator: ","))]'",
            "the campaign has 10 variants: use at most 9"
        ),
    ]

    @Test func `is refused with the variant that is wrong, and how to write it`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            for (arguments, problem) in Self.mistakes {
                let error = await #expect(throws: PostgresError.self, "\(arguments)") {
                    try await queue.startCampaign(options: ", \(arguments)")
                }
                #expect(error?.description.contains(problem) == true, "\(arguments): \(String(describing: error))")
            }
            #expect(try await queue.number("select count(*) from pushq.campaign") == 0)
            #expect(try await queue.number("select count(*) from pushq.message") == 0)
        }
    }

    // MARK: Outcomes

    @Test func `is counted share by share, also when failed recipients are sent to again`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1000)
            let campaign = try await queue.startCampaign(options: Self.options)
            try await queue.fanOut(campaign)
            let jobs = try await queue.claim()
            #expect(jobs.count == 3)
            // The first two recipients of each job fail.
            let failed = Outcome.failed(.otherTransient)
            _ = try await queue.worker.endJobs(
                jobs.map { queue.settled($0, other: [0: failed, 1: failed]) }, workerID: 1)
            func shares() async throws -> [ShareSummary] {
                try await queue.connection.shares(ofCampaign: campaign, inQueue: QueueFixture.name)
            }
            var shown = try await shares()
            #expect(shown.map(\.name) == ["payload", "b", "c", "holdout"])
            #expect(shown.map { Int(($0.fraction * 1000).rounded()) } == [400, 300, 200, 100])
            for share in shown.dropLast() {
                #expect(share.tally.delivered == share.total - 2 && share.tally.failed == 2 && share.waiting == 0)
            }
            #expect(shown.map(\.total).reduce(0, +) == 1000)
            #expect(try await queue.number("select pushq.retry_failed_campaign('\(Self.name)', 'k')") == 6)
            shown = try await shares()
            for share in shown.dropLast() {
                #expect(share.tally.failed == 0 && share.tally.retried == 2 && share.waiting == 2)
            }
            // Each recipient gets the same payload as before.
            let again = try await queue.claim()
            #expect(Set(again.map { String(decoding: $0.message.payload, as: UTF8.self) }).count == 3)
            _ = try await queue.worker.endJobs(again.map { queue.settled($0) }, workerID: 1)
            shown = try await shares()
            #expect(shown.dropLast().allSatisfy { $0.tally.delivered == $0.total && $0.waiting == 0 })
            let progress =
                "select count(*) from pushq.campaign_progress where finished and total = delivered and total + held_out = 1000"
            #expect(try await queue.number(progress) == 1)
        }
    }

    @Test func `counts a list's holdout neither as sent nor as cancelled`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 2000)
            let campaign = try await queue.startCampaign(
                options: ", tokens => array(select encode(token, 'hex') from pushq.device), holdout => 0.5")
            // The campaign is cancelled before all of it is fanned out.
            _ = try await queue.worker.fanOutStep(
                queueID: queue.id, campaignID: campaign, jobLimit: 1, scanLimit: 1000)
            try await queue.run("select pushq.cancel_campaign('\(Self.name)', 'k')")
            let sum = "select made + not_made + held_out from pushq.fan_out"
            #expect(try await queue.number(sum) == 2000)
            #expect(try await queue.number("select held_out from pushq.fan_out") > 100)
        }
    }

    @Test func `that is for a list and is cancelled says how many were in no job yet, and the statistics count them`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 2000)
            let campaign = try await queue.startCampaign(
                options: Self.options + ", tokens => array(select encode(token, 'hex') from pushq.device)")
            while try await queue.number("select count(*) from pushq.job") == 0 {
                _ = try await queue.worker.fanOutStep(
                    queueID: queue.id, campaignID: campaign, jobLimit: 1, scanLimit: 700)
            }
            try await queue.run("select pushq.cancel_campaign('\(Self.name)', 'k')")
            for job in try await queue.claim() {
                let all = Dictionary(uniqueKeysWithValues: job.deviceIDs.indices.map { ($0, Outcome.cancelled) })
                _ = try await queue.worker.endJobs([queue.settled(job, other: all)], workerID: 1)
            }
            let cancelled = try await queue.number("select cancelled from pushq.campaign_progress where finished")
            #expect(try await queue.connection.statistics(of: nil).map(\.tally.cancelled) == [cancelled])
            let shares = try await queue.connection.shares(ofCampaign: campaign, inQueue: QueueFixture.name)
                .map(\.tally.cancelled).reduce(0, +)
            #expect(shares > 0 && shares < cancelled)
            let inNoJob = try await queue.number("select in_no_job from pushq.show_campaigns('\(Self.name)', 'k', 1)")
            #expect(shares + inNoJob == cancelled)
        }
    }

    @Test func `tells in a trace which share a device gets`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 40)
            let campaign = try await queue.startCampaign(options: Self.options)
            try await queue.fanOut(campaign)
            let found = try await recipients("k", queue)
            for device in 1...40 {
                let statement = Statement(
                    "trace \(device)",
                    #"""
                    select string_agg(what, '; ') as text, min(device_id) as id
                    from pushq.trace('\#(Self.name)', token => encode(int8send(\#(device)), 'hex'), campaign => 'k')
                    """#)
                let row = try await queue.connection.execute(statement).one()
                let wanted =
                    found[row.int8("id")].map { "this device gets the share “\($0[0])”; it waits" }
                    ?? "it is in the holdout of the campaign, which gets nothing"
                #expect(row.text("text").contains(wanted), "\(row.text("text"))")
            }
        }
    }

    @Test func `of a schedule has the variants that it was given, with nulls, and as long as a payload may be`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            let parts = (0..<300).map { #""k\#(1000 + $0)":null"# }.joined(separator: ",")
            let payload = #"{"aps":{"alert":"a: b, \"c\" "},"promo":{\#(parts)}}"#
            #expect(payload.utf8.count > 3900 && payload.utf8.count < 4096)
            try await queue.run(
                #"""
                select pushq.add_schedule(
                  '\#(Self.name)', 's', '@daily', '\#(payload)',
                  options => '{"variants":[{"name":"b","share":0.5,"payload":\#(payload)}],"collapse_id":null}');
                select pushq.run_schedule('\#(Self.name)', 's')
                """#)
            #expect(try await queue.texts("select payload from pushq.message") == [payload, payload])
            #expect(try await queue.texts("select options - 'variants' from pushq.schedule") == ["{}"])
        }
    }

    @Test func `keeps the messages of its shares for as long as it waits`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1000)
            let campaign = try await queue.startCampaign(
                options: Self.options + ", start_at => now() + interval '1 hour'")
            // The history of the day on which the campaign was started is gone.
            try await queue.run(
                """
                create table pushq.message_old partition of pushq.message for values from ('2020-01-01') to ('2020-01-02');
                update pushq.message set day = '2020-01-01';
                update pushq.fan_out set message_day = '2020-01-01';
                select pushq.move_scheduled(pushq.today(), 30);
                drop table pushq.message_old;
                update pushq.fan_out set start_at = now()
                """)
            try await queue.fanOut(campaign)
            let jobs = try await queue.claim()
            #expect(jobs.count == 3 && jobs.allSatisfy { $0.damage == nil })
        }
    }

    /// A paused campaign used to show its shares as they were when their last jobs had ended.
    @Test func `have the answers of jobs that have not ended, as their campaign has`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 40)
            let variant = #"[{"name":"b","share":0.5,"payload":{"aps":{"alert":"y"}}}]"#
            let campaign = try await queue.startCampaign(options: ", variants => '\(variant)'")
            try await queue.fanOut(campaign)
            let back = try await queue.claim(100).map { job in
                let outcomes = job.deviceIDs.indices.map { $0 == 0 ? 0 : Outcome.delivered.rawValue }
                return YieldedLease(
                    progress: LeaseProgress(key: job.key, watermark: job.deviceIDs.count, outcomes: outcomes))
            }
            _ = try await queue.worker.yield(back, workerID: 1)
            let shares = "from pushq.show_shares('\(QueueFixture.name)', \(campaign))"
            let delivered = try await queue.number("select delivered from pushq.campaign_progress")
            #expect(delivered == 40 - back.count)
            #expect(try await queue.number("select sum(delivered) \(shares)") == delivered)
            #expect(try await queue.number("select sum(waiting) \(shares)") == back.count)
        }
    }
}
