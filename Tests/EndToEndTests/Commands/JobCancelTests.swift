import Foundation
import PostgresStore
import QueueCore
import TestSupport
import Testing

/// Cancels waiting jobs that are selected by common properties.
@Suite(.timeLimit(.minutes(10))) struct `Cancelling jobs` {
    @Test(arguments: ["cancel", "retry"])
    func `of a campaign that does not exist, or trying to send them again, is an error`(order: String) async throws {
        try await Shop.open { shop in
            let ended = try await shop.admin("job", order, Shop.queue, "--campaign", "nope", "--yes")
            expectFailure(
                ended, code: 1,
                saying:
                    "there is no campaign “nope” in queue “\(Shop.queue)”; list them with: pushq-admin campaign list")
        }
    }

    /// Creates four jobs of one recipient each: a retry after the answer TooManyRequests, one that is due tomorrow, one
    /// of a campaign, and a plain one.
    private func make(in shop: Shop) async throws {
        let payload = #"'{"aps":{"alert":"hello"}}'"#
        try await shop.run(
            """
            select pushq.register_device('\(Shop.queue)', '\(String(repeating: "b0", count: 32))', 'anna');
            select pushq.send('\(Shop.queue)', \(payload), user_key => 'anna');
            insert into pushq.result (day, queue_id, job_id, root_id, body_day, message_id, lane, attempt, ended_at, outcomes,
                                      delivered, rejected, failed, suppressed, expired, cancelled, unknown, retried)
            select body_day, queue_id, id, root_id, body_day, message_id, lane, 1, now(),
                   set_byte('\\x00', 0, 192 + \(Reason.named("TooManyRequests").code)), 0, 0, 0, 0, 0, 0, 0, 1
            from pushq.job;
            with next as (select id as old, nextval('pushq.id') as new from pushq.job),
            body as (
              insert into pushq.body (day, queue_id, job_id, root_id, slice, first_device_id, last_device_id, device_ids)
              select day, queue_id, new, root_id, -2, first_device_id, last_device_id, device_ids
              from pushq.body
              join next on old = job_id)
            update pushq.job set id = new, attempt = 2 from next where id = old;
            select pushq.send('\(Shop.queue)', \(payload), user_key => 'anna', run_at => now() + interval '1 day');
            select pushq.send('\(Shop.queue)', \(payload), user_key => 'anna');
            """)
        let file = try shop.folder.write(#"{"aps":{"alert":"hello"}}"#, to: "payload.json")
        let started = try await shop.pushq(
            "campaign", Shop.queue, "--key", "sale", "--payload", file, "--audience", "all")
        #expect(started.code == 0, "\(started.errors)")
        // Does what a worker does for the campaign.
        try await shop.run(
            """
            insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, campaign_id, root_id, body_day, recipient_count)
            select c.queue_id, nextval('pushq.id'), 1, now(), now() + interval '1 hour', 0, c.id, c.id, pushq.today(), 1
            from pushq.campaign c
            where not exists (select from pushq.job j where j.campaign_id = c.id)
            """)
        #expect(try await shop.texts("select count(*)::text as text from pushq.job") == ["4"])
    }

    private func facts(_ ended: Executable.Ended) throws -> [String: Any] {
        #expect(ended.code == 0, "\(ended.errors)")
        return try #require(JSONSerialization.jsonObject(with: Data(ended.output.utf8)) as? [String: Any])
    }

    @Test func `is counted first, and done with --yes, once, and is in the audit`() async throws {
        try await Shop.open { shop in
            try await make(in: shop)
            let filter = ["job", "cancel", Shop.queue, "--reason", "TooManyRequests"]
            let counted = try await Executable.admin.run(filter, environment: shop.environment)
            expectFailure(
                counted, code: 1,
                saying: "this cancels 1 job for good: 1 recipient will get nothing; nothing was changed: pass --yes")
            #expect(try await shop.texts("select id::text as text from pushq.cancelled").isEmpty)

            let done = try facts(
                await Executable.admin.run(filter + ["--yes", "--json"], environment: shop.environment))
            #expect(Set(done.keys) == ["queue", "jobs", "recipients", "stopped", "held_by_workers"])
            #expect(done["jobs"] as? Int == 1 && done["stopped"] as? Int == 1)
            let cancelled = try await shop.texts(
                "select attempt::text as text from pushq.job j join pushq.cancelled c on c.id = j.id")
            #expect(cancelled == ["2"])

            let again = try facts(
                await Executable.admin.run(filter + ["--yes", "--json"], environment: shop.environment))
            #expect(again["jobs"] as? Int == 0)
            let entries = try await shop.list("audit").filter { $0["action"] as? String == "cancelled" }
            #expect(entries.count == 1 && entries.first?["object"] as? String == "job")
        }
    }

    @Test func `is for the reason, the time and the campaign that are named, and for no others`() async throws {
        try await Shop.open { shop in
            try await make(in: shop)
            func jobs(_ options: String...) async throws -> Int? {
                let ended = try await Executable.admin.run(
                    ["job", "cancel", Shop.queue, "--yes", "--json"] + options, environment: shop.environment)
                return try facts(ended)["jobs"] as? Int
            }
            #expect(try await jobs("--reason", "ServiceUnavailable") == 0)
            #expect(try await jobs("--campaign", "sale", "--reason", "TooManyRequests") == 0)
            let later = try await shop.texts(
                #"select to_char(now() + interval '1 hour', 'YYYY-MM-DD"T"HH24:MI:SSOF":00"') as text"#)
            #expect(try await jobs("--since", later[0]) == 1)
            #expect(try await jobs("--campaign", "sale") == 1)
            // The retry and the plain job; the others are already cancelled.
            #expect(try await jobs("--until", later[0]) == 2)
        }
    }

    @Test func `says what was cancelled, and how many jobs were not because others have locked them`() async throws {
        try await withDatabase { _, database in
            let shop = try await Shop(in: database)
            let send = #"select pushq.send('\#(Shop.queue)', '{"aps":{"alert":"hello"}}', array['b0'])"#
            let other = try await database.connect()
            try await other.runScript("\(send); \(send); \(send)")
            try await other.runScript("begin; select from pushq.job order by id limit 1 for update")
            let cancel = ["job", "cancel", Shop.queue, "--since", "2020-01-01T00:00:00Z", "--yes"]
            let ended = try await Executable.admin.run(cancel, environment: shop.environment)
            #expect(ended.code == 1)
            for line in ["jobs", "recipients", "stopped"] {
                #expect(try ended.output.contains(Regex("\(line) +2\n")), "\(ended.output)")
            }
            #expect(
                ended.errors.contains("1 job could not be cancelled, because other transactions hold locks"),
                "\(ended.errors)")

            try await other.runScript("rollback")
            let again = try await Executable.admin.run(cancel, environment: shop.environment)
            #expect(again.code == 0 && again.output.contains(/stopped +1\n/), "\(again)")
        }
    }

    @Test(arguments: [
        (["cancel", Shop.queue], "give JOB, or select jobs with"),
        (["cancel", Shop.queue, "--yes"], "give JOB, or select jobs with"),
        (["cancel", Shop.queue, "7", "--reason", "NoAnswer"], "JOB cannot be used together with"),
        (["cancel", Shop.queue, "--reason", "Nonsense"], "is not a reason of APNs, such as InternalServerError"),
        (
            ["cancel", Shop.queue, "--since", "2026-03-02T00:00:00Z", "--until", "2026-03-01T00:00:00Z"],
            "--since is later than --until"
        ),
    ])
    func `takes no description that describes nothing`(arguments: [String], line: String) async throws {
        let ended = try await Executable.admin.run(["job"] + arguments)
        expectFailure(ended, code: 2, saying: line)
    }
}
