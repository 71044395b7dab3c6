import PostgresStore
import QueueCore
import Testing

@testable import Workers

@Suite struct `A job that was lost before` {
    /// A job whose recipients were lost this often, as a worker that lives gives it back: the first is delivered.
    @Test(arguments: 1...7) func `by answers that did not come is neither split nor quarantined`(losses: Int) {
        for recipients in [2, 5] {
            let outcomes = [Outcome.delivered.rawValue] + [UInt8](repeating: 0, count: recipients - 1)
            let job = JobFixture.job(
                recipients: recipients, previousWatermark: 1, outcomes: outcomes, losses: losses)
            RescuedJobRules.apply(to: job)
            #expect(job.waiting == recipients - 1 && job.retries.isEmpty)
        }
    }

    @Test func `with its worker is split, and at last quarantined`() {
        let one = JobFixture.job(recipients: 1, previousWatermark: 1, losses: EngineSettings.maximumLosses)
        RescuedJobRules.apply(to: one)
        #expect(one.outcomes == [Outcome.failed(.quarantined).rawValue])
        let young = JobFixture.job(recipients: 4, previousWatermark: 4, losses: 1)
        RescuedJobRules.apply(to: young)
        #expect(young.waiting == 4)
    }

    /// A split takes back the loss of the last worker alone. The others may be answers that did not come.
    @Test(arguments: [(2, 2), (3, 2), (4, 3), (5, 4)])
    func `keeps its earlier losses when it is split`(losses: Int, kept: Int) {
        let job = JobFixture.job(recipients: 4, previousWatermark: 4, losses: losses)
        RescuedJobRules.apply(to: job)
        #expect(job.retries.map { losses + $0.losses } == [kept, kept, kept, kept])
        #expect(job.retries.map(\.group) == [0, 0, 1, 1])
        #expect(job.outcomes.allSatisfy { Outcome(rawValue: $0).reason == .givenBack })
    }
}
