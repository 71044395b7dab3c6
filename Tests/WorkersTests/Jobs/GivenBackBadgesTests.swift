import PostgresStore
import QueueCore
import Testing

@testable import Workers

/// The recipients whose badges a job gives back, because they got no push and wait for long. They used to stay counted:
/// with the next message, the icon showed one too many.
@Suite struct `The badges that are given back` {
    private let night = QuietHold.until(1_800_000_000_000_000)

    @Test func `are those of recipients with quiet hours, if an earlier claim may have raised them`() {
        let cases: [(Int32, Bool, [Int64])] = [(1, false, [20]), (1, true, [10, 20]), (2, false, [10, 20])]
        for (epoch, isContinued, devices) in cases {
            let job = JobFixture.job(
                recipients: 3, epoch: epoch, quietHolds: [10: night, 20: .forGood], badgeIncrement: 2,
                isContinued: isContinued)
            job.record(.delivered, for: 2)
            #expect(
                job.settled { _ in .zero }.givenBackBadges == GivenBackBadges(increment: 2, deviceIDs: devices),
                "\(epoch) \(isContinued)")
        }
    }

    @Test func `are not those of recipients that may have got the push, or that are sent to again soon`() {
        let lost = JobFixture.job(
            recipients: 2, previousWatermark: 2, losses: 1, quietHolds: [10: night, 20: .forGood], badgeIncrement: 1,
            isContinued: true)
        #expect(Outcome(rawValue: lost.outcomes[0]) == .retried(.quietHours))
        #expect(lost.settled { _ in .zero }.givenBackBadges == nil)

        let split = JobFixture.job(recipients: 2, badgeIncrement: 1, isContinued: true)
        split.splitWaiting(after: .zero)
        #expect(split.settled { _ in .zero }.givenBackBadges == nil)
    }

    /// Once they have been handed over, they may be sent to before this job ends.
    @Test func `are those of recipients that are handed over, at that time and never again`() {
        let job = JobFixture.job(recipients: 3, quietHolds: [10: night], badgeIncrement: 1, isContinued: true)
        #expect(job.sendAll() == [1, 2])
        job.accept(1)
        let queue = JobFixture.queue()
        let handOver = job.handOver(in: queue, watermark: 3) { _ in .zero }
        #expect(handOver.givenBackBadges == GivenBackBadges(increment: 1, deviceIDs: [10]))
        job.isHandOverInDoubt = true
        #expect(job.handOver(in: queue, watermark: 3) { _ in .zero }.givenBackBadges == nil)
        job.noteHandedOver(1)
        job.accept(2)
        #expect(job.settled { _ in .zero }.givenBackBadges == nil)
    }

    @Test func `are those that wait in a job of a paused campaign, but not in one that is due again at once`() {
        let job = JobFixture.job(recipients: 4, badgeIncrement: 1)
        #expect(job.sendAll().count == 4)
        job.accept(0)
        for _ in 1..<4 { job.noteEnded() }
        AnswerRules.unanswered(1, of: job)
        for ordinal in [2, 3] { AnswerRules.untouched(ordinal, of: job) }
        #expect(job.yielded(after: .zero).givenBackBadges == nil)
        let back = job.yielded(after: .seconds(1))
        #expect(back.givenBackBadges == GivenBackBadges(increment: 1, deviceIDs: [30, 40]))
    }

    @Test(arguments: [(Int32(1), false, false), (2, false, true), (1, true, true)])
    func `are those in a job whose campaign was paused before its claim, if an earlier claim may have raised them`(
        epoch: Int32, isContinued: Bool, areGivenBack: Bool
    ) {
        let job = JobFixture.job(
            recipients: 2, isPaused: true, epoch: epoch, badgeIncrement: 1, isContinued: isContinued)
        let badges = job.yielded(after: .seconds(1)).givenBackBadges
        #expect(badges == (areGivenBack ? GivenBackBadges(increment: 1, deviceIDs: [10, 20]) : nil))
    }

    @Test func `are none of a message that raises none`() {
        let job = JobFixture.job(recipients: 2, quietHolds: [10: .forGood], isContinued: true)
        #expect(job.yielded(after: .seconds(1)).givenBackBadges == nil)
        job.record(.delivered, for: 1)
        #expect(job.settled { _ in .zero }.givenBackBadges == nil)
    }
}
