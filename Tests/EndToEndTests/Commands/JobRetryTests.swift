import Foundation
import QueueCore
import TestSupport
import Testing

/// Retries jobs with failed recipients that are selected by common properties.
@Suite(.timeLimit(.minutes(10))) struct `Sending again to failed jobs` {
    /// Creates three jobs: two sends that failed an hour ago without an answer, and one that failed today with a server
    /// error.
    private func fail(in shop: Shop) async throws {
        try await shop.run(
            """
            select pushq.register_device('\(Shop.queue)', '\(String(repeating: "b0", count: 32))', 'anna');
            select pushq.send('\(Shop.queue)', '{"aps":{"alert":"hello"}}', user_key => 'anna') from generate_series(1, 3);
            insert into pushq.result (day, queue_id, job_id, root_id, body_day, message_id, lane, attempt, ended_at, outcomes,
                                      delivered, rejected, failed, suppressed, expired, cancelled, unknown, retried)
            select body_day, queue_id, id, root_id, body_day, message_id, lane, 10,
                   now() - case when n < 3 then interval '1 hour' else '0' end,
                   set_byte('\\x00', 0, 128 + case when n < 3 then \(code(of: "NoAnswer")) else \(code(of: "InternalServerError")) end),
                   0, 0, 1, 0, 0, 0, 0, 0
            from (select *, row_number() over (order by id) as n from pushq.job) j;
            delete from pushq.job
            """)
    }

    private func code(of reason: String) -> Int { Int(Reason.named(reason).code) }

    private func waiting(_ shop: Shop) async throws -> [String] {
        try await shop.texts("select count(*)::text as text from pushq.job")
    }

    @Test func `is counted first, and done with --yes, once`() async throws {
        try await Shop.open { shop in
            try await fail(in: shop)
            let filter = ["job", "retry", Shop.queue, "--reason", "NoAnswer"]
            let counted = try await Executable.admin.run(filter, environment: shop.environment)
            expectFailure(
                counted, code: 1,
                saying: "sends again to 2 failed recipients in 2 jobs; nothing was changed: pass --yes")
            #expect(try await waiting(shop) == ["0"])

            let done = try await Executable.admin.run(filter + ["--yes", "--json"], environment: shop.environment)
            #expect(done.code == 0, "\(done.errors)")
            let facts = try #require(JSONSerialization.jsonObject(with: Data(done.output.utf8)) as? [String: Any])
            #expect(Set(facts.keys) == ["queue", "jobs", "recipients", "sent_again", "refused_jobs"])
            #expect(facts["sent_again"] as? Int == 2)
            #expect(try await waiting(shop) == ["2"])

            let again = try await Executable.admin.run(filter + ["--yes", "--json"], environment: shop.environment)
            #expect(again.code == 0 && again.output.contains(#""jobs":0"#), "\(again.output)")
            let entries = try await shop.list("audit").filter { $0["action"] as? String == "sent again" }
            #expect(entries.count == 2)
        }
    }

    @Test func `is for the time and the campaign that are named, and for no others`() async throws {
        try await Shop.open { shop in
            try await fail(in: shop)
            let since = try await shop.texts(
                #"select to_char(now() - interval '30 min', 'YYYY-MM-DD"T"HH24:MI:SSOF":00"') as text"#)
            let listed = try await shop.list("job", "list", Shop.queue, "--failed", "--since", since[0])
            #expect(listed.map { $0["reasons"] as? String } == ["InternalServerError 1"])
            try await shop.run(
                #"select pushq.start_campaign('\#(Shop.queue)', 'sale', '{"aps":{"alert":"x"}}')"#)
            let none = try await shop.admin("job", "retry", Shop.queue, "--campaign", "sale", "--yes")
            #expect(none.code == 0 && none.output.contains("sent again    0"), "\(none.output)")
            let done = try await shop.admin("job", "retry", Shop.queue, "--since", since[0], "--yes")
            #expect(done.code == 0 && done.output.contains("sent again    1"), "\(done.output)")
        }
    }

    @Test func `says how many cannot be sent again, and why`() async throws {
        try await Shop.open { shop in
            try await fail(in: shop)
            try await shop.run("update pushq.message set expiration = 1000")
            let ended = try await shop.admin("job", "retry", Shop.queue, "--reason", "NoAnswer", "--yes")
            #expect(ended.code == 1)
            #expect(ended.errors.contains("2 jobs cannot be sent again, such as: the message expired at"))
            #expect(try await waiting(shop) == ["0"])
        }
    }

    @Test(arguments: [
        (["retry", Shop.queue], "give JOB, or select jobs with"),
        (["retry", Shop.queue, "7", "--reason", "NoAnswer"], "JOB cannot be used together with"),
        (["retry", Shop.queue, "--reason", "Nonsense"], "is not a reason of APNs, such as InternalServerError"),
        (
            ["retry", Shop.queue, "--since", "2026-03-02T00:00:00Z", "--until", "2026-03-01T00:00:00Z"],
            "--since is later than --until"
        ),
        (["list", "--reason", "NoAnswer"], "need --failed"),
    ])
    func `takes no description that describes nothing`(arguments: [String], line: String) async throws {
        let ended = try await Executable.admin.run(["job"] + arguments)
        expectFailure(ended, code: 2, saying: line)
    }
}
