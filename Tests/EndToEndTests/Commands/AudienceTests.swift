import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `Saved audiences` {
    @Test func `are added, listed, shown with an estimate, used and removed by commands`() async throws {
        try await Shop.open { shop in
            try await shop.run(
                """
                select pushq.register_device('\(Shop.queue)', 'a' || i, null, tags => case when i < 4 then array['vip'] end)
                from generate_series(0, 9) i
                """)
            let added = try await shop.admin("audience", "add", Shop.queue, "vips", "--filter", "tag 'vip'")
            #expect(
                added.output.contains(/filter +tag 'vip'\nrecipients +4\ninactive left out +0\n/), "\(added.errors)")
            #expect(try await shop.admin("audience", "show", Shop.queue, "vips").output == added.output)
            let voip = try await shop.admin("audience", "show", Shop.queue, "vips", "--push-type", "voip")
            #expect(voip.output.contains(/recipients +0\n/))
            let listed = try await shop.list("audience", "list", Shop.queue)
            #expect(listed.map { $0["name"] as? String } == ["vips"])
            expectFailure(
                try await shop.admin("audience", "add", Shop.queue, "vips", "--filter", "tag 'x'"), code: 1,
                saying: "audience “vips” already has another filter: tag 'vip'", "--replace")

            let payload = #"{"aps":{"alert":"x"}}"#
            let dryRun = try await shop.pushq(
                "campaign", Shop.queue, "--key", "k", "--payload", "-", "--audience", "vips", "--dry-run",
                input: payload)
            #expect(dryRun.output.contains(/filter +audience vips\nrecipients +4\n/), "\(dryRun.errors)")
            let started = try await shop.pushq(
                "campaign", Shop.queue, "--key", "k", "--payload", "-", "--audience", "vips", input: payload)
            #expect(started.code == 0, "\(started.errors)")
            expectFailure(
                try await shop.pushq(
                    "campaign", Shop.queue, "--key", "other", "--payload", "-", "--audience", "vip", input: payload),
                code: 1, saying: "there is no audience “vip”; did you mean “vips”?")

            // While a schedule uses the audience, the command refuses without asking.
            try await shop.run(
                """
                select pushq.add_schedule('\(Shop.queue)', 'weekly', '@weekly', '\(payload)',
                                          options => '{"filter":"audience vips"}')
                """)
            let refusal = "schedule “weekly” is for audience “vips”"
            expectFailure(
                try await shop.admin("audience", "remove", Shop.queue, "vips"), code: 1, saying: refusal)
            expectFailure(
                try await shop.admin("audience", "remove", Shop.queue, "vips", "--yes"), code: 1, saying: refusal)
            try await shop.run("select pushq.remove_schedule('\(Shop.queue)', 'weekly')")
            expectFailure(
                try await shop.admin("audience", "remove", Shop.queue, "vips"), code: 1,
                saying: "this deletes audience vips (tag 'vip'); nothing was changed: pass --yes to do it")
            #expect(try await shop.admin("audience", "remove", Shop.queue, "vips", "--yes").output == "removed vips\n")
            expectFailure(
                try await shop.admin("audience", "remove", Shop.queue, "vips"), code: 1,
                saying: "there is no audience vips in \(Shop.queue)")
        }
    }
}
