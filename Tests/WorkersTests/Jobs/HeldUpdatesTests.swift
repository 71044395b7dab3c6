import PostgresStore
import QueueCore
import TestSupport
import Testing

@testable import Workers

@Suite struct `Updates of Live Activities that a worker holds` {
    private let queue = JobFixture.queue()
    private let jobs = HeldJobs()

    /// Holds an update for the devices 10, 20 … as of a claim just now.
    private func hold(
        _ message: Int64, recipients: Int = 1, from first: Int = 1, replaces: Bool = true, inactive: Set<Int64> = [],
        lane: Lane = .normal, pushType: PushType = .liveactivity
    ) -> HeldJob {
        jobs.insert(of: queue) { slot in
            JobFixture.job(
                recipients: recipients, inactive: inactive, pushType: pushType, id: message, lane: lane, slot: slot,
                firstDevice: first, messageID: message, replacesWaiting: replaces)
        }
    }

    private func replaced(by job: HeldJob) -> [Int64] { queue.updates.replaced(by: job).map(\.claim.key.jobID) }

    @Test func `are replaced by one that was claimed later, if it replaces`() {
        _ = hold(1)
        _ = hold(2, replaces: false)
        _ = hold(3, from: 2)
        #expect(replaced(by: hold(4, replaces: false)) == [])
        #expect(replaced(by: hold(5)) == [1, 2, 4])
        #expect(replaced(by: hold(6, recipients: 2)) == [1, 2, 4, 5, 3])
    }

    @Test func `stay where the later one is not sent to their recipient, and if nothing is left to send`() {
        let first = hold(1)
        #expect(replaced(by: hold(2, inactive: [10])) == [])
        _ = first.sendAll()
        #expect(replaced(by: hold(3)) == [])
    }

    @Test func `are forgotten when they are held no more`() {
        let first = hold(1)
        jobs.remove(first)
        let second = hold(2)
        #expect(replaced(by: second) == [])
        #expect(replaced(by: hold(3)) == [2])
    }

    @Test func `are those of a campaign, too, but no other pushes`() {
        _ = hold(1, recipients: 3, lane: .bulk)
        _ = hold(2, pushType: .alert)
        #expect(replaced(by: hold(3, from: 2)) == [1])
    }

    @Test func `are sent for a while after they came here, however long the claim took`() {
        let (now, settings) = (ContinuousClock.now, EngineSettings())
        let update = { (claimedAt: ContinuousClock.Instant) in
            JobFixture.job(recipients: 1, pushType: .liveactivity, lane: .normal, now: claimedAt, heldSince: now)
        }
        let job = update(now - .milliseconds(400))
        #expect(!job.hasOldTokens(settings, now: now))
        #expect(!job.hasOldTokens(settings, now: now + .milliseconds(249)))
        #expect(job.hasOldTokens(settings, now: now + .milliseconds(250)))
        #expect(update(now - settings.tokenAge).hasOldTokens(settings, now: now), "the device may be another user's")
    }
}
