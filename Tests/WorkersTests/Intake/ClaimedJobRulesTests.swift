import PostgresStore
import QueueCore
import Testing

@testable import Workers

/// The reasons why a claimed job is not sent, in the order of their precedence.
enum ClaimObstacle: CaseIterable {
    case damage, cancelled, expired, ended, pausedCampaign, idleQueue, unreachableHost

    var fate: ClaimedJobRules.Fate {
        switch self {
        case .damage: .quarantine(damage: "the job is for 3 recipients, but its body has 2")
        case .cancelled: .close(.cancelled)
        case .expired: .close(.expired)
        case .ended: .end
        case .pausedCampaign: .close(.yielded(after: Settlement.pausedDelay))
        case .idleQueue: .close(.yielded(after: .zero))
        case .unreachableHost: .close(.yielded(after: .seconds(7)))
        }
    }
}

@Suite struct `What becomes of a claimed job` {
    private func fate(despite obstacles: Set<ClaimObstacle>) -> ClaimedJobRules.Fate {
        let job = JobFixture.job(
            recipients: 2, outcomes: obstacles.contains(.ended) ? [1, 1] : [1, 0],
            isCancelled: obstacles.contains(.cancelled), isPaused: obstacles.contains(.pausedCampaign),
            statedCount: obstacles.contains(.damage) ? 3 : nil,
            sendWithin: obstacles.contains(.expired) ? .zero : .seconds(60))
        return ClaimedJobRules.decide(
            over: job,
            .init(
                maySend: !obstacles.contains(.idleQueue),
                delay: obstacles.contains(.unreachableHost) ? .seconds(7) : nil))
    }

    @Test func `is that it is sent if nothing is in the way`() {
        #expect(fate(despite: []) == .send)
    }

    @Test(arguments: ClaimObstacle.allCases)
    func `follows from the only thing that is in the way`(obstacle: ClaimObstacle) {
        #expect(fate(despite: [obstacle]) == obstacle.fate)
    }

    @Test func `follows from what counts most, whatever else is in the way`() {
        for bits in 1..<(1 << ClaimObstacle.allCases.count) {
            let obstacles = ClaimObstacle.allCases.enumerated().filter { bits & 1 << $0.offset != 0 }.map(\.element)
            let first = obstacles.first { $0 != .expired || !obstacles.contains(.pausedCampaign) }
            #expect(fate(despite: Set(obstacles)) == first?.fate, "\(obstacles)")
        }
    }

    @Test
    func `is its end if earlier workers were lost with it and nobody is left to send to, also while it is paused`() {
        for time in [Duration.seconds(60), .zero] {
            let uncertain = JobFixture.job(
                recipients: 2, isAtMostOnce: true, previousWatermark: 2, losses: 1, isPaused: true, sendWithin: time)
            #expect(ClaimedJobRules.decide(over: uncertain, .init()) == .end)
            #expect(uncertain.outcomes.map(Outcome.init) == [.unknown, .unknown])
        }

        let split = JobFixture.job(recipients: 2, previousWatermark: 2, losses: 2)
        #expect(ClaimedJobRules.decide(over: split, .init(maySend: false)) == .end)
        #expect(split.retries.map(\.deviceID) == [10, 20])
    }

    @Test func `is that it waits while its campaign is paused, also if no device of it is active now`() {
        let devices: Set<Int64> = [10, 20]
        let paused = JobFixture.job(recipients: 2, inactive: devices, isPaused: true)
        #expect(ClaimedJobRules.decide(over: paused, .init()) == .close(.yielded(after: Settlement.pausedDelay)))
        #expect(paused.outcomes == [0, 0])

        let open = JobFixture.job(recipients: 2, inactive: devices)
        #expect(ClaimedJobRules.decide(over: open, .init()) == .end)
        #expect(open.outcomes.map(Outcome.init) == [.suppressed, .suppressed])
    }

    @Test func `is not to be split if it was cancelled or has expired`() {
        for (isCancelled, time) in [(true, Duration.seconds(60)), (false, .zero)] {
            let job = JobFixture.job(
                recipients: 2, previousWatermark: 2, losses: 2, isCancelled: isCancelled, sendWithin: time)
            #expect(ClaimedJobRules.decide(over: job, .init()) == .close(isCancelled ? .cancelled : .expired))
            #expect(job.retries.isEmpty)
            #expect(job.waiting == 2)
        }
    }
}
