import APNs
import QueueCore
import Testing

@testable import PostgresStore
@testable import Workers

@Suite struct `A held job` {
    @Test func `is sent in order, each recipient with its own token`() {
        let job = JobFixture.job(recipients: 5, inactive: [20, 40])
        #expect(job.sendAll() == [0, 2, 4])
        let tokens = JobFixture.job(recipients: 5, inactive: [20, 40]).takeTokens()
        #expect(tokens == [0: [1, 0], 2: [3, 0], 4: [5, 0]])
    }

    /// Cases for the devices 10 to 50: which of them are inactive, and which other devices are in their range.
    private static let neighbourhoods: [(inactive: Set<Int64>, strangers: Set<Int64>)] = [
        ([20], [25]), ([20, 30], [35]), ([30], [11, 12, 13, 14]), ([], [5, 15, 55]), ([10, 50], [5, 55]),
        ([10, 20, 30, 40, 50], [15, 25, 35, 45, 49]),
    ]

    @Test(arguments: neighbourhoods)
    func `sends to nobody but its own recipients, whoever else is in their range`(
        inactive: Set<Int64>, strangers: Set<Int64>
    ) {
        let job = JobFixture.job(recipients: 5, inactive: inactive, strangers: strangers)
        let reachable = (0..<5).filter { !inactive.contains(Int64($0 + 1) * 10) }
        #expect(job.outcomes.map(Outcome.init) == (0..<5).map { reachable.contains($0) ? .waiting : .suppressed })
        #expect(job.takeTokens() == Dictionary(uniqueKeysWithValues: reachable.map { ($0, [UInt8($0 + 1), 0]) }))
    }

    @Test func `suppresses devices that are inactive when its turn comes`() {
        let job = JobFixture.job(recipients: 3, inactive: [10, 20, 30])
        #expect(job.isFinished)
        #expect(job.outcomes == [UInt8](repeating: Outcome.suppressed.rawValue, count: 3))
    }

    @Test func `ends as cancelled if it was, whatever became of its devices`() {
        let job = JobFixture.job(recipients: 3, inactive: [10, 30], isCancelled: true)
        job.close(.cancelled)
        job.endWaitingAsClosed()
        #expect(job.outcomes.allSatisfy { $0 == Outcome.cancelled.rawValue })
    }

    /// A push to a token that was replaced while it waited was called one to an inactive device.
    @Test func `ends those who are inactive as expired where the time to send has passed`() {
        let job = JobFixture.job(recipients: 2, inactive: [10], sendWithin: .zero)
        job.close(.expired)
        job.endWaitingAsClosed()
        #expect(job.outcomes == [Outcome.expired.rawValue, Outcome.expired.rawValue])
    }

    @Test func `has nobody left to send to once the others are in flight, though its last devices are inactive`() {
        let job = JobFixture.job(recipients: 4, inactive: [30, 40])
        #expect(job.unsent == 2)
        for count in [1, 0] {
            #expect(job.isSendable)
            #expect(job.takeRecipient() != nil)
            job.noteSent()
            #expect(job.unsent == count)
        }
        #expect(!job.isSendable)
    }

    @Test func `sends again in the order of the first time`() {
        let job = JobFixture.job(recipients: 7)
        #expect(job.sendAll() == [0, 1, 2, 3, 4, 5, 6])
        for ordinal in [3, 4, 5, 6] { AnswerRules.untouched(ordinal, of: job) }
        #expect(job.sendAll() == [3, 4, 5, 6])
    }

    @Test func `finds the token again of a recipient that is sent to again`() {
        let job = JobFixture.job(recipients: 200, inactive: [500, 990], strangers: [505, 1005, 1995])
        _ = job.sendAll()
        for ordinal in [199, 0, 50, 97, 99] {
            job.noteEnded()
            AnswerRules.untouched(ordinal, of: job)
        }
        #expect(job.takeTokens() == [199: [200, 0], 0: [1, 0], 50: [51, 0], 97: [98, 0], 99: [100, 0]])
    }

    @Test func `does not send again to whom an earlier holder has had an answer for`() {
        let job = JobFixture.job(recipients: 4, previousWatermark: 4, outcomes: [1, 0, 67, 0])
        #expect(job.waiting == 2)
        #expect(job.sendAll() == [1, 3])
    }

    @Test func `at most once stops at the committed watermark`() {
        let job = JobFixture.job(recipients: 10, isAtMostOnce: true, window: 4)
        #expect(job.sendAll() == [0, 1, 2, 3])
        #expect(job.awaitsWatermark)
        let watermark = job.nextWatermark(window: 4)
        #expect(watermark == 8)
        job.watermark = watermark
        #expect(job.sendAll() == [4, 5, 6, 7])
    }

    @Test func `flushes what goes on in another job as waiting, so that it is not lost with this worker`() {
        let job = JobFixture.job(recipients: 2)
        _ = job.sendAll()
        job.accept(0)
        job.noteEnded()
        _ = AnswerRules.refused(
            1, of: job, in: JobFixture.queue(), .init(status: 503, text: "ServiceUnavailable"),
            .init(sentAt: .now, now: .now))
        #expect(Outcome(rawValue: job.outcomes[1]).kind == .retried)
        #expect(job.progress(watermark: 2).outcomes == [Outcome.delivered.rawValue, 0])
        #expect(!job.canBeYielded)
    }

    @Test func `lowers its watermark when it goes back with nothing in flight`() {
        let job = JobFixture.job(recipients: 5)
        for _ in 0..<3 {
            _ = job.takeRecipient()
            job.noteSent()
        }
        for ordinal in 0..<3 { job.accept(ordinal) }
        #expect(job.yielded(after: .zero).progress.watermark == 3)
        #expect(job.yielded(after: .zero).addedLosses == 0)
    }

    @Test func `goes back whole with its losses, if all who wait were lost as often`() {
        let job = JobFixture.job(recipients: 5)
        _ = job.sendAll()
        for ordinal in 0..<5 where ordinal != 2 { job.accept(ordinal) }
        job.noteEnded()
        AnswerRules.unanswered(2, of: job)
        #expect(job.canBeYielded)
        let back = job.yielded(after: .zero)
        #expect(back.progress.watermark == 2)
        #expect(back.addedLosses == 1)
    }

    /// An outcome of a lease has no place for losses. If its worker is lost, the next one must not take the recipient
    /// for one that got nothing.
    @Test func `is not known to have failed before its end where the push may have arrived`() {
        for (losses, isLost) in [(0, false), (0, true), (1, false)] {
            let job = JobFixture.job(recipients: 3, losses: losses)
            _ = job.sendAll()
            if isLost { _ = job.countLoss(of: 1) }
            job.record(.failed(.otherTransient), for: 1)
            job.accept(0)
            job.noteEnded()
            let isInDoubt = losses > 0 || isLost
            let known = isInDoubt ? 0 : Outcome.failed(.otherTransient).rawValue
            #expect(job.progress(watermark: 3).outcomes == [Outcome.delivered.rawValue, known, 0])
            let handOver = job.handOver(in: JobFixture.queue(), watermark: 3) { _ in .zero }
            #expect(handOver.progress.outcomes[1] == known)
            #expect(job.canBeYielded == !isInDoubt)
            #expect(Outcome(rawValue: job.outcomes[1]).kind == .failed)
        }
    }

    /// They count when the job ends. If it went back, they would count after the campaign was resumed.
    @Test(arguments: [(nil, true), (5, false)] as [(Int64?, Bool)])
    func `does not go back with bad answers that count against its campaign`(campaign: Int64?, goesBack: Bool) {
        let job = JobFixture.job(recipients: 3, judgedCampaign: campaign)
        _ = job.takeRecipient()
        job.noteSent()
        job.record(.failed(.otherTransient), for: 0)
        job.noteEnded()
        #expect(job.canBeYielded == goesBack)
    }

    @Test func `does not go back with the losses of one recipient for the others`() {
        let job = JobFixture.job(recipients: 3)
        let taken = job.takeRecipient()?.ordinal
        job.noteSent()
        job.noteEnded()
        AnswerRules.unanswered(0, of: job)
        #expect(taken == 0 && !job.canBeYielded)
        job.splitWaiting(after: .zero)
        #expect(job.retries.map(\.losses) == [1, 0, 0])
    }

    @Test func `sends a push that was lost behind those that were not sent`() {
        let job = JobFixture.job(recipients: 3)
        _ = job.takeRecipient()
        job.noteSent()
        job.noteEnded()
        AnswerRules.unanswered(0, of: job)
        #expect(job.nextRecipient == 1)
        #expect(job.sendAll() == [1, 2, 0])
    }

    @Test func `ends with how often each recipient was sent to without an answer`() {
        let calm = JobFixture.job(recipients: 2)
        _ = calm.sendAll()
        for ordinal in 0..<2 { calm.accept(ordinal) }
        #expect(calm.settled { _ in .zero }.losses == nil)
        let job = JobFixture.job(recipients: 3, losses: 1)
        _ = job.sendAll()
        job.noteEnded()
        AnswerRules.unanswered(1, of: job)
        #expect(job.settled { _ in .zero }.losses == [1, 2, 1])
        let once = JobFixture.job(recipients: 1, isAtMostOnce: true, losses: 1)
        _ = once.sendAll()
        once.accept(0)
        #expect(once.settled { _ in .zero }.losses == nil)
    }

    @Test(arguments: [
        (HeldJob.Closing.expired, Outcome.expired), (.cancelled, .cancelled),
        (.refused(.payloadTooLarge), .rejected(.payloadTooLarge)),
    ])
    func `that is closed ends recipients not sent to by the reason of closing, and others as unknown`(
        closing: HeldJob.Closing, outcome: Outcome
    ) {
        let job = JobFixture.job(recipients: 4, previousWatermark: 2, outcomes: [1, 0, 0, 0])
        job.close(closing)
        #expect(job.sendAll().isEmpty)
        job.endWaitingAsClosed()
        #expect(job.outcomes.map(Outcome.init) == [.delivered, .unknown, outcome, outcome])
    }

    @Test(arguments: [HeldJob.Closing.expired, .cancelled])
    func `ends as unknown whom a worker that was lost may have sent to, also after it was given back or split`(
        closing: HeldJob.Closing
    ) {
        // The watermark was lowered when the job was given back, or the job is one half of a split job.
        let job = JobFixture.job(recipients: 3, inactive: [20], previousWatermark: 0, outcomes: [1, 0, 0], losses: 2)
        job.close(closing)
        job.endWaitingAsClosed()
        #expect(job.outcomes.map(Outcome.init) == [.delivered, .unknown, .unknown])
        // For at-most-once jobs, the claim has already recorded uncertain recipients as unknown.
        let once = JobFixture.job(recipients: 2, isAtMostOnce: true, losses: 1)
        once.close(.cancelled)
        once.endWaitingAsClosed()
        #expect(once.outcomes.map(Outcome.init) == [.cancelled, .cancelled])
    }

    @Test func `keeps the text of a reason in a form that PostgreSQL takes`() {
        let job = JobFixture.job(recipients: 1)
        _ = job.sendAll()
        job.noteEnded()
        _ = AnswerRules.refused(
            0, of: job, in: JobFixture.queue(), .init(status: 400, text: "a\0b\"c"), .init(sentAt: .now, now: .now))
        #expect(job.settled { $0.atLeast }.notes == #"{"0":"a\u{FFFD}b\"c"}"#.replacing(#"\u{FFFD}"#, with: "\u{FFFD}"))
    }

    @Test func `that is lost stays lost`() {
        let job = JobFixture.job(recipients: 2)
        job.close(.lost)
        job.close(.expired)
        #expect(job.closing == .lost)
        #expect(job.takeRecipient() == nil)
        let other = JobFixture.job(recipients: 2)
        other.close(.expired)
        other.close(.lost)
        #expect(other.closing == .lost)
    }
}

@Suite struct `A job that workers were lost with` {
    @Test func `is unknown where it may have been sent, if it must not be sent twice`() {
        let job = JobFixture.job(recipients: 4, isAtMostOnce: true, previousWatermark: 2, losses: 1)
        RescuedJobRules.apply(to: job)
        #expect(job.outcomes.map(Outcome.init) == [.unknown, .unknown, .waiting, .waiting])
    }

    @Test func `is sent again else`() {
        let job = JobFixture.job(recipients: 4, previousWatermark: 4, losses: 1)
        RescuedJobRules.apply(to: job)
        #expect(job.sendAll() == [0, 1, 2, 3])
    }

    @Test func `is split in two the second time`() {
        let job = JobFixture.job(recipients: 5, previousWatermark: 5, outcomes: [1, 0, 0, 0, 0], losses: 2)
        RescuedJobRules.apply(to: job)
        #expect(job.isFinished)
        let groups = Dictionary(grouping: job.retries, by: \.group).mapValues { $0.map(\.deviceID) }
        #expect(groups == [0: [20, 30], 1: [40, 50]])
        #expect(job.retries.allSatisfy { $0.attempts == 0 })
    }

    @Test func `is left alone while nobody has begun it`() {
        let job = JobFixture.job(recipients: 4, losses: 3)
        RescuedJobRules.apply(to: job)
        #expect(job.sendAll().count == 4)
    }

    @Test func `is quarantined in the end, if it is but one recipient`() {
        let job = JobFixture.job(recipients: 1, previousWatermark: 1, losses: 5)
        RescuedJobRules.apply(to: job)
        #expect(job.outcomes.map(Outcome.init) == [.failed(.quarantined)])
    }

    @Test func `takes up what answers to an earlier holder said of devices, which only the end of a job writes`() {
        let outcomes = [
            Outcome.rejected(.unregistered), .delivered, .rejected(.named("BadDeviceToken")), .waiting,
            .rejected(.payloadTooLarge), .failed(.named("InternalServerError")),
        ].map(\.rawValue)
        let job = JobFixture.job(recipients: 6, outcomes: outcomes, losses: 1, madeAt: 4711)
        #expect(job.reports.map(\.deviceID) == [10, 30])
        #expect(job.reports.map(\.reason.text) == ["Unregistered", "BadDeviceToken"])
        #expect(job.reports.map(\.reportedAt) == [4711, 4711], "nobody knows more than that nothing was sent before")
        #expect(!job.canBeYielded)

        let gone = JobFixture.job(
            recipients: 1, outcomes: [Outcome.rejected(.named("ChannelNotRegistered")).rawValue], isBroadcast: true)
        #expect(gone.settled { _ in .zero }.channelReport?.channelID == 10)
        #expect(gone.reports.isEmpty)
    }
}
