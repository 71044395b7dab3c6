import PostgresStore
import QueueCore
import Testing

@testable import Workers

/// How a job handles recipients that have quiet hours.
@Suite struct `A recipient who has quiet hours` {
    private let holds: [Int64: QuietHold] = [10: .until(1_800_000_000_000_000), 20: .forGood]

    @Test func `goes on in a job that is due after them, or is not sent to, and costs no attempt`() {
        let job = JobFixture.job(recipients: 3, quietHolds: holds)
        #expect(job.takeTokens().keys.sorted() == [2])
        #expect(job.outcomes[0] == Outcome.retried(.quietHours).rawValue)
        #expect(job.outcomes[1] == Outcome.tooLate.rawValue)
        job.record(.delivered, for: 2)
        let settled = job.settled { $0.atLeast }
        #expect(settled.again.map(\.deviceID) == [10])
        #expect(settled.again.map(\.quietUntil) == [1_800_000_000_000_000])
        #expect(settled.again.map(\.attempts) == [0])
    }

    @Test func `has an unknown outcome where a lost worker may have sent it, and it cannot wait`() {
        let job = JobFixture.job(recipients: 2, previousWatermark: 2, losses: 1, quietHolds: holds)
        #expect(job.outcomes[0] == Outcome.retried(.quietHours).rawValue)
        #expect(job.outcomes[1] == Outcome.unknown.rawValue)
    }

    /// The recipient would be sent to twice: the job in which it continued would not know of the first push.
    @Test func `does not go on where it may have been sent and must not be sent twice`() {
        let job = JobFixture.job(recipients: 2, isAtMostOnce: true, previousWatermark: 2, losses: 1, quietHolds: holds)
        _ = ClaimedJobRules.decide(over: job, .init())
        #expect(job.outcomes == [Outcome.unknown.rawValue, Outcome.unknown.rawValue])
        #expect(job.retries.isEmpty)
    }

    @Test(arguments: [
        (PushType.alert, Lane.bulk, Bool?.none, true, false, true), (.alert, .bulk, nil, false, false, false),
        (.alert, .bulk, true, false, false, true), (.alert, .bulk, false, true, false, false),
        (.alert, .urgent, nil, true, false, false), (.alert, .urgent, nil, true, true, true),
        (.background, .bulk, nil, true, true, false), (.liveactivity, .bulk, nil, true, true, false),
    ])
    func `is asked about where they are for the push`(
        type: PushType, lane: Lane, hasOwn: Bool?, areSet: Bool, includesUrgent: Bool, isAsked: Bool
    ) {
        let rule = QuietRule(areSet: areSet, includesUrgent: includesUrgent)
        #expect(rule.includes(type, in: lane, hasOwn: hasOwn) == isAsked)
    }
}
