import QueueCore
import Testing

@testable import PostgresStore
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

    /// It used to be suppressed in the evening, although the attribute was known in the morning.
    @Test func `goes on also if it lacks an attribute, unless it cannot wait`() {
        let message = PersonalMessage(
            versions: [Array(#"{"aps":{"alert":"Hi {{name}}"}}"#.utf8)], attributes: ["name"], hasPlaceholders: true,
            raisesBadge: false)
        let personal = PersonalPayloads(
            of: message, recipients: [10, 20, 30], profiles: [], versionOfProfile: [], values: [])
        let job = JobFixture.job(recipients: 3, quietHolds: holds, personal: personal)
        let outcomes = job.outcomes.map { Outcome(rawValue: $0) }
        #expect(outcomes == [.retried(.quietHours), .lacksAttribute, .lacksAttribute])
        #expect(job.retries.map(\.quietUntil) == [1_800_000_000_000_000])

        let once = JobFixture.job(
            recipients: 3, isAtMostOnce: true, previousWatermark: 1, losses: 1, quietHolds: holds, personal: personal)
        #expect(Outcome(rawValue: once.outcomes[0]) == .unknown && once.retries.isEmpty)
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
