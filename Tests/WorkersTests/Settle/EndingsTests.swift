import TestSupport
import Testing

@testable import Workers

@Suite struct `Jobs that are written before the end of the interval` {
    private let now = ContinuousClock.now
    private let jobs = HeldJobs()
    private let queue = JobFixture.queue()

    /// Adds jobs whose pushes were delivered.
    private func add(_ count: Int, recipients: Int, to endings: inout Endings) {
        for _ in 0..<count {
            let job = jobs.insert(of: queue) { [id = Int64(jobs.count + 1)] slot in
                JobFixture.job(recipients: recipients, id: id, slot: slot)
            }
            for ordinal in job.sendAll() { job.accept(ordinal) }
            endings.add(job)
        }
    }

    @Test func `are twenty if they have many recipients, and otherwise a hundred`() {
        var endings = Endings(interval: .milliseconds(100), jobs: jobs, now: now)
        var generator = SeededGenerator(seed: 1)
        let recipients = Endings.enoughRecipients / Endings.enoughJobs
        add(Endings.enoughJobs - 1, recipients: recipients, to: &endings)
        #expect(!endings.hasEnough)
        add(1, recipients: recipients, to: &endings)
        #expect(endings.hasEnough)
        guard case .write(let batch) = endings.next(now: now, hasGivenUp: false, using: &generator) else {
            Issue.record("nothing is written")
            return
        }
        #expect(batch.jobs.count == Endings.enoughJobs)
        #expect(!endings.hasEnough, "none of them is left")

        add(Endings.enoughJobs, recipients: recipients - 1, to: &endings)
        #expect(!endings.hasEnough)
        add(Endings.enoughSmallJobs - Endings.enoughJobs, recipients: 1, to: &endings)
        #expect(endings.hasEnough)
    }
}
