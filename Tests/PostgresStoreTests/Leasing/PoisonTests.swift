import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

/// PostgreSQL 15 has infinite times but cannot subtract them. A job with such a time would fail the claim of every
/// worker that reads it.
@Suite(.timeLimit(.minutes(10))) struct `A time that is none` {
    private static let queue = QueueFixture.name
    private static let payload = #"'{"aps":{"alert":"x"}}'"#

    @Test(arguments: ["infinity", "-infinity", "10000-01-01", "294276-12-31"], ["run_at", "send_by", "start_at"])
    func `is refused, since it would stop every worker`(time: String, argument: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            let calls =
                argument == "run_at"
                ? ["send('\(Self.queue)', \(Self.payload), array['ab'], run_at => '\(time)')"]
                : argument == "start_at"
                    ? ["start_campaign('\(Self.queue)', 'k', \(Self.payload), start_at => '\(time)')"]
                    : [
                        "send('\(Self.queue)', \(Self.payload), array['ab'], send_by => '\(time)')",
                        "start_campaign('\(Self.queue)', 'k', \(Self.payload), send_by => '\(time)')",
                        "start_campaign('\(Self.queue)', 'k', \(Self.payload), array['ab'], send_by => '\(time)')",
                        "broadcast('\(Self.queue)', 'c', \(Self.payload), 0, send_by => '\(time)')",
                    ]
            for call in calls {
                await #expect {
                    try await queue.run("select pushq.\(call)")
                } throws: { error in
                    if case PostgresError.raised(let message, _) = error { return message.contains(argument) }
                    return false
                }
            }
            _ = try await queue.worker.ready(pairs: 1000, countingTo: 10)
            #expect(try await queue.claim(lane: .normal).isEmpty)
        }
    }

    @Test func `is not taken by the tables either, whoever writes them`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            try await queue.run("select pushq.send('\(Self.queue)', \(Self.payload), array['ab'])")
            _ = try await queue.startCampaign()
            for change in [
                "job set send_by = 'infinity'", "job set run_at = '-infinity'", "fan_out set start_at = 'infinity'",
                "fan_out set send_by = '-infinity'",
            ] {
                await #expect(throws: PostgresError.self) { try await queue.run("update pushq.\(change)") }
            }
        }
    }
}

@Suite(.timeLimit(.minutes(10))) struct `A payload that is null` {
    /// Such a payload used to be read without end, and took a core and memory until PostgreSQL ran out.
    @Test(arguments: [
        "start_campaign(q, 'k', null)", "start_campaign(q, 'k', null, array['ab'])", "preview_message(q, null)",
    ])
    func `is refused at once`(call: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            await #expect {
                try await queue.run(
                    "set statement_timeout = '20s'; select pushq.\(call.replacing("(q", with: "('\(QueueFixture.name)'"))"
                )
            } throws: { error in
                if case PostgresError.raised(let message, _) = error { return message.contains("payload") }
                return false
            }
        }
    }
}

@Suite(.timeLimit(.minutes(10))) struct `A job that lacks a row` {
    @Test func `or has an outcome that is none is claimed as damaged`() async throws {
        #expect(
            try await damage(byOutcome: "20") == "the job has an outcome 32, which this version does not know")
    }

    @Test(arguments: ["0a", "1f"])
    func `is not the same as one with an outcome that only a newer version knows`(outcome: String) async throws {
        #expect(try await damage(byOutcome: outcome) == nil)
    }

    /// What a claim calls damaged in a job of two recipients, the second of which has this outcome.
    private func damage(byOutcome outcome: String) async throws -> String? {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 2)
            try await queue.fanOut(try await queue.startCampaign(key: "k"))
            try await queue.run(#"update pushq.job set outcomes = '\x00\#(outcome)'"#)
            return try #require(try await queue.claim().first).damage
        }
    }

    @Test(arguments: ["message", "body"])
    func `is claimed as damaged, so that its holder can end it`(table: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let payload = #"'{"aps":{"alert":"x"}}'"#
            try await queue.run(
                "select pushq.send('\(QueueFixture.name)', \(payload), array['aa', 'bb']); delete from pushq.\(table)")
            let job = try #require(try await queue.claim(lane: .normal).first)
            #expect(job.damage == "the job's \(table) is missing")
            #expect(job.recipientCount == 2)
            let end = SettledJob(
                key: job.key, outcomes: [UInt8](repeating: Outcome.failed(.quarantined).rawValue, count: 2), again: [],
                reports: [], notes: nil)
            #expect(try await queue.worker.endJobs([end], workerID: 1).keys == [job.key])
            #expect(try await queue.number("select failed from pushq.result") == 2)
        }
    }
}
