import QueueCore
import TestSupport
import Testing

/// What PostgreSQL grants of a common room, against the rule by which workers share theirs.
@Suite(.timeLimit(.minutes(10))) struct `Permits of a common room` {
    @Test func `are as many as a contender of a room gets`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            for (free, held, share) in [0, 1, 2, 7, 50, 999].flatMap({ free in
                [0, 1, 3, 40, 5000].flatMap { held in [0.001, 0.25, 1.0].map { (free, held, $0) } }
            }) {
                let granted = try await queue.number("select pushq.permits_of_room(\(free), \(held), \(share))")
                let more = SharedRoom.more(having: held, free: free, weight: share, heaviest: 1)
                #expect(granted == max(0, min(free, more)), "free \(free), held \(held), share \(share)")
            }
        }
    }
}
