import PostgresStore
import Testing

@testable import Workers

/// When a worker asks again about recipients whose rows another transaction keeps.
@Suite struct `Recipients that a transaction keeps` {
    private let begun = ContinuousClock.now
    private let tenant = { (job: ClaimedJob) in Int32(job.key.queueID) }

    /// A job with the devices 10, 20 and 30.
    private func job(of tenant: Int32, keeping kept: Set<Int64> = [], atCap: [Int64: RecipientHold] = [:])
        -> ClaimedJob
    {
        var job = JobFixture.job(recipients: 3, queueID: tenant, capAnswer: CapAnswer()).claim
        job.lockedBadges = kept
        job.capAnswer?.held = atCap
        return job
    }

    @Test func `wait twice as long each time, up to half a minute, and anew once they are free`() {
        var recipients = KeptRecipients()
        var now = begun
        var pauses: [Duration] = []
        for _ in 1...7 {
            var kept = job(of: 1, keeping: [10])
            recipients.note(&kept, of: 1, now: now)
            pauses.append(kept.keptFor[10]!)
            // Another push to the device at the same time does not count.
            var other = job(of: 1, keeping: [10])
            recipients.note(&other, of: 1, now: now)
            #expect(other.keptFor[10] == kept.keptFor[10])
            now += kept.keptFor[10]!
        }
        #expect(pauses == [1, 2, 4, 8, 16, 30, 30].map { .seconds($0) })
        var free = job(of: 1)
        recipients.note(&free, of: 1, now: now)
        #expect(free.keptFor == [:])
        var kept = job(of: 1, atCap: [10: .whileKept, 20: .until(.seconds(3)), 30: .forGood])
        recipients.note(&kept, of: 1, now: now)
        #expect(kept.keptFor == [10: .seconds(1)])
    }

    @Test func `are asked about last, and other tenants' first`() {
        var recipients = KeptRecipients()
        let jobs = [job(of: 1), job(of: 2), job(of: 1), job(of: 3)]
        func groups(_ now: ContinuousClock.Instant) -> [[Int32]] {
            recipients.groups(of: jobs, tenant: tenant, now: now).map { $0.map(\.key.queueID) }
        }
        #expect(groups(begun) == [[1, 2, 1, 3]])
        var kept = job(of: 1, keeping: [10])
        recipients.note(&kept, of: 1, now: begun)
        #expect(groups(begun) == [[2, 3], [], [1, 1]])
        var free = job(of: 1)
        recipients.note(&free, of: 1, now: begun)
        #expect(groups(begun) == [[2, 3], [1, 1], []], "what the tenant sends next may be kept, too")
        #expect(groups(begun + .seconds(60)) == [[1, 2, 1, 3]])
    }
}
