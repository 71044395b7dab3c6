import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `Schedules` {
    private static let payload = #"{"aps":{"alert":"New offers"}}"#

    @Test func `are added, listed, shown, paused, resumed, tried and removed by commands`() async throws {
        try await Shop.open { shop in
            func schedule(_ words: String..., input: String? = nil) async throws -> Executable.Ended {
                try await Executable.pushq.run(["schedule"] + words, environment: shop.environment, input: input)
            }
            try await shop.addCredential()
            try await shop.run("select pushq.register_device('\(Shop.queue)', 'aa', null, tags => '{vip}')")
            let added = try await schedule(
                "add", Shop.queue, "weekly-offer", "--cron", "0 9 * * mon", "--time-zone", "Europe/Vienna", "--payload",
                "-",
                "--filter", "tag 'vip'", "--max-rate", "15000/min", "--stop-at-errors", "5%", "--send-within", "6h",
                "--priority", "5", "--after-outage", "once", input: Self.payload)
            #expect(added.code == 0, "\(added.errors)")
            for line in [
                "state           active", "cron            0 9 * * mon", "time zone       Europe/Vienna",
                "after outage    once", "filter          tag 'vip'", "max rate        250", "stop at errors  5%",
                "send by         6h 00m", "priority        5", "payload         \(Self.payload)",
            ] {
                #expect(added.output.contains(line + "\n"), "\(line): \(added.output)")
            }
            #expect(added.output.contains(/next run 5 +20\d\d-\d\d-\d\dT0[78]:00:00Z\n/))
            #expect(try await schedule("show", Shop.queue, "weekly-offer").output == added.output)
            let listed = try await schedule("list", Shop.queue)
            #expect(
                listed.output.contains(/weekly-offer +0 9 \* \* mon +Europe\/Vienna +active +20/), "\(listed.output)")

            #expect(try await schedule("pause", Shop.queue, "weekly-offer").output == "paused weekly-offer\n")
            let again = try await schedule("pause", Shop.queue, "weekly-offer")
            #expect(again.code == 0 && again.output == "schedule weekly-offer is already paused\n")
            let paused = try await schedule("show", Shop.queue, "weekly-offer", "--runs", "1")
            #expect(paused.output.contains("paused\n") && paused.errors.contains("in the way: it is paused since"))

            let tried = try await schedule("run", Shop.queue, "weekly-offer")
            let key = try #require(tried.output.firstMatch(of: /campaign +(weekly-offer@\S+)\n/)).output.1
            let campaign = try await shop.admin("campaign", "show", Shop.queue, String(key))
            #expect(campaign.output.contains("tag 'vip'") && campaign.output.contains("running"), "\(campaign.output)")

            #expect(try await schedule("resume", Shop.queue, "weekly-offer").output == "resumed weekly-offer\n")
            #expect(
                try await schedule("remove", Shop.queue, "weekly-offer", "--yes").output == "removed weekly-offer\n")
            expectFailure(
                try await schedule("show", Shop.queue, "weekly-offer"), code: 1,
                saying: "has no schedule “weekly-offer”; list them with: pushq schedule list \(Shop.queue)")
            expectFailure(
                try await schedule("pause", Shop.queue, "weekly-offer"), code: 1,
                saying: "has no schedule “weekly-offer”; list them with: pushq schedule list \(Shop.queue)")
        }
    }

    @Test func `have options as numbers and truths in JSON, whoever added them`() async throws {
        try await Shop.open { shop in
            let added = try await shop.pushq(
                "schedule", "add", Shop.queue, "s", "--cron", "@daily", "--payload", "-", "--audience", "all",
                "--max-rate", "250", "--urgent", "--stop-at-errors", "5%", "--json", input: Self.payload)
            try await shop.run(
                """
                select pushq.add_schedule('\(Shop.queue)', 't', '@daily', '\(Self.payload)',
                                          options => '{"max_rate": 250, "urgent": true, "stop_at_errors": 0.05}')
                """)
            for text in [added.output, try await shop.pushq("schedule", "show", Shop.queue, "t", "--json").output] {
                for member in [#""max_rate":250,"#, #""urgent":true,"#, #""stop_at_errors":0.05,"#] {
                    #expect(text.contains(member), "\(added.errors) \(text)")
                }
            }
        }
    }

    @Test func `have durations in seconds in JSON, as everywhere`() async throws {
        try await Shop.open { shop in
            let added = try await shop.pushq(
                "schedule", "add", Shop.queue, "s", "--cron", "@daily", "--payload", "-", "--audience", "all",
                "--send-within", "6h", "--local-time", "09:00", "--catch-up", "90m", "--json", input: Self.payload)
            #expect(added.output.contains(#""send_by":21600.000"#), "\(added)")
            #expect(added.output.contains(#""catch_up":5400.000"#), "\(added)")
        }
    }

    @Test func `that are wrong are refused in one line that says where and what to do`() async throws {
        try await Shop.open { shop in
            func add(_ words: String...) async throws -> Executable.Ended {
                try await Executable.pushq.run(
                    ["schedule", "add", Shop.queue, "s", "--payload", "-"] + words, environment: shop.environment,
                    input: Self.payload)
            }
            expectFailure(
                try await add("--cron", "0 9 * * Monday", "--audience", "all"), code: 1,
                saying: "the cron expression is wrong at position 9: “Monday” is wrong for the day of the week",
                "did you mean “mon”?")
            expectFailure(
                try await add("--cron", "@daily"), code: 2,
                saying: "--audience all, --audience NAME or --filter FILTER is missing")
            expectFailure(
                try await add("--cron", "@daily", "--audience", "all", "--filter", "tag 'a'"), code: 2,
                saying: "--audience and --filter cannot be used together")
            expectFailure(
                try await add("--cron", "@daily", "--audience", "all", "--time-zone", "Wien"), code: 1,
                saying: "the time zone “Wien” is unknown")
            expectFailure(
                try await add("--cron", "@daily", "--audience", "all", "--after-outage", "never"), code: 2,
                saying: "--after-outage 'never'")
            #expect(try await add("--cron", "@daily", "--audience", "all").code == 0)
            expectFailure(
                try await add("--cron", "@hourly", "--audience", "all"), code: 1,
                saying: "there is already a different schedule “s”: @daily in UTC", "--replace")
            #expect(try await add("--cron", "@hourly", "--audience", "all", "--replace").code == 0)
        }
    }
}
