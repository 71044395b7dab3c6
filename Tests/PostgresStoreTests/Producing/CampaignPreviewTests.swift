import PostgresStore
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `A preview of a campaign` {
    private static let alert = #"'{"aps":{"alert":"Hi"}}'"#

    /// Arguments of a campaign that can be wrong, as SQL, with good and bad values.
    private static let options: [(name: String, good: [String], bad: [String])] = [
        ("priority", ["5"], ["7"]),
        ("push_type", ["'alert'", "'background'"], ["'alarm'"]),
        ("expiration", ["4102444800"], ["1000", "-1"]),
        ("collapse_id", ["'sale'"], ["repeat('x', 65)", "''"]),
        ("start_at", ["now() + interval '1 hour'", "now() - interval '1 hour'"], ["'infinity'", "'10000-01-01'"]),
        (
            "send_by", ["now() + interval '2 days'"],
            ["now() - interval '1 hour'", "now() - interval '1 day'", "'infinity'"]
        ),
        ("max_rate", ["250", "0.5"], ["0", "-1", "2e6", "'NaN'"]),
        ("stop_at_errors", ["0.05", "0", "0.999999"], ["1", "-0.1", "'NaN'", "1e-308", "0.9999999999"]),
        ("filter", ["'locale = ''de'''", "'audience vips'"], ["'locle = 1'", "'audience strangers'"]),
        ("local_time", ["'09:00'", "'2099-01-01T09:00'"], ["'25:00'", "'2020-01-01T09:00'", "'2020-02-30T09:00'"]),
        ("if_passed", ["'now'", "'next-day'"], ["'later'"]),
        ("catch_up", ["interval '2 hours'"], ["interval '2 days'", "interval '-1 hour'"]),
        ("default_zone", ["'Europe/Vienna'"], ["'Mars/Olympus'", "''"]),
        (
            "variants", [#"'[{"name":"b","share":0.4,"payload":{"aps":{"alert":"Ho"}}}]'"#],
            [
                "'{}'", #"'[{"name":"b","share":1e-400,"payload":{"aps":{"alert":"Ho"}}}]'"#,
                #"'[{"name":"b","share":1e-99999,"payload":{"aps":{"alert":"Ho"}}}]'"#,
                #"'[{"name":"b","share":1e999999,"payload":{"aps":{"alert":"Ho"}}}]'"#,
                #"'[{"name":"b","share":2,"payload":{"aps":{"alert":"Ho"}}}]'"#,
                #"'[{"name":"b","share":0.4,"payload":{"aps":{"alert":7}}}]'"#,
            ]
        ),
        ("holdout", ["0.1"], ["1", "-1"]),
        ("quiet_hours", ["'22:00-08:00'", "'none'"], ["'22-8'", "'soon'"]),
        (
            "payload",
            [
                #"'{"aps":{"alert":"Hi {{name|you}}"}}'"#,
                #"'{"default":{"aps":{"alert":"Hi"}},"languages":{"de":{"aps":{"alert":"Servus"}}}}'"#,
            ],
            [
                #"'{"aps":{"alert":7}}'"#, #"'{"aps":{"alert":"Hi {{name"}}'"#,
                "json_build_object('aps', json_build_object('alert', repeat('x', 5000)))",
                #"'{"default":{"aps":{"alert":"Hi"}},"languages":{"de":{"aps":{"badge":-1}}}}'"#,
            ]
        ),
        ("key", ["'other'"], ["''", "null", "repeat('k', 201)"]),
    ]

    /// `refusal` returns why a call is refused, and rolls the call back if it is accepted. `problems` returns what a
    /// preview finds.
    private static let functions = """
        create function pg_temp.refusal(call text) returns text language plpgsql as $$
        begin
          execute call;
          raise exception using errcode = 'PQ001', message = 'taken back';
        exception
          when sqlstate 'PQ001' then return '';
          when others then return sqlerrm;
        end $$;
        create function pg_temp.problems(call text) returns text language plpgsql as $$
        declare
          found text;
        begin
          execute call into found;
          return found;
        exception when others then return sqlerrm;
        end $$;
        """

    private func call(_ function: String, _ arguments: String) -> String {
        "pushq.\(function)('\(QueueFixture.name)', \(arguments))"
    }

    private static func quoted(_ text: String) -> String { "'" + text.replacing("'", with: "''") + "'" }

    @Test func `refuses what the start refuses, with the same words, and nothing else`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            try await queue.run(Self.functions)
            try await queue.run(
                """
                select pushq.save_audience('\(QueueFixture.name)', 'vips', 'tag ''vip''');
                insert into pushq.profile (queue_id, device_id, locale, time_zone, tags)
                select queue_id, id, 'de', 'UTC', '{vip}' from pushq.device;
                with c as (
                  insert into pushq.credential (tenant_id, name, kind, team_id, key_id, environments, sealed)
                  select id, 'main', 'token', 'TEAM123456', 'KEY1234567', '{sandbox}', '' from pushq.tenant
                  returning id)
                update pushq.queue set credential_id = c.id from c;
                """)
            var refusals = 0
            for seed in seeds(200) {
                var dice = SeededGenerator(seed: seed)
                var chosen = ["payload": Self.alert, "key": "'k'"]
                if seed <= Self.options.count {
                    // First, each wrong argument alone.
                    let option = Self.options[Int(seed) - 1]
                    chosen[option.name] = option.bad.randomElement(using: &dice)!
                } else {
                    for option in Self.options.shuffled(using: &dice).prefix(Int.random(in: 1...6, using: &dice)) {
                        let isBad = Int.random(in: 0..<8, using: &dice) == 0
                        chosen[option.name] = (isBad ? option.bad : option.good).randomElement(using: &dice)!
                    }
                }
                let arguments = chosen.map { "\($0.key) => \($0.value)" }.sorted().joined(separator: ", ")
                let refused = try await queue.texts(
                    "select pg_temp.refusal(\(Self.quoted("select \(call("start_campaign", arguments))")))")[0]
                let preview = "select array_to_string(problems, E'\\n') from \(call("preview_campaign", arguments))"
                let previewed = try await queue.texts("select pg_temp.problems(\(Self.quoted(preview)))")[0]
                if refused.isEmpty {
                    #expect(previewed.isEmpty, "\(arguments)")
                } else {
                    // If several arguments are wrong, the call and the preview may name different ones.
                    let isOne = seed <= Self.options.count
                    #expect(isOne ? previewed.contains(refused) : !previewed.isEmpty, "\(arguments): \(refused)")
                    refusals += 1
                }
            }
            let share = Double(refusals) / Double(seeds(200).count)
            #expect((0.25...0.75).contains(share), "it shows little of what is refused, or of what is not")
        }
    }

    @Test(arguments: [
        #"{"aps":{"alert":"x","badge":{"increment":1.5}}}"#, #"{"aps":{"alert":"x","badge":{"increment":true}}}"#,
        #"{"aps":{"alert":"x","badge":{"increment":{}}}}"#, #"{"aps":{"alert":"x","badge":{"increment":[]}}}"#,
        #"{"aps":{"alert":"x","badge":{"increment":1e0}}}"#, #"{"aps":{"alert":"x","badge":{"increment":100}}}"#,
        #"{"aps":{"alert":"x","badge":{"increment":0}}}"#, #"{"aps":{"alert":"x","badge":{"increment":-1}}}"#,
        #"{"aps":{"alert":"x","badge":{"increment":null}}}"#, #"{"aps":{"alert":"x","badge":"{{n}}"}}"#,
        #"{"default":{"aps":{"alert":"x"}}}"#, #"{"default":{"aps":{"alert":"x"}},"languages":{"de":{"aps":{}}}}"#,
        #"{"aps":{"alert":"\u0000"}}"#, "[]", "null",
    ])
    func `of its message shows nothing of one that the start refuses, and says why in the same words`(
        payload: String
    ) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            try await queue.run(Self.functions)
            var refusals: [String] = []
            for function in ["start_campaign('\(QueueFixture.name)', 'k',", "preview_message('\(QueueFixture.name)',"] {
                let query = "select pushq.\(function) '\(payload)'::json)"
                refusals.append(try await queue.texts("select pg_temp.refusal(\(Self.quoted(query)))")[0])
            }
            #expect(!refusals[0].isEmpty && refusals[0] == refusals[1], "\(refusals)")
        }
    }

    @Test(arguments: [
        ("priority => 3", "priority 3 is unknown"), ("collapse_id => ''", "the collapse ID has 0 bytes"),
        ("expiration => 5", "expiration 5 has passed"),
        ("push_type => 'background', priority => 10", "priority 10 is not allowed for push type background"),
    ])
    func `without a payload finds what is wrong with the other options`(
        arguments: String, problem: String
    ) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            let found = try await queue.texts(
                "select unnest(problems) from \(call("preview_campaign", "key => 'k', \(arguments)"))")
            #expect(found.contains { $0.contains(problem) }, "\(found)")
        }
    }

    @Test func `counts quotas as the start does`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            var change = TenantChange()
            change.quotas.campaigns = .limit(1)
            #expect(try await queue.connection.setTenant("acme", to: change))
            _ = try await queue.startCampaign()
            await #expect {
                try await queue.startCampaign(key: "other")
            } throws: { error in
                "\(error)".contains("may have at most 1 campaigns under way")
            }
            let problems = try await queue.texts(
                """
                select array_to_string(problems, ' ')
                from pushq.preview_campaign('\(QueueFixture.name)', 'other', payload => \(Self.alert))
                """)[0]
            #expect(problems.contains("may have at most 1 campaigns under way"))
        }
    }
}
