import QueueCore
import TestSupport
import Testing

@testable import PostgresStore

/// Tokens that a transaction registers while a campaign fans out: their numbers are lower than that of the last device
/// of the audience, and fan-out does not see them (`migrations/functions/successors.sql`).
@Suite(.timeLimit(.minutes(10))) struct `A newer token that is registered while a campaign starts` {
    private static let name = "\(QueueFixture.name)"

    /// A queue with a campaign to the devices a1 and c1, a2 taking the place of a1 in a transaction that was begun
    /// before and is open.
    private func withCampaign(
        options: String = "", _ body: @Sendable @escaping (QueueFixture, Int64, PostgresConnection) async throws -> Void
    ) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let app = try await database.connect()
            try await queue.run("select pushq.register_device('\(Self.name)', 'a1', 'ann', installation => 'i1')")
            try await app.runScript("begin")
            try await app.runScript("select pushq.register_device('\(Self.name)', 'a2', 'ann', installation => 'i1')")
            try await queue.run("select pushq.register_device('\(Self.name)', 'c1', 'cleo', installation => 'i3')")
            try await body(queue, try await queue.startCampaign(options: options), app)
        }
    }

    /// Does what a worker does with the jobs that are due. Returns the tokens that it sends to, and the newer tokens by
    /// which others go on.
    private func sent(_ queue: QueueFixture) async throws -> (tokens: [[UInt8]], moves: [String: String]) {
        let (jobs, moves) = try await queue.claimWithSuccessors()
        try await queue.end(jobs)
        return (jobs.flatMap { job in job.deviceIDs.indices.compactMap { job.token(of: $0) } }, moves)
    }

    @Test(arguments: [
        "", ", filter => 'locale is missing'", ", holdout => 0.000001",
        ", local_time => to_char(now() at time zone 'UTC', 'HH24:MI'), default_zone => 'UTC', if_passed => 'now'",
    ])
    func `gets the push that the older one was to get`(_ options: String) async throws {
        try await withCampaign(options: options) { queue, campaign, app in
            try await queue.fanOut(campaign)
            try await app.runScript("commit")
            let first = try await sent(queue)
            #expect(first.tokens == [[0xC1]] && first.moves == ["a1": "a2"])
            let second = try await sent(queue)
            #expect(second.tokens == [[0xA2]] && second.moves == [:])
        }
    }

    @Test func `gets it once if fan-out has yet to come to it`() async throws {
        try await withCampaign { queue, campaign, app in
            try await queue.run("select pushq.fan_out_step(\(queue.id), 2, \(campaign), 1, 1, 1)")
            try await app.runScript("commit")
            let first = try await sent(queue)
            #expect(first.tokens == [] && first.moves == [:])
            try await queue.fanOut(campaign)
            let second = try await sent(queue)
            #expect(second.tokens == [[0xA2], [0xC1]] && second.moves == [:])
        }
    }
}
