import PostgresStore

/// Decides which leases are written and renewed, in rounds, and what becomes of their jobs with the answers.
///
/// A round asks first for queues that were paused, then writes the jobs of which there is news, then renews the other
/// leases that are due: each statement is about a bounded number of them. A statement that was refused for good is
/// tried in halves, so that one lease that cannot be written does not keep the others from being renewed; that one is
/// tried alone from then on, and rarely.
///
/// A value without a clock: its owner passes the time.
struct Renewals {
    /// The maximum number of leases that one statement writes progress of, or renews without news: some 10 ms.
    static let maximumFlushed = 500
    static let maximumRenewed = 1000
    /// The maximum number of renewals without news in one round: with many more leases than that the others have their
    /// turn in the next ones.
    static let maximumRenewedInRound = 4000
    /// The maximum number of refused statements that are split in one round: enough to find two among 500.
    static let maximumSplits = 20

    /// The leases of one statement.
    struct Batch {
        fileprivate(set) var jobs: [HeldJob]
        /// The watermarks that are committed with the progress of the jobs; nil where leases are only renewed.
        fileprivate(set) var watermarks: [Int]?
        /// The number of a flush; 0 for a renewal without news.
        fileprivate(set) var number: Int64 = 0
        fileprivate(set) var sentAt: ContinuousClock.Instant

        /// What a flush writes.
        fileprivate(set) var progress: [LeaseProgress] = []

        /// What a renewal names.
        var keys: [LeaseKey] { jobs.map(\.claim.key) }
    }

    /// What is to be done next in a round.
    enum Step {
        /// Ask which of these queues were paused, or whose tenant was suspended.
        case askForHalts([Int32])
        case flush(Batch)
        case renew(Batch)
    }

    /// What became of a statement, which is not repeated: the next round does.
    enum Answer {
        case kept(KeptLeases)
        /// PostgreSQL refuses it, however often it is repeated.
        case refused
        /// PostgreSQL cannot do it at this moment.
        case failed
        /// PostgreSQL is out of reach, and nobody knows whether it was carried out.
        case unanswered
    }

    /// What became of a batch's jobs.
    struct Result {
        /// Their leases were renewed.
        var kept: [HeldJob] = []
        /// Another worker holds them.
        var lost: [HeldJob] = []
        /// They were cancelled: each alone, or with its campaign or send. If that is news, the leases of all jobs of
        /// the same root are renewed in the next round, which tells.
        var cancelled: [HeldJob] = []
        /// Campaigns that are paused.
        var pausedRoots: Set<Int64> = []
        /// Those whose campaign was given a lane of its own.
        var elsewhere: [HeldJob] = []
    }

    /// What is left of a round.
    private struct Round {
        var queues: [Int32]
        /// Groups of jobs that there is news of, and of jobs whose leases are renewed without.
        var dirty: [ArraySlice<HeldJob>]
        var quiet: [ArraySlice<HeldJob>]
        var splits = 0
    }

    private let interval: Duration
    private let window: Int
    /// How many leases can be renewed in time.
    private var budget: LeaseBudget
    private var round: Round?
    /// The number of the last flush. A flush that was given up may still be carried out after its repetition: the
    /// number tells.
    private var flushNumber: Int64 = 0
    /// Campaigns, sends and jobs that somebody has paused or cancelled, perhaps: the next round renews their leases,
    /// which tells.
    private var inDoubt: Set<Int64> = []
    /// Where the next question for halts begins.
    private var haltPlace = 0
    /// Leases whose flush or renewal was refused when it was tried alone, and when that is tried again.
    private var refusedFlushes: [LeaseKey: ContinuousClock.Instant] = [:]
    private var refusedRenewals: [LeaseKey: ContinuousClock.Instant] = [:]

    /// - Parameters:
    ///   - interval: the time after which a lease without news is renewed.
    ///   - window: how far a job that is sent at most once may run ahead of its committed watermark.
    ///   - maximumLeases: leases that may be held while renewals are cheap.
    init(interval: Duration, window: Int, maximumLeases: Int) {
        self.interval = interval
        self.window = window
        budget = LeaseBudget(interval: interval, maximum: maximumLeases)
    }

    /// The maximum number of leases that this worker may hold now.
    var maximumLeases: Int { budget.limit }

    /// How many of `count` held leases are to be given back, because they cannot be renewed in time.
    func excess(of count: Int) -> Int { budget.excess(of: count) }

    /// Has the leases of a campaign, send or job renewed in the next round: it may have been stopped.
    mutating func doubt(_ id: Int64) { inDoubt.insert(id) }

    // MARK: Rounds

    /// Begins a round over the jobs that are held.
    mutating func beginRound(_ held: [HeldJob], now: ContinuousClock.Instant) {
        forgetRefusals(butOf: held)
        var dirty: [HeldJob] = []
        var alone: [HeldJob] = []
        var quiet: [HeldJob] = []
        for job in held where job.closing != .lost {
            let hasNews = !job.isSettling && (job.isDirty || job.awaitsWatermark)
            let nextTry = refusedFlushes.isEmpty ? nil : refusedFlushes[job.claim.key]
            if hasNews, nextTry == nil {
                dirty.append(job)
            } else if hasNews, let nextTry, now >= nextTry {
                alone.append(job)
            } else if isDue(job, now: now) {
                // Those that are being ended, too: as long as that cannot be written, as on a full disk, nobody else
                // must have them.
                quiet.append(job)
            }
        }
        // Those whose lease ends first come first, should there be more than a round can renew.
        if quiet.count > Self.maximumRenewedInRound {
            quiet.sort { $0.renewedAt < $1.renewedAt }
            quiet.removeLast(quiet.count - Self.maximumRenewedInRound)
        }
        inDoubt = []
        round = Round(
            queues: queuesToAskFor(held), dirty: dirty.parts(of: Self.maximumFlushed) + alone.parts(of: 1),
            quiet: quiet.parts(of: Self.maximumRenewed))
    }

    /// Whether a lease is renewed without news.
    private func isDue(_ job: HeldJob, now: ContinuousClock.Instant) -> Bool {
        if !refusedRenewals.isEmpty, let nextTry = refusedRenewals[job.claim.key], now < nextTry { return false }
        if now >= job.renewedAt + interval { return true }
        return !inDoubt.isEmpty && (inDoubt.contains(job.claim.rootID) || inDoubt.contains(job.claim.key.jobID))
    }

    private mutating func forgetRefusals(butOf held: [HeldJob]) {
        guard !refusedFlushes.isEmpty || !refusedRenewals.isEmpty else { return }
        let keys = Set(held.map(\.claim.key))
        refusedFlushes = refusedFlushes.filter { keys.contains($0.key) }
        refusedRenewals = refusedRenewals.filter { keys.contains($0.key) }
    }

    /// The queues that are being sent, or as many of them as one question may have. A notification tells sooner of a
    /// pause, where there is no pooler in between.
    private mutating func queuesToAskFor(_ held: [HeldJob]) -> [Int32] {
        let ids = Set(held.lazy.filter { !$0.isSettling && !$0.isClosed }.map(\.claim.key.queueID)).sorted()
        if haltPlace >= ids.count { haltPlace = 0 }
        let part = Array(ids[haltPlace...].prefix(Self.maximumFlushed))
        haltPlace += part.count
        return part
    }

    /// The next statement of the round; nil when it is over.
    mutating func next(now: ContinuousClock.Instant) -> Step? {
        guard var left = round else { return nil }
        defer { round = left }
        if !left.queues.isEmpty {
            defer { left.queues = [] }
            return .askForHalts(left.queues)
        }
        while !left.dirty.isEmpty {
            // Some may have been ended while the statements before were under way.
            let jobs = left.dirty.removeFirst().filter { !$0.isSettling && $0.closing != .lost }
            if !jobs.isEmpty { return .flush(flush(of: jobs, now: now)) }
        }
        while !left.quiet.isEmpty {
            let jobs = left.quiet.removeFirst().filter { $0.closing != .lost }
            if !jobs.isEmpty { return .renew(Batch(jobs: jobs, watermarks: nil, sentAt: now)) }
        }
        return nil
    }

    private mutating func flush(of jobs: [HeldJob], now: ContinuousClock.Instant) -> Batch {
        flushNumber += 1
        let watermarks = jobs.map { $0.nextWatermark(window: window) }
        let progress = zip(jobs, watermarks).map { $0.progress(watermark: $1) }
        for job in jobs { job.isDirty = false }
        return Batch(jobs: jobs, watermarks: watermarks, number: flushNumber, sentAt: now, progress: progress)
    }

    // MARK: Answers

    /// Notes the answer to a statement of this round.
    mutating func note(_ answer: Answer, to batch: Batch, now: ContinuousClock.Instant) -> Result {
        switch answer {
        case .kept(let kept):
            budget.noteRenewal(of: batch.jobs.count, took: batch.sentAt.duration(to: now))
            return note(kept, of: batch)
        case .refused: split(batch, now: now)
        case .failed: break
        // Each further statement would wait for a connection as this one did.
        case .unanswered: round = nil
        }
        if batch.watermarks != nil { for job in batch.jobs { job.isDirty = true } }
        return Result()
    }

    private mutating func note(_ kept: KeptLeases, of batch: Batch) -> Result {
        var result = Result()
        for (index, job) in batch.jobs.enumerated() {
            let key = job.claim.key
            if kept.keys.contains(key) {
                job.renewedAt = batch.sentAt
                if let watermarks = batch.watermarks { job.watermark = max(job.watermark, watermarks[index]) }
                if batch.watermarks != nil { refusedFlushes[key] = nil }
                refusedRenewals[key] = nil
                result.kept.append(job)
                if kept.paused.contains(key) { result.pausedRoots.insert(job.claim.rootID) }
                if kept.elsewhere.contains(key) { result.elsewhere.append(job) }
                if kept.stopped.contains(key), !job.isClosed {
                    result.cancelled.append(job)
                    inDoubt.insert(job.claim.rootID)
                }
            } else if kept.locked.contains(key) {
                // It is held, but not for longer than before.
                if batch.watermarks != nil { job.isDirty = true }
            } else if !job.isSettling {
                // What is being ended may just have been.
                result.lost.append(job)
            }
        }
        return result
    }

    /// Has the halves of a refused batch tried on their own in this round, and one that was refused alone in a later
    /// one.
    private mutating func split(_ batch: Batch, now: ContinuousClock.Instant) {
        guard batch.jobs.count > 1 else {
            let key = batch.jobs[0].claim.key
            if batch.watermarks != nil {
                refusedFlushes[key] = now + interval
            } else {
                refusedRenewals[key] = now + interval
            }
            return
        }
        guard var left = round, left.splits < Self.maximumSplits else { return }
        left.splits += 1
        let half = batch.jobs.count / 2
        let halves = [batch.jobs[..<half], batch.jobs[half...]]
        if batch.watermarks == nil {
            left.quiet.insert(contentsOf: halves, at: 0)
        } else {
            left.dirty.insert(contentsOf: halves, at: 0)
        }
        round = left
    }
}

extension Array {
    /// Its elements in order, in parts of `count`.
    fileprivate func parts(of count: Int) -> [ArraySlice<Element>] {
        stride(from: 0, to: self.count, by: count).map { self[$0..<Swift.min($0 + count, self.count)] }
    }
}
