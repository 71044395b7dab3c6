import PostgresStore
import QueueCore
import Testing

@testable import Workers

/// The news that a job reports for its queue's frequency cap when it ends or is given back.
@Suite struct `The news for a frequency cap` {
    /// The news that are certain.
    private func news(_ settled: [CapNews]) -> [Int64: Bool] {
        Dictionary(
            uniqueKeysWithValues: settled.compactMap { one in one.hasArrived.map { (one.deviceID, $0) } })
    }

    private func asked(_ held: [Int64: CapHold] = [:], isWhole: Bool = true) -> CapAnswer {
        var answer = CapAnswer(isWhole: isWhole)
        answer.wasAsked = true
        answer.held = held
        return answer
    }

    /// A place may be open since the recipient's job before, and a job asks about some of its recipients only.
    @Test func `is who got nothing, and who may have got something although the job has no answer`() {
        let job = JobFixture.job(recipients: 6, inactive: [60], capAnswer: asked())
        #expect(job.sendAll() == [0, 1, 2, 3, 4])
        job.record(.delivered, for: 0)
        job.record(.rejected(.unregistered), for: 1)
        job.record(.failed(.otherTransient), for: 2)
        _ = job.countLoss(of: 3)
        job.record(.failed(.otherTransient), for: 3)
        job.record(.unknown, for: 4)
        for _ in 0..<5 { job.noteEnded() }
        #expect(
            news(job.settled { _ in .zero }.capNews) == [20: false, 30: false, 40: true, 50: true, 60: false])
    }

    @Test func `is also who got it, and who waits, when it goes back`() {
        let job = JobFixture.job(recipients: 4, capAnswer: asked())
        for _ in 0..<3 {
            _ = job.takeRecipient()
            job.noteSent()
        }
        job.record(.delivered, for: 0)
        job.record(.rejected(.unregistered), for: 1)
        _ = job.countLoss(of: 2)
        for _ in 0..<3 { job.noteEnded() }
        #expect(news(job.yielded(after: .zero).capNews) == [10: true, 20: false, 40: false])
    }

    @Test func `is nothing where there is no cap, and where nothing can have been counted`() {
        for answer in [nil, CapAnswer()] {
            let job = JobFixture.job(recipients: 2, capAnswer: answer)
            #expect(job.sendAll().count == 2)
            job.record(.delivered, for: 0)
            job.record(.rejected(.unregistered), for: 1)
            job.noteEnded()
            job.noteEnded()
            #expect(job.settled { _ in .zero }.capNews.isEmpty)
        }
    }

    /// Losses are those of the recipients that wait, and not of one that had failed before.
    @Test func `is also who had failed when workers were lost`() {
        let failed = Outcome.failed(.otherTransient).rawValue
        for losses in [1, 2] {
            let job = JobFixture.job(
                recipients: 3, previousWatermark: 3, outcomes: [failed, 0, 0], losses: losses, capAnswer: asked())
            _ = job.sendAll()
            for ordinal in [1, 2] {
                job.record(.delivered, for: ordinal)
                job.noteEnded()
            }
            #expect(news(job.settled { _ in .zero }.capNews) == [10: false])
            #expect(job.settled { _ in .zero }.losses == [0, UInt8(losses), UInt8(losses)])
        }
    }

    /// As long as the other job waits, the push has neither arrived nor not.
    @Test func `is also who may have got it and continues in another job`() {
        let job = JobFixture.job(recipients: 3, losses: 1, capAnswer: asked())
        _ = job.sendAll()
        job.record(.delivered, for: 0)
        for _ in 0..<3 { job.noteEnded() }
        for ordinal in [1, 2] { AnswerRules.untouched(ordinal, of: job) }
        job.splitWaiting(after: .zero)
        let told = job.settled { _ in .zero }.capNews
        #expect(told == [CapNews(deviceID: 20, hasArrived: nil), CapNews(deviceID: 30, hasArrived: nil)])
    }

    /// The place that the recipient's job before has left open would stay open. The job has asked about others only:
    /// this token is replaced, or the person lacks an attribute by now.
    @Test func `is also who may have got it and is not sent to any more, beside others`() {
        let job = JobFixture.job(recipients: 2, inactive: [10], losses: 1, capAnswer: asked())
        #expect(job.outcomes[0] == Outcome.unknown.rawValue)
        _ = job.sendAll()
        job.record(.delivered, for: 1)
        job.noteEnded()
        #expect(news(job.settled { _ in .zero }.capNews) == [10: true])
    }

    /// The place that the recipient's job before has left open would stay open.
    @Test func `is of a job that has not asked what became of whom may have got it`() {
        let job = JobFixture.job(recipients: 2, losses: 1, sendWithin: .zero, capAnswer: CapAnswer())
        job.close(.expired)
        job.endWaitingAsClosed()
        #expect(job.outcomes == [Outcome.unknown.rawValue, Outcome.unknown.rawValue])
        #expect(news(job.settled { _ in .zero }.capNews) == [10: true, 20: true])
    }

    @Test func `is told before the end of who got nothing, once, while others wait for an answer`() {
        let job = JobFixture.job(recipients: 3, capAnswer: asked())
        _ = job.sendAll()
        job.record(.delivered, for: 0)
        job.record(.rejected(.unregistered), for: 1)
        for _ in 0..<2 { job.noteEnded() }
        let begun = ContinuousClock.now
        #expect(!job.isToHandOver(now: begun))
        #expect(job.isToHandOver(now: begun + HeldJob.handOverPatience))
        let handOver = job.handOver(in: JobFixture.queue(), watermark: 3) { _ in .zero }
        #expect(handOver.recipients.isEmpty)
        #expect(news(handOver.capNews) == [20: false])
        job.noteHandedOver(0)
        #expect(!job.isToHandOver(now: begun + .seconds(60)))
        #expect(!job.isToHandOver(now: begun + .seconds(120)))
    }

    @Test func `leaves alone what earlier holders may have sent`() {
        let job = JobFixture.job(recipients: 3, previousWatermark: 3, losses: 1, capAnswer: asked())
        #expect(news(job.yielded(after: .zero).capNews) == [:])
    }

    /// The job in which the recipient would continue does not know that an earlier holder may have sent the push.
    @Test func `is not for what is sent at most once and may have been sent`() {
        let job = JobFixture.job(
            recipients: 2, isAtMostOnce: true, previousWatermark: 1, losses: 1,
            capAnswer: asked([10: .until(.seconds(2)), 20: .until(.seconds(2))], isWhole: false))
        #expect(job.retries.map(\.deviceID) == [20])
        RescuedJobRules.apply(to: job)
        #expect(job.outcomes[0] == Outcome.unknown.rawValue)
    }

    @Test func `is not sent to, and recorded, where the cap holds it back`() {
        let job = JobFixture.job(recipients: 3, capAnswer: asked([10: .forGood, 20: .until(.seconds(2))]))
        #expect(job.takeTokens().keys.sorted() == [2])
        #expect(job.outcomes[0] == Outcome.capped.rawValue)
        #expect(Outcome(rawValue: job.outcomes[1]).kind == .postponed)
        #expect(job.retries.map(\.deviceID) == [20])
        #expect(job.retries.map(\.atLeast) == [.seconds(2)])
        #expect(job.retries.map(\.attempts) == [0])
    }

    @Test(arguments: [true, false])
    func `calls unknown what was sent before the cap was there`(isWhole: Bool) {
        let job = JobFixture.job(
            recipients: 1, previousWatermark: 1, losses: 1, capAnswer: asked([10: .forGood], isWhole: isWhole))
        #expect(Outcome(rawValue: job.outcomes[0]) == (isWhole ? .capped : .unknown))
    }
}
