import PostgresStore
import QueueCore
import Transport

/// Writes what the dispatcher learns: flushes progress, ends jobs that are through, gives back what is not to be sent here.
///
/// Two loops share a connection of their own, so that nothing that takes its time stands between them and a lease's deadline; and each
/// of their statements is about a bounded number of leases. Each write is fenced by the lease's epoch, repeated until PostgreSQL has
/// answered, and harmless when repeated.
///
/// Belongs to the engine's event loop.
final class Settler {
    /// Jobs ended by one statement, at the most. 20 to 40 cost the least per recipient (docs/performance.md).
    private static let mostJobs = 128
    /// Jobs that are through and do not wait for the interval to end.
    private static let enoughJobs = 20
    /// Leases that one statement writes progress of, or renews without news, at the most: some 10 ms.
    private static let mostFlushed = 500
    private static let mostRenewed = 1000
    /// Renewals without news in one round: with many more leases than that the others have their turn in the next ones.
    private static let mostRenewedInRound = 4000
    /// A job whose lease another transaction has locked is tried again after so long.
    private static let lockedPause = Duration.milliseconds(500)
    /// A job of a paused campaign is set aside. Should that not be possible at this moment, it comes again after so long.
    static let pauseDelay = Duration.seconds(1)

    private let store: EngineStore
    private let settings: EngineSettings
    private let owner: Int64
    private let jobs: HeldJobs
    private let report: (EngineEvent) -> Void

    /// Jobs with nothing in flight: finished, or closed and to be ended or given back.
    private var through: [HeldJob] = []
    /// Jobs that are through and whose lease another transaction has locked, and when they are tried again.
    private var locked: [HeldJob] = []
    private var triesLockedAt = ContinuousClock.now
    /// How many leases can be renewed in time.
    private var budget: LeaseBudget
    private let retireSignal: Signal
    private let flushSignal: Signal
    private var generator = SystemRandomNumberGenerator()
    private var isStopping = false
    /// The number of the last flush.
    private var flushNumber: Int64 = 0
    /// Campaigns and sends that somebody has paused or cancelled, perhaps: their leases are renewed in the next round, which tells.
    private var rootsInDoubt: Set<Int64> = []
    /// Where the next look at the queues that are being sent begins.
    private var haltPlace = 0

    /// Leases that this worker may hold.
    var mostLeases: Int { budget.limit }

    /// Called for a queue that was paused, or whose tenant was suspended.
    var isHalted: (Int32) -> Void = { _ in }
    /// Called when the end of a job could not be written: its lease is one that nobody knows of.
    var hasAbandoned: () -> Void = {}
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
        budget = LeaseBudget(interval: settings.lease / 3, most: settings.mostLeases)
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

    /// Says that a job ends without having been sent.
    func reportQuarantine(of job: HeldJob, because damage: String) {
        report(.jobQuarantined(queue: "\(job.queue.settings.name)", job: job.claim.key.jobID, reason: damage))
    }

    /// Looks at once whether the jobs of a campaign or send may go on.
    func lookAfter(root: Int64) {
        rootsInDoubt.insert(root)
        flushSignal.raise()
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
        while !isStopping || !through.isEmpty || !locked.isEmpty && !store.hasGivenUp {
            if through.isEmpty || !isStopping && through.count < Self.enoughJobs {
                await retireSignal.wait(atMost: settings.flushInterval)
            }
            tryLockedAgain()
            await retireBatch()
        }
    }

    private func tryLockedAgain() {
        guard !locked.isEmpty, ContinuousClock.now >= triesLockedAt else { return }
        triesLockedAt = .now + Self.lockedPause
        through += locked
        locked = []
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
        var unwritten = await end(ended)
        unwritten.add(await giveBack(back))
        for job in batch {
            if unwritten.locked.contains(job.claim.key.jobID) {
                locked.append(job)
                continue
            }
            if unwritten.refused.contains(job.claim.key) { jobs.noteAbandoned(job) }
            jobs.remove(job)
        }
        if !unwritten.refused.isEmpty { hasAbandoned() }
    }

    /// Jobs that are still held although they were to be ended or given back.
    private struct Unwritten {
        /// PostgreSQL did not take it, and will not.
        var refused: Set<LeaseKey> = []
        /// Another transaction has locked the lease.
        var locked: Set<Int64> = []

        mutating func add(_ others: Unwritten) {
            refused.formUnion(others.refused)
            locked.formUnion(others.locked)
        }
    }

    /// Ends jobs. Returns those whose end could not be written.
    ///
    /// What PostgreSQL refuses for good it refuses because of one of them, which must not take the others with it: halves are tried
    /// on their own.
    private func end(_ ended: [SettledJob]) async -> Unwritten {
        guard !ended.isEmpty else { return Unwritten() }
        if let written = await store.persist({ try await $0.retire(ended, owner: owner) }) {
            let lost = ended.count - written.jobIDs.count - written.locked.count
            if lost > 0 { report(.leasesLost(lost)) }
            return Unwritten(locked: written.locked)
        }
        guard ended.count > 1, !store.hasGivenUp else { return Unwritten(refused: Set(ended.map(\.key))) }
        let half = ended.count / 2
        var unwritten = await end(Array(ended[..<half]))
        unwritten.add(await end(Array(ended[half...])))
        return unwritten
    }

    /// Gives jobs back. Returns those for which that could not be written.
    private func giveBack(_ back: [YieldedLease]) async -> Unwritten {
        guard !back.isEmpty else { return Unwritten() }
        guard let written = await store.persist({ try await $0.yield(back, owner: owner) }) else {
            return Unwritten(refused: Set(back.map(\.progress.key)))
        }
        return Unwritten(locked: written.locked)
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
        let now = ContinuousClock.now
        giveBackExcess()
        var dirty: [HeldJob] = []
        var quiet: [HeldJob] = []
        for job in jobs.all where job.closing != .lost {
            if !job.isSettling, now >= job.sendBy { close(job, .expired) }
            if !job.isSettling, job.isDirty || job.awaitsMark {
                dirty.append(job)
            } else if now >= job.renewedAt + settings.lease / 3
                || !rootsInDoubt.isEmpty && rootsInDoubt.contains(job.claim.rootID)
            {
                // Those that are being ended, too: as long as that cannot be written, as on a full disk, nobody else must have them.
                quiet.append(job)
            }
        }
        // Those whose lease ends first come first, should there be more than a round can renew.
        if quiet.count > Self.mostRenewedInRound {
            quiet.sort { $0.renewedAt < $1.renewedAt }
            quiet.removeLast(quiet.count - Self.mostRenewedInRound)
        }
        rootsInDoubt = []
        await lookForHalts()
        for part in dirty.parts(of: Self.mostFlushed) { await flush(part) }
        for part in quiet.parts(of: Self.mostRenewed) { await renew(part) }
    }

    /// Whether queues of which jobs are held were paused meanwhile. A notification tells sooner, where there is no pooler in between.
    private func lookForHalts() async {
        let ids = Set(jobs.all.lazy.filter { !$0.isSettling && !$0.isClosed }.map(\.queue.id)).sorted()
        guard !ids.isEmpty else { return }
        if haltPlace >= ids.count { haltPlace = 0 }
        let part = Array(ids[haltPlace...].prefix(Self.mostFlushed))
        haltPlace += part.count
        for id in await store.attempt({ try await $0.haltedQueues(part) }) ?? [] { isHalted(id) }
    }

    private func flush(_ dirty: ArraySlice<HeldJob>) async {
        let sentAt = ContinuousClock.now
        // Some may have been ended while the parts before were written.
        let dirty = dirty.filter { !$0.isSettling && $0.closing != .lost }
        guard !dirty.isEmpty else { return }
        let marks = dirty.map { $0.nextMark(window: settings.atMostOnceWindow) }
        let progress = zip(dirty, marks).map { $0.progress(mark: $1) }
        for job in dirty { job.isDirty = false }
        flushNumber += 1
        let kept = await store.attempt {
            try await $0.flush(progress, owner: owner, lease: settings.lease, number: flushNumber)
        }
        guard let kept else {
            for job in dirty { job.isDirty = true }
            return
        }
        budget.noteRenewal(of: dirty.count, took: sentAt.duration(to: .now))
        for job in dirty where kept.locked.contains(job.claim.key.jobID) { job.isDirty = true }
        note(kept, of: dirty, marks: marks, sentAt: sentAt)
    }

    private func renew(_ quiet: ArraySlice<HeldJob>) async {
        let sentAt = ContinuousClock.now
        let keys = quiet.map(\.claim.key)
        guard let kept = await store.attempt({ try await $0.renew(keys, owner: owner, lease: settings.lease) }) else {
            return
        }
        budget.noteRenewal(of: quiet.count, took: sentAt.duration(to: .now))
        note(kept, of: Array(quiet), marks: nil, sentAt: sentAt)
    }

    /// Gives back what cannot be renewed in time, of that of which nothing was sent: renewals have become slower than they were when it
    /// was claimed.
    private func giveBackExcess() {
        var excess = budget.excess(of: jobs.count)
        guard excess > 0 else { return }
        for job in jobs.all.reversed() where excess > 0 && job.isUntouched {
            close(job, .yielded(after: .zero))
            excess -= 1
        }
    }

    /// Takes over what a flush or renewal committed, and stops what was lost.
    private func note(_ kept: KeptLeases, of written: [HeldJob], marks: [Int]?, sentAt: ContinuousClock.Instant) {
        var lost = 0
        var roots: [Int64: HeldJob.Closing] = [:]
        for (index, job) in written.enumerated() {
            guard kept.jobIDs.contains(job.claim.key.jobID) else {
                // What is being ended may just have been. A locked one is held, but not for longer than before.
                if job.isSettling || kept.locked.contains(job.claim.key.jobID) { continue }
                lost += 1
                close(job, .lost)
                continue
            }
            job.renewedAt = sentAt
            if let marks { job.committedMark = max(job.committedMark, marks[index]) }
            if kept.stopped.contains(job.claim.key.jobID) { roots[job.claim.rootID] = .cancelled }
            if kept.paused.contains(job.claim.key.jobID) {
                roots[job.claim.rootID] = .yielded(after: Self.pauseDelay)
            }
            if roots[job.claim.rootID] == nil { mayGoOn(job) }
        }
        if !roots.isEmpty {
            for job in jobs.all where !job.isSettling {
                if let closing = roots[job.claim.rootID] { close(job, closing) }
            }
        }
        if lost > 0 { report(.leasesLost(lost)) }
    }

    /// Closes a job and takes it at once if nothing of it is in flight.
    func close(_ job: HeldJob, _ reason: HeldJob.Closing) {
        job.close(reason)
        if job.inFlight == 0 { take(job) }
    }
}

extension Array {
    /// Its elements in order, so many at a time.
    fileprivate func parts(of count: Int) -> [ArraySlice<Element>] {
        stride(from: 0, to: self.count, by: count).map { self[$0..<Swift.min($0 + count, self.count)] }
    }
}
