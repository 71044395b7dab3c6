import PostgresStore
import Testing

@testable import Workers

/// When a worker asks again about recipients whose rows another transaction keeps.
@Suite struct `Recipients that a transaction keeps` {
    private let begun = ContinuousClock.now
    private let tenant = { (job: ClaimedJob) in Int32(job.key.queueID) }

    /// A job with the devices 10, 20 and 30.
    private func job(of tenant: Int32, keeping kept: Set<Int64> = [], atCap: [Int64: CapHold] = [:])
        -> ClaimedJob
    {
        var job = JobFixture.job(recipients: 3, queueID: tenant, capAnswer: CapAnswer()).claim
        job.lockedBadges = kept
        job.capAnswer?.held = atCap
        return job
    }

    /// The pauses of one message, made when the first was noted.
    private func pauses(
        _ count: Int, from start: ContinuousClock.Instant, age: Duration = .zero, in recipients: inout KeptRecipients
    ) -> [Duration] {
        var now = start
        return (1...count).map { _ in
            var kept = job(of: 1, keeping: [10])
            kept.age = age + start.duration(to: now)
            recipients.note(&kept, of: 1, now: now)
            now += kept.keptFor[10]!
            return kept.keptFor[10]!
        }
    }

    @Test func `wait as long as they have waited, up to half a minute, and anew once they are free`() {
        var recipients = KeptRecipients()
        #expect(pauses(8, from: begun, in: &recipients) == [1, 1, 2, 4, 8, 16, 30, 30].map { .seconds($0) })
        var other = job(of: 1, keeping: [10])
        other.age = .zero
        recipients.note(&other, of: 1, now: begun + .seconds(65))
        #expect(other.keptFor[10] == .seconds(1), "it is a new message")
        let old = pauses(3, from: begun + .seconds(70), age: .seconds(7200), in: &recipients)
        #expect(old == [30, 30, 30].map { .seconds($0) }, "the recipient has been kept for long")
        var free = job(of: 1)
        recipients.note(&free, of: 1, now: begun + .seconds(170))
        #expect(free.keptFor == [:])
        var kept = job(of: 1, atCap: [10: .whileKept, 20: .until(.seconds(3)), 30: .forGood])
        recipients.note(&kept, of: 1, now: begun + .seconds(171))
        #expect(kept.keptFor == [10: .seconds(1)])
    }

    /// Another worker has sent to the recipient meanwhile, and this one did not see that it was free.
    @Test func `begin anew if they were not seen for a minute, whatever else their tenant keeps`() {
        var recipients = KeptRecipients()
        _ = pauses(6, from: begun, age: .seconds(7200), in: &recipients)
        var other = job(of: 1, atCap: [20: .whileKept])
        recipients.note(&other, of: 1, now: begun + .seconds(60))
        #expect(pauses(1, from: begun + .seconds(119), age: .seconds(7200), in: &recipients) == [.seconds(1)])
    }

    /// A producer that sets thousands of badges in one transaction commits soon.
    @Test func `beyond those that are remembered wait as long as their tenant has kept any`() {
        var recipients = KeptRecipients()
        for index in 0..<4000 {
            var kept = JobFixture.job(recipients: 3, queueID: 1, firstDevice: index * 3 + 1).claim
            kept.lockedBadges = Set(kept.deviceIDs)
            kept.age = .seconds(3600)
            let now = begun + .milliseconds(index)
            recipients.note(&kept, of: 1, now: now)
            let expected = max(.seconds(1), index >= 3334 ? Duration.milliseconds(index) : .zero)
            if index != 3333 { #expect(Set(kept.keptFor.values) == [expected], "\(index)") }
        }
    }

    @Test func `of many tenants hold a claim up no longer than those of four`() {
        #expect(KeptRecipients.patience(amongGroups: 0) == .milliseconds(15))
        #expect(KeptRecipients.patience(amongGroups: 4) == .milliseconds(15))
        #expect(KeptRecipients.patience(amongGroups: 30) == .milliseconds(2))
        #expect(KeptRecipients.patience(amongGroups: 1000) == .milliseconds(1))
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
        #expect(groups(begun) == [[2, 3], [1, 1]])
        var free = job(of: 1)
        recipients.note(&free, of: 1, now: begun)
        #expect(groups(begun) == [[2, 3], [1, 1]], "what the tenant sends next may be kept, too")
        #expect(groups(begun + .seconds(60)) == [[1, 2, 1, 3]])
    }
}
