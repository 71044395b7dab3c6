import Foundation
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `A dry run of a campaign` {
    private static let words = [
        "campaign", Shop.queue, "--key", "sale", "--payload", "-", "--audience", "all", "--dry-run",
    ]
    private static let payload = #"{"aps":{"alert":"Everything must go"}}"#

    private func setUp(_ shop: Shop) async throws {
        try await shop.addCredential()
        try await shop.run(
            """
            insert into pushq.device (queue_id, token, active, inactive_since, kind)
            select q.id, int8send(i), i % 10 > 0, case when i % 10 = 0 then now() end, case when i > 1000 then 'voip' end
            from pushq.queue q, generate_series(1, 1100) i
            """)
    }

    private func run(_ words: [String], _ shop: Shop, input: String = payload) async throws -> Executable.Ended {
        try await Executable.pushq.run(words, environment: shop.environment, input: input)
    }

    @Test func `shows the audience, the message, the credential and how long it takes`() async throws {
        try await Shop.open { shop in
            try await setUp(shop)
            let ended = try await run(Self.words + ["--max-rate", "60/min"], shop)
            #expect(ended.code == 0, "\(ended.errors)")
            for line in [
                "recipients +900", "inactive left out +100", "topic +com.acme.shop", "push type +alert",
                "payload +\\{\"aps\":\\{\"alert\":\"Everything must go\"\\}\\}", "payload bytes +\\d+",
                "payload bytes at most +4,096",
                "credential +main",
                "per second +1", "duration +15m 00s", "duration basis +at its rate",
            ] {
                let pattern = try Regex("(?m)^" + line + "$")
                #expect(ended.output.contains(pattern), "\(line) in \(ended.output)")
            }
            #expect(try await shop.admin("queue", "set", Shop.queue, "--rate", "0.5").code == 0)
            let slower = try await run(Self.words + ["--max-rate", "60/min"], shop)
            #expect(slower.output.contains(/duration +30m 00s\n/), "\(slower.output)")
        }
    }

    @Test func `says how many would expire, and the start warns of it`() async throws {
        try await Shop.open { shop in
            try await setUp(shop)
            let end = Date.now.addingTimeInterval(60).formatted(.iso8601)
            let options = ["--max-rate", "1", "--send-by", end]
            let dry = try await run(Self.words + options, shop)
            #expect(dry.code == 0, "\(dry.errors)")
            #expect(
                dry.output.contains(
                    /would expire +about 84\d: the campaign ends before they are sent to; raise --max-rate or --send-by\n/
                ),
                "\(dry.output)")
            let fine = try await run(Self.words + ["--max-rate", "100", "--send-by", end], shop)
            #expect(fine.code == 0 && !fine.output.contains("would expire"), "\(fine.output)")
            let started = try await run(Self.words.dropLast() + options, shop)
            #expect(started.code == 0)
            #expect(
                started.errors.contains("of 900 recipients would expire: at the rate of the campaign, 1/s"),
                "\(started.errors)")
            #expect(try await shop.admin("queue", "set", Shop.queue, "--rate", "0.001").code == 0)
            let slow = try await run(
                Self.words.map { $0 == "sale" ? "other" : $0 } + ["--max-rate", "100"], shop)
            #expect(slow.output.contains("have an operator raise the rate"), "\(slow.output)")
        }
    }

    @Test func `says how many the frequency cap would hold back now`() async throws {
        try await Shop.open { shop in
            try await setUp(shop)
            #expect(
                try await shop.admin("queue", "set", Shop.queue, "--frequency-cap", "2 per 1 day").code == 0)
            // Ten of these devices are inactive, and ten have had only one push within the period.
            try await shop.run(
                """
                insert into pushq.recent_push (queue_id, device_id, root_ids, job_ids, sent_at)
                select queue_id, id, '{1,2}', '{0,0}',
                       array[now() - interval '1 hour' * case when n <= 10 then 25 else 2 end, now() - interval '1 hour']
                from (select *, get_byte(token, 6) * 256 + get_byte(token, 7) as n from pushq.device) d where n <= 110
                """)
            for (options, count) in [
                ([], 90), (["--push-type", "background", "--priority", "5"], nil), (["--urgent"], nil),
            ] as [([String], Int?)] {
                let input = options.contains("background") ? #"{"aps":{"content-available":1}}"# : Self.payload
                let ended = try await run(Self.words + ["--json"] + options, shop, input: input)
                #expect(ended.code == 0, "\(ended.errors)")
                let shown = try JSONSerialization.jsonObject(with: Data(ended.output.utf8)) as? [String: Any]
                #expect(shown?["held_back_by_cap_now"] as? Int == count, "\(ended.output)")
                #expect(shown?["frequency_cap"] as? String == (count == nil ? nil : "2 per 1 day"))
            }
            try await shop.run(
                "insert into pushq.profile (queue_id, device_id, tags) select queue_id, id, '{vip}' from pushq.device where get_byte(token, 7) = 51"
            )
            let filtered = try await run(
                ["campaign", Shop.queue, "--key", "sale", "--payload", "-", "--dry-run", "--filter", "tag 'vip'"], shop)
            #expect(filtered.output.contains(/held back by cap now +1\n/), "\(filtered.output)")
        }
    }

    @Test func `counts nobody as held back or due whom a local time or a holdout leaves out`() async throws {
        try await Shop.open { shop in
            try await setUp(shop)
            #expect(
                try await shop.admin("queue", "set", Shop.queue, "--frequency-cap", "1 per 1 day").code == 0)
            try await shop.run(
                """
                insert into pushq.recent_push (queue_id, device_id, root_ids, job_ids, sent_at)
                select queue_id, id, '{1}', '{0}', array[now()] from pushq.device;
                insert into pushq.profile (queue_id, device_id, time_zone)
                select queue_id, id, 'UTC' from pushq.device where active and kind is null order by id limit 100
                """)
            func shown(_ options: [String]) async throws -> [String: Any] {
                let ended = try await run(Self.words + ["--json"] + options, shop)
                #expect(ended.code == 0, "\(ended.errors)")
                return try #require(
                    try JSONSerialization.jsonObject(with: Data(ended.output.utf8)) as? [String: Any])
            }
            let inZone = ["--local-time", "12:00"]
            #expect(try await shown(inZone)["held_back_by_cap_now"] as? Int == 100)
            let half = try await shown(["--holdout", "50%"])
            let count = try #require(half["held_back_by_cap_now"] as? Int)
            #expect((350...550).contains(count) && Self.devices(half["share_payload"]) == count, "\(half)")
            let both = try await shown(inZone + ["--holdout", "50%", "--quiet-hours", "11:00-13:00"])
            let fewer = try #require(both["held_back_by_cap_now"] as? Int)
            #expect(Self.devices(both["share_payload"]) == fewer && (20...80).contains(fewer), "\(both)")
            #expect(both["in_quiet_hours"] as? Int == 50, "\(both)")
            for name in ["quiet_1", "wave_1"] {
                let part = try #require(both[name] as? [String: Any], "\(both)")
                #expect(part["recipients"] as? Int == 50 && part["time_zones"] as? [String] == ["UTC"], "\(both)")
                #expect(part["is_late"] as? Bool == false, "\(both)")
                #expect(part[name == "wave_1" ? "due_at" : "until"] is String, "\(both)")
            }
            let leftOut = try #require(both["left_out"] as? [String: Any], "\(both)")
            #expect(leftOut["recipients"] as? Int == 800 && leftOut["time_zones"] as? [String] == ["unknown"])
            let words = Self.words + inZone + ["--holdout", "50%", "--quiet-hours", "11:00-13:00"]
            let text = try await run(words, shop).output
            #expect(text.contains(/wave 1 +[^\n]+: about 50 in UTC\n/), "\(text)")
            #expect(text.contains(/quiet 1 +until [^\n]+: about 50 in UTC\n/), "\(text)")
            #expect(text.contains(/share payload +50%: \d+\n/), "\(text)")
            #expect(text.contains(/left out +800 in unknown\n/), "\(text)")
        }
    }

    /// The number of devices in a share that is half of them.
    private static func devices(_ share: Any?) -> Int? {
        let share = share as? [String: Any]
        return share?["of_devices"] as? Double == 0.5 && share?["is_estimate"] as? Bool == false
            ? share?["devices"] as? Int : nil
    }

    @Test func `of a list lasts as long as its active tokens take`() async throws {
        try await Shop.open { shop in
            try await setUp(shop)
            let tokens = try await shop.texts(
                """
                select encode(token, 'hex') as text
                from pushq.device
                where kind is null and (not active or id % 10 = 0)
                """)
            let active = try await shop.texts(
                "select id::text as text from pushq.device where kind is null and active and id % 10 = 0"
            ).count
            let list = try shop.folder.write(tokens.joined(separator: "\n"), to: "tokens")
            let words = ["campaign", Shop.queue, "--key", "sale", "--payload", "-", "--tokens", list, "--dry-run"]
            let ended = try await run(words + ["--max-rate", "1", "--json"], shop)
            #expect(ended.code == 0, "\(ended.errors)")
            let shown = try JSONSerialization.jsonObject(with: Data(ended.output.utf8)) as? [String: Any]
            #expect(shown?["recipients"] as? Int == tokens.count && tokens.count > active)
            #expect(shown?["duration"] as? Double == Double(active), "\(ended.output)")
        }
    }

    @Test func `says that its expiration ends it, where that is so`() async throws {
        try await Shop.open { shop in
            try await setUp(shop)
            let options = ["--max-rate", "10", "--expiration", "30s"]
            let ended = try await run(Self.words + options, shop)
            #expect(ended.output.contains(/duration +(29|30)s\n/), "\(ended.output)")
            #expect(
                ended.output.contains(/would expire +about 6\d\d: .*; raise --max-rate or --expiration\n/),
                "\(ended.output)")
            let started = try await run(Self.words.dropLast() + options, shop)
            #expect(started.errors.contains("give a later expiration"), "\(started.errors)")
        }
    }

    @Test func `counts an expiration from the day of a local time, which is the campaign's start`() async throws {
        try await Shop.open { shop in
            try await setUp(shop)
            let options = ["--local-time", "2099-12-24T18:00", "--default-zone", "Etc/GMT+12", "--expiration"]
            let fine = try await run(Self.words + options + ["30h"], shop)
            #expect(fine.code == 0, "\(fine.errors)")
            let short = try await run(Self.words + options + ["20h"], shop)
            #expect(
                short.code == 1 && short.errors.contains("before the local time comes for 900 of its devices"),
                "\(short.errors)")
        }
    }

    @Test func `of a local time lasts until its last wave is sent, and says which waves are too slow`() async throws {
        try await Shop.open { shop in
            try await setUp(shop)
            try await shop.run(
                """
                insert into pushq.profile (queue_id, device_id, time_zone)
                select queue_id, id, case when n % 2 = 0 then 'Etc/GMT-1' else 'Etc/GMT' end
                from (select *, get_byte(token, 6) * 256 + get_byte(token, 7) as n from pushq.device) d
                where active and kind is null
                """)
            // In the zone that is ahead, 09:00 comes an hour earlier. 400 devices are there, and 500 in the other zone.
            let words = Self.words + ["--local-time", "2099-01-01T09:00", "--max-rate"]
            let fast = try await run(words + ["1"], shop)
            #expect(fast.output.contains(/duration +1h 08m\n/), "\(fast.output)")
            #expect(fast.output.contains(/done at +2099-01-01T09:08:20Z\n/), "\(fast.output)")
            #expect(fast.output.contains("from the first wave to the end of the last, at its rate"), "\(fast.output)")
            #expect(!fast.output.contains("longer than until the next wave"), "\(fast.output)")
            let slow = try await run(words + ["0.05"], shop)
            #expect(slow.output.contains(/done at +2099-01-01T13:00:00Z\n/), "\(slow.output)")
            #expect(
                slow.output.contains(
                    /wave 1 +2099-01-01T08:00:00Z: 400 in Etc\/GMT-1; takes 2h 13m, longer than until/),
                "\(slow.output)")
        }
    }

    @Test func `counts the tokens of a list once, and those that are new or inactive`() async throws {
        try await Shop.open { shop in
            try await setUp(shop)
            let list = try shop.folder.write(
                "0000000000000001\n0000000000000001\n000000000000000a\nff00\n", to: "tokens")
            let words = ["campaign", Shop.queue, "--key", "sale", "--payload", "-", "--tokens", list, "--dry-run"]
            let ended = try await run(words, shop)
            #expect(ended.code == 0, "\(ended.errors)")
            for line in [/recipients +3\n/, /inactive among them +1\n/, /new devices +1\n/] {
                #expect(ended.output.contains(line), "\(ended.output)")
            }
        }
    }

    @Test func `counts the devices that a filter holds for, and says where a filter is wrong`() async throws {
        try await Shop.open { shop in
            try await setUp(shop)
            try await shop.run(
                """
                insert into pushq.profile (queue_id, device_id, locale, tags)
                select queue_id, id, case when get_byte(token, 7) % 2 = 0 then 'de-AT' else 'en' end, array['vip']
                from pushq.device where (id >> 10) % 4 > 0
                """)
            let words = ["campaign", Shop.queue, "--key", "sale", "--payload", "-", "--dry-run", "--filter"]
            let ended = try await run(words + ["locale = 'de' and tag 'vip'"], shop)
            #expect(ended.code == 0, "\(ended.errors)")
            let expected = try await shop.texts(
                """
                select format('%s %s', count(*) filter (where active), count(*) filter (where not active)) as text
                from pushq.device d join pushq.profile p on p.device_id = d.id
                where p.locale = 'de-AT' and kind is distinct from 'voip'
                """)
            let shown = try #require(ended.output.firstMatch(of: /recipients +(\d+)\ninactive left out +(\d+)\n/))
            #expect(["\(shown.output.1) \(shown.output.2)"] == expected)
            #expect(ended.output.contains(/filter +locale = 'de' and tag 'vip'\n/), "\(ended.output)")

            expectFailure(
                try await run(words + ["locle = 'de'"], shop), code: 1,
                saying: "the filter is wrong at position 1: there is no field “locle”; did you mean “locale”?")
            expectFailure(
                try await run(words + ["tag 'vip'", "--audience", "all"], shop), code: 2,
                saying: "--audience and --filter cannot be used together")
        }
    }

    private static let personal = #"""
        {"default":{"aps":{"alert":"Hi {{name|there}}"}},
         "languages":{"de-AT":{"aps":{"alert":"Servus {{name}}"}},"fr":{"aps":{"alert":"Salut"}}}}
        """#

    /// Gives 100 devices a profile. Even numbers speak German, two in three have a name, and one in seven has a long
    /// name. The other devices have no profile.
    private static let profiles = #"""
        insert into pushq.profile (queue_id, device_id, locale, attributes)
        select queue_id, id, case when n % 2 = 0 then 'de-AT' else 'en' end,
               case when n % 7 = 1 then jsonb_build_object('name', repeat('é', 2100))
                    when n % 3 > 0 then jsonb_build_object('name', format('"%s"', n)) else '{}' end
        from (select *, get_byte(token, 6) * 256 + get_byte(token, 7) as n from pushq.device) d where n <= 100
        """#

    @Test func `shows what the recipients of each language get, and how many get nothing`() async throws {
        try await Shop.open { shop in
            try await setUp(shop)
            try await shop.run(Self.profiles)
            let list = try shop.folder.write(
                (1...100).map { "00000000000000" + String(256 + $0, radix: 16).dropFirst() }.joined(separator: "\n")
                    + "\nff00\n", to: "tokens")
            // Expected counts without SQL. Devices whose number ends with 0 are inactive.
            let active = (1...100).filter { $0 % 10 > 0 }
            let (german, others) = (active.filter { $0 % 2 == 0 }, active.filter { $0 % 2 == 1 })
            func long(_ numbers: [Int]) -> Int { numbers.count { $0 % 7 == 1 } }
            let lacking = german.count { $0 % 7 != 1 && $0 % 3 == 0 }
            for (audience, unknown) in [
                (["--audience", "all"], 810), (["--tokens", list], 1), (["--filter", "locale is not missing"], 0),
            ] {
                let ended = try await run(
                    ["campaign", Shop.queue, "--key", "sale", "--payload", "-", "--dry-run", "--json"] + audience, shop,
                    input: Self.personal)
                #expect(ended.code == 0, "\(ended.errors)")
                let shown = try JSONSerialization.jsonObject(with: Data(ended.output.utf8)) as? [String: Any]
                #expect(shown?["payloads_too_long"] as? Int == long(active), "\(ended.output)")
                #expect(shown?["lacking_attributes"] as? Int == lacking)
                let versions = try #require(shown?["versions"] as? [[String: Any]])
                let expected: [NSDictionary] = [
                    [
                        "language": "default", "recipients": others.count + unknown, "lacking": 0,
                        "too_long": long(others), "longest": 4223,
                        "sample": #"{"aps":{"alert":"Hi there"}}"#,
                    ],
                    [
                        "language": "de-AT", "recipients": german.count, "lacking": lacking,
                        "too_long": long(german), "longest": 4227,
                        "sample": #"{"aps":{"alert":"Servus \"2\""}}"#,
                    ],
                    [
                        "language": "fr", "recipients": 0, "lacking": 0, "too_long": 0, "longest": NSNull(),
                        "sample": #"{"aps":{"alert":"Salut"}}"#,
                    ],
                ]
                #expect(versions.map { $0 as NSDictionary } == expected, "\(ended.output)")
            }
            let words = ["campaign", Shop.queue, "--key", "sale", "--payload", "-", "--dry-run", "--audience", "all"]
            let table = try await run(words, shop, input: Self.personal)
            #expect(table.output.contains(/lacking attributes +\d+\n/), "\(table.output)")
            #expect(table.output.contains(" 4223 of 4096 "), "\(table.output)")
            #expect(table.output.contains("Servus \\\"2\\\""), "\(table.output)")
            expectFailure(
                try await run(words, shop, input: "{\"aps\":{\"alert\":\n\"Hi {{name\"}}"), code: 1,
                saying:
                    ":2:5: the placeholder at position 22 has no end: close it with }}, or write {{{{ for two braces")
        }
    }

    @Test(arguments: [
        ("update pushq.queue set credential_id = null", "the queue has no credential"),
        (
            "update pushq.credential set kind = 'certificate', fingerprint = '', not_after = now() - interval '1 day'",
            "certificate “main” expired at"
        ),
        (
            "update pushq.credential set environments = '{sandbox}'",
            "credential “main” is not for environment production"
        ),
        ("update pushq.credential set topics = '{com.other}'", "credential “main” is not for topic com.acme.shop"),
        ("update pushq.queue set paused_at = now(), paused_reason = 'lunch'", "the queue is paused: lunch"),
        ("update pushq.tenant set suspended_at = now()", "tenant “acme” is suspended"),
        ("delete from pushq.device", "the campaign would reach nobody: the queue has no active device of kind alert"),
        (
            #"select pushq.start_campaign('acme/com.acme.shop/production', 'sale', '{"aps":{"alert":"x"}}')"#,
            "key “sale” belongs to a campaign of "
        ),
    ])
    func `says what is in the way, and fails`(state: String, problem: String) async throws {
        try await Shop.open { shop in
            try await setUp(shop)
            try await shop.run(state)
            let ended = try await run(Self.words, shop)
            #expect(ended.code == 1)
            #expect(ended.errors.contains("in the way: \(problem)"), "\(ended.errors)")
            #expect(ended.output.contains(/recipients +/))
        }
    }

    /// Options that the start refuses, with the message of both the start and the dry run.
    @Test(arguments: [
        (["--send-by", "2020-01-01T00:00:00Z"], "send_by 2020-01-01 00:00:00+00 has passed"),
        (["--at", "2099-01-02T00:00:00Z", "--send-by", "2099-01-01T00:00:00Z"], "is not after start_at 2099-01-02"),
        (["--max-rate", "2000000"], "max_rate 2000000 is not between 0.0001 and 1000000"),
        (["--local-time", "2020-01-01T09:00"], "the local time 2020-01-01T09:00 has passed in every time zone"),
        (
            ["--local-time", "2099-01-01T09:00", "--send-by", "2098-01-01T00:00:00Z"],
            "is not after start_at 2098-12-31"
        ),
        (["--push-type", "mdm"], "mdm"),
    ])
    func `says what the start would refuse, and fails`(options: [String], problem: String) async throws {
        try await Shop.open { shop in
            try await setUp(shop)
            let dry = try await run(Self.words + options, shop)
            #expect(dry.code == 1 && dry.errors.contains(problem), "\(dry.errors)")
            let started = try await run(Self.words.dropLast() + options, shop)
            #expect(started.code == 1 && started.errors.contains(problem), "\(started.errors)")
        }
    }

    @Test func `does not count devices that a local time leaves out`() async throws {
        try await Shop.open { shop in
            try await setUp(shop)
            try await shop.run(
                """
                insert into pushq.profile (queue_id, device_id, time_zone)
                select queue_id, id, 'UTC' from pushq.device where active and kind is null order by id limit 100
                """)
            let words = Self.words + ["--local-time", "12:00"]
            let ended = try await run(words, shop)
            #expect(ended.code == 0, "\(ended.errors)")
            #expect(ended.output.contains(/recipients +100\n/), "\(ended.output)")
            #expect(ended.output.contains(/left out +800 in unknown\n/), "\(ended.output)")
            try await shop.run("delete from pushq.profile")
            let nobody = try await run(words, shop)
            #expect(nobody.code == 1)
            #expect(nobody.output.contains(/recipients +0\n/), "\(nobody.output)")
            #expect(
                nobody.errors.contains(
                    "in the way: the campaign would reach nobody: the local time leaves out all 900 devices"),
                "\(nobody.errors)")
        }
    }

    @Test func `refuses what would not fit, with its place`() async throws {
        try await Shop.open { shop in
            try await setUp(shop)
            let long = #"{"aps":{"alert":""# + String(repeating: "x", count: 5000) + #""}}"#
            let ended = try await run(Self.words, shop, input: long)
            #expect(ended.code == 1)
            #expect(ended.errors.contains("4096"), "\(ended.errors)")
        }
    }

    @Test func `writes nothing`() async throws {
        try await Shop.open { shop in
            try await setUp(shop)
            let list = try shop.folder.write("0000000000000001\nff00\n", to: "tokens")
            let before = try await contents(shop)
            #expect(before.count > 20)
            _ = try await run(Self.words, shop)
            _ = try await run(
                ["campaign", Shop.queue, "--key", "sale", "--payload", "-", "--tokens", list, "--dry-run"], shop)
            #expect(try await contents(shop) == before)
        }
    }

    /// A digest of each table of the schema, and the state of its sequences.
    private func contents(_ shop: Shop) async throws -> [String] {
        try await shop.texts(
            """
            select format('%s %s', c.relname, md5(query_to_xml(
                     case c.relkind when 'S' then format('select last_value from pushq.%I', c.relname)
                                  else format('select * from pushq.%I x order by x::text', c.relname) end, true, false, '')::text)) as text
            from pg_class c
            where c.relnamespace = 'pushq'::regnamespace and c.relkind in ('r', 'p', 'S')
            order by 1
            """)
    }
}
