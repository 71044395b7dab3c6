import PostgresStore
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

    @Test func `are the first one after a while, and no more than one of a stream`() {
        var endings = Endings(interval: .milliseconds(100), jobs: jobs, now: now)
        var generator = SeededGenerator(seed: 1)
        /// Writes what is due after this time. Returns the number of jobs, and how long to wait if there is none.
        func step(after time: Duration) -> (written: Int, pause: Duration?) {
            let now = now + time
            switch endings.next(now: now, hasGivenUp: false, using: &generator) {
            case .write(let batch):
                let written = WrittenLeases(keys: Set(batch.jobs.map(\.claim.key)))
                _ = endings.note(.written(written, isRepeated: false), to: batch, now: now)
                return (batch.jobs.count, nil)
            case .wait(let pause): return (0, pause)
            case .end: return (0, nil)
            }
        }
        for tenth in 0...10 {
            let idle = step(after: .milliseconds(100 * tenth))
            #expect(idle.written == 0)
            #expect(idle.pause == .milliseconds(100))
        }
        add(1, recipients: 1, to: &endings)
        #expect(endings.isDue(now: now + .milliseconds(1050)))
        let first = step(after: .milliseconds(1050))
        #expect(first.written == 1)

        add(3, recipients: 1, to: &endings)
        #expect(!endings.isDue(now: now + .milliseconds(1060)))
        let early = step(after: .milliseconds(1060))
        #expect(early.pause == .milliseconds(90))
        let second = step(after: .milliseconds(1150))
        #expect(second.written == 3)
    }
}
