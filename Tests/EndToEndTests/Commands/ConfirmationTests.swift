import Cryptography
import Foundation
import LocalStack
import QueueCore
import TestSupport
import Testing

/// A command that destroys something, with a shop that contains it.
struct Destruction: Sendable, CustomTestStringConvertible {
    /// The command's name as in the help: `pushq-admin campaign cancel`.
    let command: String
    let arguments: [String]
    /// SQL that creates what is destroyed.
    let setup: String
    /// The text that says what will be lost.
    let loss: String
    /// A query that counts what is lost; 0 afterwards.
    let left: String

    init(_ command: String, _ arguments: String..., setup: String, loss: String, left: String) {
        (self.command, self.arguments, self.setup) = (command, arguments, setup)
        (self.loss, self.left) = (loss, left)
    }

    var testDescription: String { command }
    var executable: Executable { command.hasPrefix("pushq-admin") ? .admin : .pushq }
    var words: [String] { command.split(separator: " ").dropFirst().map(String.init) + arguments }

    private static let queue = Shop.queue
    private static let token = String(repeating: "4a", count: 32)
    private static let device = "select pushq.register_device('\(queue)', '\(token)', '4711')"
    private static let payload = #"'{"aps":{"alert":"hello"}}'"#
    private static let send = "select pushq.send('\(queue)', \(payload), tokens => array['\(token)'])"
    private static let badToken = Reason.named("BadDeviceToken").code
    private static let waiting = """
        (select count(*) from pushq.job j
         where not exists (select from pushq.cancelled c where c.id = j.id) and not exists (
           select from pushq.cancelled c where c.id = j.root_id))
        """
    /// A job whose only recipient has failed without an answer.
    private static let failed = """
        \(device); \(send);
        insert into pushq.result (day, queue_id, job_id, root_id, body_day, message_id, lane, attempt, ended_at, outcomes,
                                  delivered, rejected, failed, suppressed, expired, cancelled, unknown, retried)
        select body_day, queue_id, id, root_id, body_day, message_id, lane, 10, now(), '\\x80', 0, 0, 1, 0, 0, 0, 0, 0
        from pushq.job;
        delete from pushq.job
        """

    /// A campaign whose only recipient has failed without an answer.
    static let failedCampaign = """
        \(device); select pushq.start_campaign('\(queue)', 'sale', \(payload));
        -- The second step creates the job that is not full.
        select pushq.fan_out_step(queue_id, \(Lane.bulk.rawValue), id, 500, 1, 1000)
        from pushq.campaign, generate_series(1, 2);
        insert into pushq.campaign_tally (queue_id, campaign_id, part, message_id, failed)
        select queue_id, campaign_id, 1, message_id, 1 from pushq.job;
        insert into pushq.result (day, queue_id, job_id, root_id, body_day, message_id, lane, attempt, ended_at, outcomes,
                                  delivered, rejected, failed, suppressed, expired, cancelled, unknown, retried)
        select body_day, queue_id, id, root_id, body_day, message_id, lane, 10, now(), '\\x80', 0, 0, 1, 0, 0, 0, 0, 0
        from pushq.job;
        delete from pushq.job
        """

    /// Jobs that ended 3, 4 and 7 days ago, a report from 6 days ago, and an audit entry from 301 days ago.
    static let history = """
        do $$
        begin
          for n in 3 .. 7 loop
            while pushq.make_partition(pushq.today() - n, 0) is not null loop end loop;
          end loop;
        end $$;
        insert into pushq.result (day, queue_id, job_id, root_id, body_day, message_id, lane, attempt, ended_at, outcomes,
                                  delivered, rejected, failed, suppressed, expired, cancelled, unknown, retried)
        select pushq.today() - n, id, n, n, pushq.today() - n, 1, 1, 1, now() - make_interval(days => n), '\\x01',
               1, 0, 0, 0, 0, 0, 0, 0
        from pushq.queue, unnest(array[3, 4, 7]) n;
        insert into pushq.feedback (day, queue_id, id, device_id, root_id, reason, reported_at, verdict)
        select pushq.today() - 6, id, nextval('pushq.id'), 1, 1, \(badToken), now(), 'kept' from pushq.queue;
        insert into pushq.audit (changed_at, login, tenant, object, action, changes)
        values (now() - interval '301 days', 'anna', 'acme', 'tenant', 'changed', '{}')
        """

    static let all = [
        Destruction(
            "pushq-admin campaign cancel", queue, "sale",
            setup: "\(device); select pushq.start_campaign('\(queue)', 'sale', \(payload))",
            loss: "cancels campaign sale for good: its recipients, who are in no job yet, will get nothing",
            left: "(select count(*) from pushq.campaign where cancelled_at is null)"),
        Destruction(
            "pushq-admin send cancel", queue, "SEND", setup: send, loss: "for good: 1 recipient will get nothing",
            left: waiting),
        Destruction(
            "pushq-admin job cancel", queue, "JOB", setup: send, loss: "for good: 1 recipient will get nothing",
            left: waiting),
        Destruction(
            "pushq-admin job cancel", queue, "--since", "2020-01-01T00:00:00Z", setup: "\(send); \(send)",
            loss: "cancels 2 jobs for good: 2 recipients will get nothing", left: waiting),
        Destruction(
            "pushq-admin job retry", queue, "--since", "2020-01-01T00:00:00Z", setup: failed,
            loss: "sends again to 1 failed recipient in 1 job", left: "1 - (select count(*) from pushq.job)"),
        Destruction(
            "pushq-admin device forget", queue, token, setup: device,
            loss: "deletes device 4a4a4a4a…(32 bytes) of user 4711, its history and the sends that were for it alone, "
                + "and all that is for the user if it is the last device",
            left: "(select count(*) from pushq.device)"),
        Destruction(
            "pushq-admin device forget", queue, "--user", "4711", setup: device,
            loss: "deletes all of user 4711: 1 device, the history, and the sends that were for the user alone",
            left: "(select count(*) from pushq.device)"),
        Destruction(
            "pushq-admin device reactivate", queue, "--reason", "BadDeviceToken",
            setup: """
                \(device);
                update pushq.device set active = false, inactive_since = now() - interval '1 hour', inactive_reason = \(badToken);
                insert into pushq.feedback (day, queue_id, id, device_id, root_id, reason, reported_at, verdict)
                select pushq.today(), d.queue_id, nextval('pushq.id'), d.id, 1, \(badToken), d.inactive_since, 'deactivated'
                from pushq.device d
                """, loss: "reactivates 1 device inactive because of 1 deactivation",
            left: "(select count(*) from pushq.device where not active)"),
        Destruction(
            "pushq-admin credential remove", "acme", "spare",
            setup: """
                insert into pushq.credential (tenant_id, name, kind, team_id, key_id, environments, sealed)
                select id, 'spare', 'token', 'TEAM123456', 'ABC123DEFG', '{production}', '\\x01' from pushq.tenant
                """, loss: "deletes signing key spare of acme", left: "(select count(*) from pushq.credential)"),
        Destruction(
            "pushq-admin credential replace", "acme", "spare", "--p8", "KEY", "--team-id", "TEAM123456", "--key-id",
            "ABC123DEFG",
            setup: """
                insert into pushq.credential (tenant_id, name, kind, team_id, key_id, environments, sealed)
                select id, 'spare', 'token', 'TEAM123456', 'ABC123DEFG', '{production}', '\\x01' from pushq.tenant
                """, loss: "overwrites signing key spare of acme, of which there is no other copy here",
            left: "(select count(*) from pushq.credential where version = 1)"),
        Destruction(
            "pushq-admin campaign retry-failed", queue, "sale", setup: failedCampaign,
            loss: "sends again to 1 failed recipient of campaign sale",
            left: "1 - (select count(*) from pushq.job)"),
        Destruction(
            "pushq-admin audience remove", queue, "vips",
            setup: "select pushq.save_audience('\(queue)', 'vips', 'tag ''vip''')",
            loss: "deletes audience vips (tag 'vip')", left: "(select count(*) from pushq.audience)"),
        Destruction(
            "pushq schedule remove", queue, "weekly",
            setup: "select pushq.add_schedule('\(queue)', 'weekly', '@weekly', \(payload))",
            loss: "deletes schedule weekly (@weekly, UTC)", left: "(select count(*) from pushq.schedule)"),
        Destruction(
            "pushq-admin app remove", "acme", "com.acme.shop", setup: device,
            loss: "deletes com.acme.shop of acme with its queues, 1 device and 0 jobs",
            left: "(select count(*) from pushq.app)"),
        Destruction(
            "pushq-admin tenant remove", "acme", setup: device,
            loss: "deletes acme with 1 queue, 1 device and 0 jobs", left: "(select count(*) from pushq.tenant)"),
        Destruction(
            "pushq-admin webhook remove", "acme",
            setup: """
                insert into pushq.webhook (tenant_id, url, sealed) select id, 'https://acme.example/push', '\\x01' from pushq.tenant;
                insert into pushq.webhook_progress (tenant_id, cursor, newest) select id, 3, 4 from pushq.tenant
                """,
            loss:
                "deletes the webhook of acme, https://acme.example/push, with its secret and its place in the reports; "
                + "what it has not accepted yet is sent to nobody",
            left: "(select count(*) from pushq.webhook)"),
        Destruction(
            "pushq-admin webhook set", "acme", "--new-secret", "--former-for", "0s",
            setup: """
                insert into pushq.webhook (tenant_id, url, sealed) select id, 'https://acme.example/push', '\\x01' from pushq.tenant;
                insert into pushq.webhook_progress (tenant_id, cursor, newest) select id, 3, 4 from pushq.tenant
                """,
            loss: "ends the secret of the webhook of acme at once: a receiver that has no other one refuses reports",
            left: "(select count(*) from pushq.webhook where sealed = '\\x01')"),
        Destruction(
            "pushq-admin webhook set", "acme", "--new-secret",
            setup: """
                insert into pushq.webhook (tenant_id, url, sealed, former_sealed, former_until)
                select id, 'https://acme.example/push', '\\x02', '\\x01', '2100-01-01' from pushq.tenant;
                insert into pushq.webhook_progress (tenant_id, cursor, newest) select id, 3, 4 from pushq.tenant
                """,
            loss:
                "ends the last secret, and not the one before it, which is valid until 2100-01-01T00:00:00Z, of the webhook",
            left:
                "(select count(*) from pushq.webhook where sealed = '\\x02' or former_sealed is distinct from '\\x01')"),
        Destruction(
            "pushq-admin tenant set", "acme", "--history-days", "3", "--rate", "50",
            setup: history,
            loss: "deletes of acme, within the hour: the results, recipients and messages of 2 jobs from before 2",
            left: "(select count(*) from pushq.tenant where history_days is null)"),
        Destruction(
            "pushq-admin tenant set", "acme", "--feedback-days", "5", "--audit-days", "300",
            setup: history,
            loss: "deletes of acme, within the hour: 1 report about devices from before 2",
            left: "(select count(*) from pushq.tenant where feedback_days is null or audit_days is null)"),
        Destruction(
            "pushq-admin tenant set", "acme", "--key-days", "5",
            setup: """
                select pushq.send('\(queue)', '{"aps":{"alert":"x"}}', array['ab'], key => 'k');
                update pushq.send_key set due_at = now() - interval '6 days'
                """,
            loss: "deletes of acme, within the hour: 1 key of sends from before 2",
            left: "(select count(*) from pushq.tenant where key_days is null)"),
        Destruction(
            "pushq-admin tenant move", "acme", "--to", "host=127.0.0.1 port=1 user=nobody dbname=nowhere", "--abandon",
            "--target-is-lost",
            setup: """
                select pushq.begin_leaving('acme', gen_random_uuid(), 'elsewhere');
                select pushq.stop_leaving('acme'); select pushq.detach_tenant('acme')
                """,
            loss: "brings acme back as it was when it was stopped", left: "(select count(*) from pushq.tenant_move)"),
        Destruction(
            "pushq-admin restore resume", queue, "--unknown",
            setup:
                "\(send); update pushq.job set run_at = now() - interval '1 hour'; select pushq.judge_lineage(declared => true)",
            loss: "records 1 recipient in 1 queue as unknown for good",
            left: "(select count(*) from pushq.restored_queue)"),
        Destruction(
            "pushq-admin restore declare", setup: "\(send); update pushq.job set run_at = now() - interval '1 hour'",
            loss: "pauses each queue with work until somebody decides about it, and skips identifiers",
            left: "1 - (select count(*) from pushq.restored_queue)"),
    ]
}

/// Commands that ask before they destroy something: on a terminal, and where they cannot ask.
@Suite(.timeLimit(.minutes(10))) struct `A command that asks first` {
    /// Runs a test with a shop that contains what is destroyed, and with the command's words, including IDs.
    private func prepare(
        _ destruction: Destruction, _ body: @Sendable @escaping (Shop, [String]) async throws -> Void
    ) async throws {
        try await Shop.open { shop in
            try await shop.run(destruction.setup)
            var words = destruction.words
            for (word, column) in [("SEND", "root_id"), ("JOB", "id")] {
                guard let place = words.firstIndex(of: word) else { continue }
                words[place] = try await shop.texts("select \(column)::text as text from pushq.job")[0]
            }
            if let place = words.firstIndex(of: "KEY") {
                words[place] = try shop.folder.write(PrivateKey.makeP256().pem(), to: "key.p8")
            }
            #expect(try await left(destruction, shop) > 0)
            try await body(shop, words)
        }
    }

    private func left(_ destruction: Destruction, _ shop: Shop) async throws -> Int {
        Int(try await shop.texts("select (\(destruction.left))::text as text")[0]) ?? -1
    }

    @Test(arguments: Destruction.all)
    func `changes nothing without --yes where nobody can be asked, and says what would be lost`(
        destruction: Destruction
    ) async throws {
        try await prepare(destruction) { shop, words in
            let asked = try await destruction.executable.run(words, environment: shop.environment, input: "yes\n")
            expectFailure(asked, code: 1, saying: destruction.loss, "; nothing was changed: pass --yes to do it")
            #expect(try await left(destruction, shop) > 0)
            let done = try await destruction.executable.run(words + ["--yes"], environment: shop.environment)
            #expect(done.code == 0 && !done.errors.contains("[y/N]"), "\(done.errors)")
            #expect(try await left(destruction, shop) == 0)
        }
    }

    @Test(arguments: Destruction.all)
    func `asks once on a terminal, and does what the answer says`(destruction: Destruction) async throws {
        try await prepare(destruction) { shop, words in
            for (answer, code) in [("n", Int32(1)), ("y", 0)] {
                let terminal = try PseudoTerminal(columns: 120, rows: 24)
                let process = try terminal.start(destruction.executable, words, environment: shop.environment)
                try await eventually("it asks", within: .seconds(60)) {
                    terminal.output
                } until: {
                    $0.contains("\(destruction.loss)") && $0.hasSuffix(" Continue? [y/N] ")
                }
                #expect(try await left(destruction, shop) > 0)
                terminal.type("\(answer)\n")
                #expect(await process.waitForExit(within: .seconds(60)) == .code(code), "\(terminal.output)")
                #expect(terminal.output.components(separatedBy: "[y/N]").count == 2, "it asks once")
                let isLeft = try await left(destruction, shop) > 0
                #expect(isLeft == (answer == "n"))
            }
        }
    }

    @Test func `asks nothing where nothing would be lost, and nothing is lost`() async throws {
        try await Shop.open { shop in
            try await shop.run(Destruction.history)
            for days in ["7", "8", "9", "8", "usual"] {
                let ended = try await shop.admin("tenant", "set", "acme", "--history-days", days)
                #expect(ended.code == 0 && ended.errors.isEmpty, "\(days): \(ended.errors)")
            }
            #expect(try await shop.admin("tenant", "set", "acme", "--weight", "2", "--audit-days", "302").code == 0)
            expectFailure(
                try await shop.admin("tenant", "set", "nobody", "--history-days", "1"), code: 1, saying: "nobody")
        }
    }

    /// The commands that never ask, by the reason that docs/troubleshooting.md gives.
    private static let others: [String: String] = [
        "shows something": """
        pushq lint, pushq completion, pushq man, pushq schedule list, pushq schedule show, pushq-admin completion,
        pushq-admin man, pushq-admin doctor, pushq-admin stats, pushq-admin audit, pushq-admin trace,
        pushq-admin router, pushq-admin tenant list, pushq-admin tenant show, pushq-admin tenant where,
        pushq-admin tenant logins, pushq-admin app list, pushq-admin queue list, pushq-admin credential list,
        pushq-admin credential check, pushq-admin device list, pushq-admin device show, pushq-admin device export,
        pushq-admin channel show, pushq-admin audience list, pushq-admin audience show,
        pushq-admin campaign list, pushq-admin campaign show, pushq-admin campaign recipients, pushq-admin send show,
        pushq-admin job list, pushq-admin job show, pushq-admin restore show, pushq-admin restore diverged,
        pushq-admin feedback list,
        pushq-admin feedback export, pushq-admin feedback tail, pushq-admin webhook show,
        pushq-admin webhook test, pushq-admin worker list
        """,
        "runs until it is stopped": """
        pushq demo, pushq dev, pushq work, pushq simulate, pushq-admin top, pushq-admin dashboard
        """,
        "sends to whom its caller names": """
        pushq send, pushq campaign, pushq broadcast, pushq schedule run
        """,
        "adds something": """
        pushq-admin migrate, pushq-admin tenant create, pushq-admin app create, pushq-admin queue create,
        pushq-admin credential add, pushq-admin channel create, pushq-admin device register
        """,
        "sets what a command sets back": """
        pushq schedule add, pushq schedule pause, pushq schedule resume, pushq-admin tenant suspend,
        pushq-admin tenant resume, pushq-admin tenant grant, pushq-admin tenant revoke,
        pushq-admin queue set, pushq-admin queue pause, pushq-admin queue resume,
        pushq-admin credential rotate-master, pushq-admin device import, pushq-admin device deactivate,
        pushq-admin channel list, pushq-admin audience add, pushq-admin campaign set, pushq-admin campaign pause,
        pushq-admin campaign resume, pushq-admin job resume, pushq-admin worker grant, pushq-admin worker revoke
        """,
    ]

    @Test func `is decided for every command`() async throws {
        let asking = Set(Destruction.all.map(\.command) + ["pushq-admin channel delete"])
        let others = Self.others.values.flatMap {
            $0.split(separator: ",").map { $0.trimmingCharacters(in: .whitespacesAndNewlines) }
        }
        #expect(Set(others).count == others.count && asking.isDisjoint(with: others))
        #expect(try await Executable.commandNames() == asking.union(others), "a command without a decision")
    }

    @Test func `is each one that takes --yes`() async throws {
        var takers: Set<String> = []
        for executable in [Executable.pushq, .admin] {
            let reference = try await executable.run(["help", "--markdown"]).output
            var name = ""
            for line in reference.split(separator: "\n") {
                if line.hasPrefix("#") { name = line.drop { $0 == "#" || $0 == " " }.description }
                if line.hasPrefix("  --yes ") { takers.insert(name) }
            }
        }
        // This command asks Apple first; the tests of channels cover it.
        #expect(takers == Set(Destruction.all.map(\.command) + ["pushq-admin channel delete"]))
    }
}
