import Foundation
import LocalStack
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `Waiting for the end` {
    private static let send = ["send", Shop.queue, "--token", "00ff", "--alert", "hi", "--wait"]

    /// Runs a command that waits for 3.5 seconds.
    private func wait(_ words: [String], in shop: Shop) async throws -> Executable.Ended {
        try await Executable.pushq.run(words + ["--timeout", "3500ms"], environment: shop.environment)
    }

    private func giveCredential(_ shop: Shop) async throws {
        try await shop.run(
            """
            with c as (insert into pushq.credential (tenant_id, name, kind, team_id, key_id, environments, sealed)
                       select id, 'main', 'token', 'TEAM123456', 'KEY1234567', '{production}', '' from pushq.tenant returning id)
            update pushq.queue set credential_id = c.id from c
            """)
    }

    private static let worker =
        "insert into pushq.worker (id, name, version, queues, unreachable) values (1, 'w1', '', "

    @Test(arguments: [
        ("", "queue acme/com.acme.shop/production has no credential; add one with: pushq-admin credential add, or"),
        ("credential", "no worker is running. Start one with: pushq work"),
        (
            "update pushq.queue set paused_at = now(), paused_reason = 'lunch'",
            "the queue is paused: lunch. Resume it with: pushq-admin queue resume acme/com.acme.shop/production"
        ),
        (
            "update pushq.queue set paused_at = now(), paused_reason = 'replace it', paused_credential_version = 1",
            "the queue is paused: replace it. If the credential is right, resume it with: pushq-admin queue resume "
        ),
        ("credential; \(worker)'other/*', '{}')", "no running worker serves acme/com.acme.shop/production."),
        (
            "credential; \(worker)'acme/com.acme.s*', (select array_agg(id) from pushq.queue))",
            "worker w1 cannot reach APNs"
        ),
        (
            "credential; \(worker)'*', '{}'); update pushq.worker set (in_outage, refusals) = "
                + "(select array_agg(id), array['500 InternalServerError'] from pushq.queue)",
            "APNs answers 500 InternalServerError; pushes wait"
        ),
        (
            "credential; \(worker)'*', '{}'); update pushq.worker set (unusable, faults) = "
                + "(select array_agg(id), array['it was sealed under master key abc'] from pushq.queue)",
            "worker w1 cannot use credential acme/main: it was sealed under master key abc"
        ),
    ])
    func `says what is waited for, why it does not move, and how to look again`(state: String, reason: String)
        async throws
    {
        try await Shop.open { shop in
            if state.hasPrefix("credential") { try await giveCredential(shop) }
            let rest = state.trimmingPrefix("credential").trimmingPrefix("; ")
            if !rest.isEmpty { try await shop.run(String(rest)) }
            let ended = try await wait(Self.send, in: shop)
            #expect(ended.code == 3)
            #expect(ended.output.contains(/recipients +1\n/))
            let lines = ended.errors.split(separator: "\n").map(String.init)
            let root = try #require(lines.first?.firstMatch(of: /^waiting for the end of send (\d+)$/)?.output.1)
            #expect(lines.dropFirst().first?.hasPrefix("send \(root) is held up: \(reason)") == true, "\(lines)")
            let command = "pushq-admin send show \(Shop.queue) \(root)"
            #expect(lines.last?.hasPrefix("not finished after 3500ms: 1 of 1 recipients have no outcome yet") == true)
            #expect(lines.last?.hasSuffix("Look again with: \(command)") == true)
            let shown = try await shop.admin("send", "show", Shop.queue, String(root))
            #expect(shown.code == 0)
            #expect(shown.output.contains(/state +running\n/), "as pushq.status says")
            #expect(shown.output.contains(/waiting +1\n/), "\(shown.output)")
            #expect(shown.output.contains(reason), "\(shown.output)")
        }
    }

    @Test func `goes on when the database restarts, and says that it was away`() async throws {
        try await Shop.open { shop in
            try await giveCredential(shop)
            let process = try Executable.pushq.start(
                Self.send + ["--timeout", "60s"], environment: shop.environment, output: shop.folder.path("out"),
                errors: shop.folder.path("err"))
            try await eventually("it waits", within: .seconds(60)) {
                shop.folder.read("err").contains("is held up")
            }
            let server = try await shop.beside()
            let name = try #require(try await shop.texts("select current_database() as text").first)
            try await server.run(
                """
                alter database "\(name)" allow_connections false;
                select pg_terminate_backend(pid) from pg_stat_activity where datname = '\(name)';
                """)
            try await eventually("it is away", within: .seconds(60)) {
                shop.folder.read("err").contains("the database is away, and is tried again: ")
            }
            try await server.run("alter database \"\(name)\" allow_connections true")
            try await eventually("it is back", within: .seconds(60)) {
                shop.folder.read("err").contains("the database answers again\n")
            }
            process.signal(SIGINT)
            #expect(await process.waitForExit(within: .seconds(60)) == .code(3))
            #expect(shop.folder.read("out").contains(/recipients +1\n/), "\(shop.folder.read("out"))")
        }
    }

    /// Starts a campaign that pauses itself at 5 % of bad answers, or the same one again.
    private func startStrictCampaign(in shop: Shop, _ options: String...) async throws -> Executable.Ended {
        let words = [
            "campaign", Shop.queue, "--key", "sale", "--payload", "-", "--audience", "all", "--stop-at-errors", "5%",
        ]
        return try await Executable.pushq.run(
            words + options, environment: shop.environment, input: #"{"aps":{"alert":"x"}}"#)
    }

    @Test func `ends with a campaign that has paused itself, says why, and fails`() async throws {
        try await Shop.open { shop in
            #expect(try await startStrictCampaign(in: shop).code == 0)
            try await shop.run(
                "update pushq.campaign set paused_at = now(), paused_reason = '7 of 100 answers were bad'")
            let ended = try await startStrictCampaign(in: shop, "--wait")
            #expect(ended.code == 1)
            #expect(
                ended.errors.contains(
                    "campaign sale has paused itself: 7 of 100 answers were bad. Resume it with: "
                        + "pushq-admin campaign resume \(Shop.queue) sale"), "\(ended.errors)")
            let shown = try await shop.admin("campaign", "show", Shop.queue, "sale")
            #expect(shown.output.contains(/stop at errors +5%\n/), "\(shown.output)")
            #expect(shown.output.contains(/paused because +7 of 100 answers were bad\n/), "\(shown.output)")
        }
    }

    @Test func `ends with a campaign whose last answers were too often bad, says so, and fails`() async throws {
        try await Shop.open { shop in
            #expect(try await startStrictCampaign(in: shop).code == 0)
            // A worker has judged it while another held its last jobs, which have ended since.
            try await shop.run(
                """
                update pushq.fan_out set done = true, done_at = now(), made = 100;
                insert into pushq.campaign_tally (queue_id, campaign_id, part, message_id, delivered, failed, bad)
                select queue_id, id, 1, message_id, 80, 20, 20 from pushq.campaign;
                update pushq.campaign set paused_at = now(), paused_reason = '19 of 100 answers were bad'
                """)
            let ended = try await startStrictCampaign(in: shop, "--wait")
            #expect(ended.code == 1)
            let reason = "20 of 100 answers were bad, which is more than 5 %"
            #expect(
                ended.errors.contains("campaign sale has ended with too many bad answers: \(reason). Nothing was left"),
                "\(ended.errors)")
            #expect(!ended.errors.contains("Resume it"), "\(ended.errors)")
            let shown = try await shop.admin("campaign", "show", Shop.queue, "sale")
            #expect(shown.output.contains(/too many bad +20 of 100 answers were bad, which is more than 5 %\n/))
            #expect(!shown.output.contains("paused because"), "\(shown.output)")
            let doctor = try await shop.admin("doctor")
            #expect(!doctor.output.contains("has paused itself"), "\(doctor.output)")
        }
    }

    @Test func `says that the tenant was suspended meanwhile`() async throws {
        try await Shop.open { shop in
            let sent = try await shop.pushq("send", Shop.queue, "--token", "00ff", "--alert", "hi", "--json")
            let root = try #require(sent.output.firstMatch(of: /"send": ?"?(\d+)/)?.output.1, "\(sent.output)")
            #expect(try await shop.admin("tenant", "suspend", "acme").code == 0)
            let shown = try await shop.admin("send", "show", Shop.queue, String(root))
            let reason = "tenant acme is suspended. Resume it with: pushq-admin tenant resume acme"
            #expect(shown.output.contains(reason), "\(shown.output)")
            expectFailure(
                try await shop.pushq("send", Shop.queue, "--token", "00ff", "--alert", "hi"), code: 1,
                saying: "tenant “acme” is suspended")
        }
    }

    @Test func `says so of a campaign, too`() async throws {
        try await Shop.open { shop in
            try await giveCredential(shop)
            let payload = try shop.folder.write(#"{"aps":{"alert":"hi"}}"#, to: "payload.json")
            let start = ["campaign", Shop.queue, "--key", "big sale", "--payload", payload, "--audience", "all"]
            #expect(try await Executable.pushq.run(start, environment: shop.environment).code == 0)
            _ = try await shop.admin("campaign", "pause", Shop.queue, "big sale")
            let ended = try await wait(start + ["--wait"], in: shop)
            #expect(ended.code == 3)
            #expect(
                ended.errors.hasPrefix(
                    "campaign big sale was started before, with the same message: it is not started again\n"
                        + "waiting for the end of campaign big sale\n"))
            #expect(ended.errors.contains("is held up: the campaign is paused."))
            #expect(ended.errors.contains("Look again with: pushq-admin campaign show \(Shop.queue) 'big sale'\n"))
            #expect(ended.output.contains(/state +paused\n/), "\(ended.output)")
        }
    }

    @Test func `says so of a campaign to an audience that was removed since its start`() async throws {
        try await Shop.open { shop in
            try await giveCredential(shop)
            #expect(try await shop.admin("audience", "add", Shop.queue, "vip", "--filter", "tag 'vip'").code == 0)
            let payload = try shop.folder.write(#"{"aps":{"alert":"hi"}}"#, to: "payload.json")
            let start = ["campaign", Shop.queue, "--key", "k", "--payload", payload, "--audience", "vip"]
            #expect(try await Executable.pushq.run(start, environment: shop.environment).code == 0)
            _ = try await shop.admin("campaign", "pause", Shop.queue, "k")
            #expect(try await shop.admin("audience", "remove", Shop.queue, "vip", "--yes").code == 0)
            let ended = try await wait(start + ["--wait"], in: shop)
            #expect(ended.code == 3, "\(ended.errors)")
            #expect(ended.errors.contains("is held up: the campaign is paused."), "\(ended.errors)")
        }
    }

    @Test func `tells a log of each tenth of a campaign, its rate and the time left`() async throws {
        try await Shop.open { shop in
            try await giveCredential(shop)
            try await shop.run(
                "insert into pushq.device (queue_id, token) select id, int8send(i) from pushq.queue, generate_series(1, 2000) i"
            )
            let start = [
                "campaign", Shop.queue, "--key", "k", "--payload", "-", "--audience", "all", "--wait",
            ]
            let payload = try shop.folder.write(#"{"aps":{"alert":"hi"}}"#, to: "payload.json")
            let process = try Executable.pushq.start(
                start.map { $0 == "-" ? payload : $0 }, environment: shop.environment, output: shop.folder.path("out"),
                errors: shop.folder.path("err"))
            // Acts as a worker: first half of the devices get the push, which the next poll of the counts shows, and
            // then all.
            try await eventually("it waits", within: .seconds(60)) {
                shop.folder.read("err").contains("no worker is running")
            }
            try await shop.run(
                """
                update pushq.fan_out set made = 1500;
                update pushq.campaign_tally set delivered = 1000;
                """)
            try await eventually("it says so", within: .seconds(60)) {
                shop.folder.read("err").contains(#/\nsending  50%  1,000 of 2,000  \d+/s  [0-9.]+s left\n/#)
            }
            try await shop.run(
                """
                update pushq.fan_out set made = 1900, done = true, done_at = now();
                update pushq.campaign_tally set delivered = 1900;
                """)
            #expect(await process.waitForExit(within: .seconds(60)) == .code(0))
            #expect(shop.folder.read("out").contains(/delivered +1,900\n/), "\(shop.folder.read("out"))")
        }
    }

    @Test func `counts at its end all recipients that there will be, and not only those in jobs`() async throws {
        try await Shop.open { shop in
            try await giveCredential(shop)
            try await shop.run(
                "insert into pushq.device (queue_id, token) select id, int8send(i) from pushq.queue, generate_series(1, 200) i"
            )
            let payload = try shop.folder.write(#"{"aps":{"alert":"hi"}}"#, to: "payload.json")
            // Under a rate, fan-out creates jobs only shortly before they are sent. Here no worker runs, so there are
            // no jobs.
            let ended = try await shop.pushq(
                "campaign", Shop.queue, "--key", "k", "--payload", payload, "--audience", "all", "--max-rate", "5",
                "--wait", "--timeout", "1s")
            #expect(ended.code == 3)
            #expect(ended.errors.contains("200 of 200 recipients have no outcome yet"), "\(ended.errors)")
        }
    }

    @Test func `ends with the reader of its messages`() async throws {
        try await Shop.open { shop in
            let words = (["\(Executable.folder)/pushq"] + Self.send).map { "'\($0)'" }.joined(separator: " ")
            let ended = try await Executable(path: "/bin/bash").run(
                ["-o", "pipefail", "-c", "\(words) 2>&1 | head -1"], environment: shop.environment)
            #expect(ended.output.hasPrefix("waiting for the end of send"), "\(ended.output)")
            #expect(ended.code == 128 + SIGPIPE)
        }
    }

    @Test func `is JSON where results are`() async throws {
        try await Shop.open { shop in
            let ended = try await wait(Self.send + ["--json"], in: shop)
            #expect(ended.code == 3)
            for line in ended.errors.split(separator: "\n") + ended.output.split(separator: "\n") {
                #expect(throws: Never.self) { try JSONSerialization.jsonObject(with: Data(line.utf8)) }
            }
        }
    }

    @Test func `ends with Ctrl-C, which stops nothing else and says how to look again`() async throws {
        try await Shop.open { shop in
            let process = try Executable.pushq.start(
                Self.send, environment: shop.environment, output: shop.folder.path("out"),
                errors: shop.folder.path("err"))
            // The command prints this when it already handles signals.
            try await eventually("it says why nothing moves", within: .seconds(30)) {
                shop.folder.read("err").contains("is held up")
            }
            process.signal(SIGINT)
            #expect(await process.waitForExit(within: .seconds(30)) == .code(3))
            let errors = shop.folder.read("err")
            #expect(
                errors.contains(#/stopped waiting; send \d+ continues. Look again with: pushq-admin send show/#),
                "\(errors)")
            #expect(try await shop.list("job", "list").count == 1)
        }
    }

    @Test func `is over with exit 1 when what is waited for is cancelled, which is not started again`() async throws {
        try await Shop.open { shop in
            let payload = try shop.folder.write(#"{"aps":{"alert":"hi"}}"#, to: "payload.json")
            let tokens = try shop.folder.write("ab\ncd\n", to: "tokens.csv")
            for (key, audience, words) in [
                ("list", ["--tokens", tokens], "campaign list was cancelled: 2 recipients were not sent to\n"),
                (
                    "all", ["--audience", "all"],
                    "campaign all was cancelled: nobody was sent to: it was cancelled before its recipients were known\n"
                ),
            ] {
                let start = ["campaign", Shop.queue, "--key", key, "--payload", payload] + audience
                let (output, errors) = ("\(key).out", "\(key).err")
                let process = try Executable.pushq.start(
                    start + ["--wait"], environment: shop.environment, output: shop.folder.path(output),
                    errors: shop.folder.path(errors))
                try await eventually("it waits", within: .seconds(60)) {
                    shop.folder.read(errors).contains("waiting for the end")
                }
                for changed in ["cancelled", "is already cancelled"] {
                    let cancelled = try await shop.admin("campaign", "cancel", Shop.queue, key, "--yes")
                    #expect(cancelled.code == 0)
                    #expect(cancelled.output.contains(changed))
                }
                #expect(await process.waitForExit(within: .seconds(60)) == .code(1))
                #expect(shop.folder.read(errors).contains(words), "\(shop.folder.read(errors))")
                #expect(shop.folder.read(output).contains(/state +cancelled\n/), "\(shop.folder.read(output))")
                let again = try await wait(start + ["--wait"], in: shop)
                expectFailure(
                    again, code: 1, saying: "campaign “\(key)” was cancelled; start another one under a new key")
                let shown = try await shop.admin("campaign", "show", Shop.queue, key)
                #expect(
                    shown.output.contains(/not sent to +(2 recipients were not sent to|nobody was sent to: )/),
                    "\(shown.output)")
            }
        }
    }

    @Test func `of a send that has nobody to reach is over at once, and says why`() async throws {
        try await Shop.open { shop in
            let send = ["send", Shop.queue, "--user", "nobody", "--alert", "hi"]
            let plain = try await Executable.pushq.run(send, environment: shop.environment)
            #expect(plain.code == 0)
            #expect(plain.output.contains("user “nobody” has no device in this queue"))
            let waited = try await wait(send + ["--wait"], in: shop)
            #expect(waited.code == 1)
            let root = try #require(plain.output.firstMatch(of: /send +(\d+)/)?.output.1)
            let shown = try await shop.admin("send", "show", Shop.queue, String(root))
            #expect(shown.output.contains(/state +finished\n/))
            #expect(shown.output.contains(/recipients +0\n/))
            #expect(shown.output.contains(/reached nobody +user “nobody” has no device in this queue/))
        }
    }

    @Test func `of a repeated send whose history is gone says so, and not that it reached nobody`() async throws {
        try await Shop.open { shop in
            let send = ["send", Shop.queue, "--token", "00ff", "--alert", "hi", "--key", "order-17"]
            #expect(try await Executable.pushq.run(send, environment: shop.environment).code == 0)
            try await shop.run("delete from pushq.job; delete from pushq.body; delete from pushq.message")
            let again = try await Executable.pushq.run(send, environment: shop.environment)
            #expect(again.code == 0 && again.errors.contains("no longer kept"), "\(again.errors)")
            #expect(!again.output.contains("recipients"), "\(again.output)")
            let waited = try await wait(send + ["--wait"], in: shop)
            #expect(waited.code == 1 && waited.errors.contains("was made before under this key"), "\(waited.errors)")
        }
    }

    @Test func `of a campaign that has reached nobody fails, and says why`() async throws {
        try await Shop.open { shop in
            try await giveCredential(shop)
            try await shop.run(
                """
                insert into pushq.device (queue_id, token) select id, int8send(i) from pushq.queue, generate_series(1, 3) i;
                insert into pushq.profile (queue_id, device_id, attributes, tags)
                select queue_id, id, '{"plan":"pro","city":"Wien"}', '{vip}' from pushq.device;
                """)
            let payload = try shop.folder.write(#"{"aps":{"alert":"hi"}}"#, to: "payload.json")
            for (key, filter, reason) in [
                ("typo", "attribute plam = 'pro'", "no device has an attribute “plam”; did you mean “plan”?"),
                ("tag", "not (tag 'VIP')", nil),
                ("other", "tag 'vop'", "no device has the tag “vop”; did you mean “vip”?"),
                ("none", "attribute plan = 'free' and tag 'vip'", "no active device of kind alert matches the filter"),
            ] {
                let start = ["campaign", Shop.queue, "--key", key, "--payload", payload, "--filter", filter]
                let dry = try await Executable.pushq.run(start + ["--dry-run"], environment: shop.environment)
                #expect(dry.code == (reason == nil ? 0 : 1), "\(dry.errors)")
                guard let reason else { continue }
                #expect(
                    dry.errors.contains("in the way: the campaign would reach nobody: \(reason)\n"), "\(dry.errors)")
                #expect(try await Executable.pushq.run(start, environment: shop.environment).code == 0)
                // Does what a worker does at the end.
                try await shop.run("update pushq.fan_out set done = true, done_at = now()")
                let waited = try await wait(start + ["--wait"], in: shop)
                #expect(waited.code == 1)
                #expect(waited.errors.contains("\ncampaign \(key) reached nobody: \(reason)"), "\(waited.errors)")
                #expect(waited.output.contains(/state +finished\n/), "\(waited.output)")
            }
        }
    }

    @Test func `takes no time without --wait`() async throws {
        try await Shop.open { shop in
            let ended = try await shop.pushq("send", Shop.queue, "--token", "ab", "--alert", "hi", "--timeout", "3s")
            expectFailure(ended, code: 2, saying: "--timeout needs --wait")
        }
    }
}
