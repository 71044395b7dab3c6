import PostgresStore
import QueueCore
import Transport

/// Writes what the dispatcher learns: flushes progress, ends jobs that are through, gives back what is not to be sent here.
///
/// Two loops share the engine's store connection, so that their statements travel together. Each write is fenced by the lease's
/// epoch, repeated until PostgreSQL has answered, and harmless when repeated.
///
/// Belongs to the engine's event loop.
final class Settler {
    /// Jobs ended by one statement, at the most. 20 to 40 cost the least per recipient (docs/performance.md).
    private static let mostJobs = 128
    /// Jobs that are through and do not wait for the interval to end.
    private static let enoughJobs = 20
    /// A job of a paused campaign is set aside. Should that not be possible at this moment, it comes again after so long.
    static let pauseDelay = Duration.seconds(1)

    private let store: EngineStore
    private let settings: EngineSettings
    private let owner: Int64
    private let jobs: HeldJobs
    private let report: (EngineEvent) -> Void

    /// Jobs with nothing in flight: finished, or closed and to be ended or given back.
    private var through: [HeldJob] = []
    private let retireSignal: Signal
    private let flushSignal: Signal
    private var generator = SystemRandomNumberGenerator()
    private var isStopping = false
    /// The number of the last flush.
    private var flushNumber: Int64 = 0

    /// Called for each job whose lease is renewed and whose mark has perhaps been moved: it may go on.
    var mayGoOn: (HeldJob) -> Void = { _ in }

    init(
        loop: EventLoop, store: EngineStore, settings: EngineSettings, owner: Int64, jobs: HeldJobs,
        report: @escaping (EngineEvent) -> Void
    ) {
        self.store = store
        self.settings = settings
        self.owner = owner
        self.jobs = jobs
        self.report = report
        retireSignal = Signal(loop: loop)
        flushSignal = Signal(loop: loop)
    }

    /// Takes a job that is through: every recipient has an outcome, or it was closed; and nothing is in flight.
    func take(_ job: HeldJob) {
        guard !job.isSettling else { return }
        job.isSettling = true
        if job.closing == .lost { return jobs.remove(job) }
        through.append(job)
        if through.count >= Self.enoughJobs { retireSignal.raise() }
    }

    /// Flushes as soon as possible: a job waits for its mark to be moved.
    func hurryFlush() { flushSignal.raise() }

    /// Ends both loops once there is nothing left to settle.
    func stop() {
        isStopping = true
        retireSignal.raise()
        flushSignal.raise()
    }

    // MARK: Ending jobs

    /// Ends and gives back jobs that are through, until ``stop()``.
    func runRetiring() async {
        while !isStopping || !through.isEmpty {
            if through.isEmpty || !isStopping && through.count < Self.enoughJobs {
                await retireSignal.wait(atMost: settings.flushInterval)
            }
            await retireBatch()
        }
    }

    private func retireBatch() async {
        guard !through.isEmpty else { return }
        let batch = Array(through.prefix(Self.mostJobs))
        through.removeFirst(batch.count)
        var ended: [SettledJob] = []
        var back: [YieldedLease] = []
        var delays: [RetryDelay: Duration] = [:]
        for job in batch {
            if case .yielded(let delay) = job.closing, job.waiting > 0 {
                AnswerRules.spendAttemptsOfReturned(of: job)
                if job.canBeYielded {
                    back.append(job.yielded(after: delay))
                    continue
                }
                job.splitWaiting(after: delay)
            }
            job.endWaitingAsClosed()
            ended.append(job.settled { delay(of: $0, drawn: &delays) })
        }
        let unwritten = await end(ended).union(await giveBack(back))
        for job in batch {
            if unwritten.contains(job.claim.key) { jobs.noteAbandoned(job) }
            jobs.remove(job)
        }
    }

    /// Ends jobs. Returns those whose end could not be written.
    ///
    /// What PostgreSQL refuses for good it refuses because of one of them, which must not take the others with it: halves are tried
    /// on their own.
    private func end(_ ended: [SettledJob]) async -> Set<LeaseKey> {
        guard !ended.isEmpty else { return [] }
        if let kept = await store.persist({ try await $0.retire(ended, owner: owner) }) {
            if kept.count < ended.count { report(.leasesLost(ended.count - kept.count)) }
            return []
        }
        guard ended.count > 1, !store.hasGivenUp else { return Set(ended.map(\.key)) }
        let half = ended.count / 2
        return await end(Array(ended[..<half])).union(await end(Array(ended[half...])))
    }

    /// Gives jobs back. Returns those for which that could not be written.
    private func giveBack(_ back: [YieldedLease]) async -> Set<LeaseKey> {
        guard !back.isEmpty else { return [] }
        let given: Void? = await store.persist { try await $0.yield(back, owner: owner) }
        return given == nil ? Set(back.map(\.progress.key)) : []
    }

    /// One delay for each kind of retry and settle, so that 1 % failures of many jobs become one job and not many tiny ones.
    private func delay(of retry: HeldJob.Retry, drawn: inout [RetryDelay: Duration]) -> Duration {
        guard let backoff = retry.backoff else { return retry.atLeast }
        let kind = RetryDelay(backoff: backoff, step: retry.step, group: retry.group)
        let delay = drawn[kind] ?? backoff.delay(afterAttempt: retry.step, using: &generator)
        drawn[kind] = delay
        return max(delay, retry.atLeast)
    }

    private struct RetryDelay: Hashable {
        let backoff: Backoff
        let step: Int
        let group: Int
    }

    // MARK: Flushing

    /// Writes progress and renews leases, until ``stop()``.
    func runFlushing() async {
        while !isStopping {
            await flushSignal.wait(atMost: settings.flushInterval)
            await flushAll()
        }
    }

    private func flushAll() async {
        let sentAt = ContinuousClock.now
        for job in jobs.all where !job.isSettling && sentAt >= job.sendBy { close(job, .expired) }
        let held = jobs.all.filter { !$0.isSettling && $0.closing != .lost }
        let dirty = held.filter { $0.isDirty || $0.awaitsMark }
        // Those that are being ended, too: as long as that cannot be written, as on a full disk, nobody else must have them.
        let quiet = jobs.all.filter {
            ($0.isSettling || !$0.isDirty && !$0.awaitsMark) && $0.closing != .lost
                && sentAt >= $0.renewedAt + settings.lease / 3
        }
        if !dirty.isEmpty {
            let marks = dirty.map { $0.nextMark(window: settings.atMostOnceWindow) }
            let progress = zip(dirty, marks).map { $0.progress(mark: $1) }
            for job in dirty { job.isDirty = false }
            flushNumber += 1
            let kept = await store.attempt {
                try await $0.flush(progress, owner: owner, lease: settings.lease, number: flushNumber)
            }
            if kept == nil { for job in dirty { job.isDirty = true } }
            if let kept { note(kept, of: dirty, marks: marks, sentAt: sentAt) }
        }
        if !quiet.isEmpty {
            let keys = quiet.map(\.claim.key)
            let kept = await store.attempt { try await $0.renew(keys, owner: owner, lease: settings.lease) }
            if let kept { note(kept, of: quiet, marks: nil, sentAt: sentAt) }
        }
    }

    /// Takes over what a flush or renewal committed, and stops what was lost.
    private func note(_ kept: KeptLeases, of written: [HeldJob], marks: [Int]?, sentAt: ContinuousClock.Instant) {
        var lost = 0
        for (index, job) in written.enumerated() {
            guard kept.jobIDs.contains(job.claim.key.jobID) else {
                // What is being ended may just have been.
                if job.isSettling { continue }
                lost += 1
                close(job, .lost)
                continue
            }
            job.renewedAt = sentAt
            if let marks { job.committedMark = max(job.committedMark, marks[index]) }
            if !job.isSettling, kept.stopped.contains(job.claim.key.jobID) { close(job, .cancelled) }
            if !job.isSettling, kept.paused.contains(job.claim.key.jobID) {
                close(job, .yielded(after: Self.pauseDelay))
            }
            mayGoOn(job)
        }
        if lost > 0 { report(.leasesLost(lost)) }
    }

    /// Closes a job and takes it at once if nothing of it is in flight.
    func close(_ job: HeldJob, _ reason: HeldJob.Closing) {
        job.close(reason)
        if job.inFlight == 0 { take(job) }
    }
}
