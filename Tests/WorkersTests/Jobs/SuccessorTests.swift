import PostgresStore
import QueueCore
import Testing

@testable import Workers

/// How a job handles recipients whose token was replaced by a newer one.
@Suite struct `A recipient with a newer token` {
    @Test func `goes on by that at once, and costs no attempt`() {
        let job = JobFixture.job(recipients: 3, inactive: [10, 20], successors: [20: 99])
        #expect(job.takeTokens().keys.sorted() == [2])
        #expect(job.outcomes[0] == Outcome.suppressed.rawValue)
        #expect(job.outcomes[1] == Outcome.retried(.givenBack).rawValue)
        job.record(.delivered, for: 2)
        let settled = job.settled { $0.atLeast }
        #expect(settled.again.map(\.deviceID) == [99])
        #expect(settled.again.map(\.delay) == [.zero] && settled.again.map(\.attempts) == [0])
    }

    /// The claim did not ask for its newer token.
    @Test func `keeps its place in a job that is paused, or that goes to another lane first`() {
        for job in [
            JobFixture.job(recipients: 2, inactive: [20], isPaused: true),
            JobFixture.job(recipients: 2, inactive: [20], isElsewhere: true),
        ] {
            #expect(job.outcomes == [0, 0] && job.retries.isEmpty)
        }
    }

    @Test func `has an unknown outcome where it may have been sent by the older one`() {
        let job = JobFixture.job(recipients: 2, inactive: [20], previousWatermark: 2, losses: 1, successors: [20: 99])
        #expect(job.outcomes[1] == Outcome.unknown.rawValue && job.retries.isEmpty)
    }
}
