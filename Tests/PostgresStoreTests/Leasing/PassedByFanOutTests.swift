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

    /// The tokens of jobs as a worker claims them, and how many of their recipients go on by a newer token.
    private func claimed(_ queue: QueueFixture) async throws -> (tokens: Set<[UInt8]>, moves: Int) {
        let jobs = try await queue.worker.withSuccessors(try await queue.claim(lane: .bulk), workerID: 1)
        let tokens = jobs.flatMap { job in job.deviceIDs.indices.compactMap { job.token(of: $0) } }
        #expect(Set(tokens).count == tokens.count)
        for job in jobs {
            let moves = job.deviceIDs.enumerated().compactMap { ordinal, device in
                job.successors[device].map {
                    ContinuingRecipient(ordinal: ordinal, deviceID: $0, delay: .zero, attempts: 0, losses: 0)
                }
            }
            let back = Dictionary(uniqueKeysWithValues: moves.map { ($0.ordinal, Outcome.retried(.givenBack)) })
            let settled = queue.settled(job, other: back, again: moves)
            #expect(try await queue.worker.endJobs([settled], workerID: 1).keys.count == 1)
        }
        return (Set(tokens.map { Array($0) }), jobs.map(\.successors.count).reduce(0, +))
    }

    @Test(arguments: [
        "", ", filter => 'locale is missing'", ", holdout => 0.000001",
        ", local_time => to_char(now() at time zone 'UTC', 'HH24:MI'), default_zone => 'UTC', if_passed => 'now'",
    ])
    func `gets the push that the older one was to get`(_ options: String) async throws {
        try await withCampaign(options: options) { queue, campaign, app in
            try await queue.fanOut(campaign)
            try await app.runScript("commit")
            let first = try await claimed(queue)
            #expect(first.tokens == [[0xC1]] && first.moves == 1)
            let second = try await claimed(queue)
            #expect(second.tokens == [[0xA2]] && second.moves == 0)
        }
    }

    @Test func `gets it once if fan-out has yet to come to it`() async throws {
        try await withCampaign { queue, campaign, app in
            try await queue.run("select pushq.fan_out_step(\(queue.id), 2, \(campaign), 1, 1, 1)")
            try await app.runScript("commit")
            let first = try await claimed(queue)
            #expect(first.tokens == [] && first.moves == 0)
            try await queue.fanOut(campaign)
            let second = try await claimed(queue)
            #expect(second.tokens == [[0xA2], [0xC1]] && second.moves == 0)
        }
    }
}
