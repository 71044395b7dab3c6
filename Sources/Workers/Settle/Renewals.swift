import PostgresStore

/// Decides in rounds which leases are written and renewed, and what happens to their jobs after the answers.
///
/// A round first asks for queues that were paused, then writes the jobs that have news, then renews the other leases
/// that are due, then hands over recipients whose jobs are held up by others. Each statement has a bounded number of
/// leases. A statement that was refused for good is tried in halves, so that one lease that cannot be written does not
/// prevent the renewal of the others. From then on, that lease is tried alone and rarely.
///
/// A value without a clock: its owner passes the time.
struct Renewals {
    /// The maximum number of leases whose progress one statement writes, or that it renews without news: about 10 ms.
    static let maximumFlushed = 500
    static let maximumRenewed = 1000
    /// The maximum number of jobs of which one statement hands over recipients. As costly as the end of a job.
    static let maximumHandedOver = Endings.maximumJobs
    /// The maximum number of queues that one question for halts is about.
    private static let maximumAskedFor = 500
    /// The maximum number of renewals without news in one round. If there are many more leases, the rest is renewed in
    /// the next rounds.
    static let maximumRenewedInRound = 4000
    /// The maximum number of refused statements that are split in one round: enough to find two leases among 500.
    static let maximumSplits = 20

    /// The leases of one statement.
    struct Batch {
        /// What the statement does with the leases. A round writes the kinds in this order.
        enum Kind {
            /// Writes the news of the jobs, and renews their leases.
            case flush
            /// Renews leases without news.
            case renew
            /// Writes the news of the jobs, hands over recipients, and renews the leases.
            case handOver
        }

        let kind: Kind
        fileprivate(set) var jobs: [HeldJob]
        /// The watermarks that are committed with the progress of the jobs; nil for a renewal.
        fileprivate(set) var watermarks: [Int]?
        /// The number of a flush or hand-over; 0 for a renewal.
        fileprivate(set) var number: Int64 = 0
        fileprivate(set) var sentAt: ContinuousClock.Instant

        /// What a flush writes.
        fileprivate(set) var progress: [LeaseProgress] = []
        /// What a hand-over writes.
        fileprivate(set) var handOvers: [HandOver] = []

        /// The leases that a renewal names.
        var keys: [LeaseKey] { jobs.map(\.claim.key) }
    }

    /// What the owner has to do next in a round.
    enum Step {
        /// Ask which of these queues were paused or belong to a suspended tenant.
        case askForHalts([Int32])
        case flush(Batch)
        case handOver(Batch)
        case renew(Batch)
    }

    /// The result of a statement. It is not repeated: the next round does that.
    enum Answer {
        case kept(KeptLeases)
        /// PostgreSQL refuses the statement, however often it is repeated.
        case refused
        /// PostgreSQL cannot carry out the statement at this moment.
        case failed
        /// PostgreSQL is out of reach, and it is unknown whether the statement was carried out.
        case unanswered

        /// Whether the statement may have been carried out, or may be yet.
        fileprivate var mayBeCarriedOut: Bool {
            switch self {
            case .failed, .unanswered: true
            case .kept, .refused: false
            }
        }
    }

    /// What happened to the jobs of a batch.
    struct Result {
        /// Jobs whose leases were renewed.
        var kept: [HeldJob] = []
        /// Jobs that another worker holds.
        var lost: [HeldJob] = []
        /// Jobs that were cancelled, alone or with their campaign or send. If a cancellation is news, the next round
        /// renews the leases of all jobs of the same root, to see whether they are cancelled, too.
        var cancelled: [HeldJob] = []
        /// The roots of campaigns that are paused.
        var pausedRoots: Set<Int64> = []
        /// Jobs whose campaign was given a lane of its own.
        var elsewhere: [HeldJob] = []
    }

    /// The rest of a round.
    private struct Round {
        var queues: [Int32]
        /// The jobs of the statements that are left, by the kind of the statement.
        var groups: [Batch.Kind: [[HeldJob]]]
        /// The campaigns, sends and jobs that the round was to find out about.
        let doubts: Set<Int64>
        var splits = 0

        /// Takes the jobs of the next statement of this kind; nil if there are none left.
        mutating func takeGroup(_ kind: Batch.Kind) -> [HeldJob]? {
            guard groups[kind]?.isEmpty == false else { return nil }
            return groups[kind]?.removeFirst()
        }
    }

    private let interval: Duration
    private let window: Int
    private let jobs: HeldJobs
    /// Decides how many leases can be renewed in time.
    private var budget: LeaseBudget
    private var round: Round?
    /// The number of the last flush. A flush that was given up may still be carried out after its repetition; its lower
    /// number shows that it is the older one.
    private var flushNumber: Int64 = 0
    /// Campaigns, sends and jobs that may have been paused or cancelled. The next round renews their leases, and the
    /// answers show whether they were.
    private var inDoubt: Set<Int64> = []
    /// The place in the list of queues at which the next question for halts begins.
    private var haltPlace = 0
    /// Leases of which a statement of this kind was refused when it was tried alone, and when each is tried again.
    private var refused: [Batch.Kind: [LeaseKey: ContinuousClock.Instant]] = [:]

    /// - Parameters:
    ///   - interval: the time after which a lease without news is renewed.
    ///   - window: how far the sending of an at-most-once job may run ahead of its committed watermark.
    ///   - maximumLeases: the maximum number of leases held while renewals are cheap.
    init(interval: Duration, window: Int, maximumLeases: Int, jobs: HeldJobs) {
        self.interval = interval
        self.window = window
        self.jobs = jobs
        budget = LeaseBudget(interval: interval, maximum: maximumLeases)
    }

    /// The maximum number of leases that this worker may hold now.
    var maximumLeases: Int { budget.limit }

    /// The number of `count` held leases to give back because they cannot be renewed in time.
    func excess(of count: Int) -> Int { budget.excess(of: count) }

    /// Makes the next round renew the leases of a campaign, send or job, because it may have been stopped.
    mutating func doubt(_ id: Int64) { inDoubt.insert(id) }

    // MARK: Rounds

    /// Begins a round over the held jobs.
    mutating func beginRound(_ held: [HeldJob], now: ContinuousClock.Instant) {
        forgetRefusals(butOf: held)
        var dirty: [HeldJob] = []
        var alone: [HeldJob] = []
        var (heldUp, heldUpAlone): ([HeldJob], [HeldJob]) = ([], [])
        var quiet: [HeldJob] = []
        for job in held where job.closing != .lost {
            if job.isSettling { job.settling.rounds += 1 }
            if !job.isSettling, job.isToHandOver(now: now) {
                let nextTry = refused[.handOver]?[job.claim.key]
                if nextTry.map({ now >= $0 }) ?? true {
                    if nextTry == nil { heldUp.append(job) } else { heldUpAlone.append(job) }
                    if isDue(job, now: now) { quiet.append(job) }
                    continue
                }
            }
            let hasNews = job.mayBeFlushed && (job.isDirty || job.awaitsWatermark)
            let nextTry = refused[.flush]?[job.claim.key]
            if hasNews, nextTry == nil {
                dirty.append(job)
            } else if hasNews, let nextTry, now >= nextTry {
                alone.append(job)
            } else if isDue(job, now: now) {
                // This includes jobs that are being ended: as long as that cannot be written, for example because of a
                // full disk, no other worker must get them.
                quiet.append(job)
            }
        }
        // If there are more leases than a round can renew, those that end first are renewed first.
        var left: Set<Int64> = []
        if quiet.count > Self.maximumRenewedInRound {
            quiet.sort { $0.renewedAt < $1.renewedAt }
            left = Set(quiet[Self.maximumRenewedInRound...].filter(isInDoubt).map(\.claim.key.jobID))
            quiet.removeLast(quiet.count - Self.maximumRenewedInRound)
        }
        let doubts = inDoubt
        inDoubt = left
        round = Round(
            queues: queuesToAskFor(held),
            groups: [
                .flush: dirty.parts(of: Self.maximumFlushed) + alone.parts(of: 1),
                .renew: quiet.parts(of: Self.maximumRenewed),
                .handOver: heldUp.parts(of: Self.maximumHandedOver) + heldUpAlone.parts(of: 1),
            ],
            doubts: doubts)
    }

    /// Whether a lease is due to be renewed without news.
    private func isDue(_ job: HeldJob, now: ContinuousClock.Instant) -> Bool {
        if let nextTry = refused[.renew]?[job.claim.key], now < nextTry { return false }
        if now >= job.renewedAt + interval { return true }
        return !inDoubt.isEmpty && isInDoubt(job)
    }

    private func isInDoubt(_ job: HeldJob) -> Bool {
        inDoubt.contains(job.claim.rootID) || inDoubt.contains(job.claim.key.jobID)
    }

    private mutating func forgetRefusals(butOf held: [HeldJob]) {
        guard refused.values.contains(where: { !$0.isEmpty }) else { return }
        let keys = Set(held.map(\.claim.key))
        refused = refused.mapValues { leases in leases.filter { keys.contains($0.key) } }
    }

    /// The queues that this worker sends for, or as many of them as one question may have. A notification announces a
    /// pause sooner, where no pooler is in between.
    private mutating func queuesToAskFor(_ held: [HeldJob]) -> [Int32] {
        let ids = Set(held.lazy.filter { !$0.isSettling && !$0.isClosed }.map(\.claim.key.queueID)).sorted()
        if haltPlace >= ids.count { haltPlace = 0 }
        let part = Array(ids[haltPlace...].prefix(Self.maximumAskedFor))
        haltPlace += part.count
        return part
    }

    /// The next statement of the round; nil when it is over.
    mutating func next(
        now: ContinuousClock.Instant, using generator: inout some RandomNumberGenerator
    ) -> Step? {
        guard var left = round else { return nil }
        defer { round = left }
        if !left.queues.isEmpty {
            defer { left.queues = [] }
            return .askForHalts(left.queues)
        }
        while let group = left.takeGroup(.flush) {
            // Some jobs may have been ended during the previous statements.
            let jobs = group.filter { $0.mayBeFlushed && $0.closing != .lost }
            if !jobs.isEmpty { return .flush(flush(of: jobs, now: now)) }
        }
        while let group = left.takeGroup(.renew) {
            let jobs = group.filter { $0.closing != .lost }
            if !jobs.isEmpty { return .renew(Batch(kind: .renew, jobs: jobs, watermarks: nil, sentAt: now)) }
        }
        // Last, because a lock on a table that only they need would keep the leases from being renewed.
        while let group = left.takeGroup(.handOver) {
            let jobs = group.filter { !$0.isSettling && $0.closing != .lost }
            if !jobs.isEmpty { return .handOver(handOver(of: jobs, now: now, using: &generator)) }
        }
        return nil
    }

    private mutating func flush(of jobs: [HeldJob], now: ContinuousClock.Instant) -> Batch {
        flushNumber += 1
        let watermarks = jobs.map { $0.nextWatermark(window: window) }
        let progress = zip(jobs, watermarks).map { $0.progress(watermark: $1) }
        for job in jobs { job.isDirty = false }
        return Batch(
            kind: .flush, jobs: jobs, watermarks: watermarks, number: flushNumber, sentAt: now, progress: progress)
    }

    private mutating func handOver(
        of held: [HeldJob], now: ContinuousClock.Instant, using generator: inout some RandomNumberGenerator
    ) -> Batch {
        flushNumber += 1
        var delays = RetryDelays()
        let watermarks = held.map { $0.nextWatermark(window: window) }
        let handOvers = zip(held, watermarks).map { job, watermark in
            job.handOver(in: jobs.queue(of: job), watermark: watermark) { delays.delay(of: $0, using: &generator) }
        }
        for job in held { job.isDirty = false }
        return Batch(
            kind: .handOver, jobs: held, watermarks: watermarks, number: flushNumber, sentAt: now,
            handOvers: handOvers)
    }

    // MARK: Answers

    /// Notes the answer to a statement of this round.
    mutating func note(_ answer: Answer, to batch: Batch, now: ContinuousClock.Instant) -> Result {
        switch answer {
        case .kept(let kept):
            budget.noteRenewal(of: batch.jobs.count, took: batch.sentAt.duration(to: now))
            return note(kept, of: batch)
        case .refused: split(batch, now: now)
        case .failed: inDoubt.formUnion(round?.doubts ?? [])
        case .unanswered:
            inDoubt.formUnion(round?.doubts ?? [])
            // Each further statement would wait for a connection in vain, too.
            round = nil
        }
        if batch.kind != .renew { for job in batch.jobs { job.isDirty = true } }
        if batch.kind == .handOver, answer.mayBeCarriedOut { for job in batch.jobs { job.isHandOverInDoubt = true } }
        return Result()
    }

    private mutating func note(_ kept: KeptLeases, of batch: Batch) -> Result {
        var result = Result()
        for (index, job) in batch.jobs.enumerated() {
            let key = job.claim.key
            if kept.keys.contains(key) {
                job.renewedAt = batch.sentAt
                if let watermarks = batch.watermarks { job.watermark = max(job.watermark, watermarks[index]) }
                refused[.renew]?[key] = nil
                if batch.kind != .renew { refused[.flush]?[key] = nil }
                if batch.kind == .handOver {
                    refused[.handOver]?[key] = nil
                    job.noteHandedOver(batch.handOvers[index].recipients.count)
                }
                result.kept.append(job)
                if kept.paused.contains(key) { result.pausedRoots.insert(job.claim.rootID) }
                if kept.elsewhere.contains(key) { result.elsewhere.append(job) }
                if kept.cancelled.contains(key), !job.isClosed {
                    result.cancelled.append(job)
                    inDoubt.insert(job.claim.rootID)
                }
            } else if kept.locked.contains(key) {
                // The lease is still held, but its deadline has not moved.
                if batch.kind != .renew { job.isDirty = true }
            } else if !job.isSettling {
                // A job that is being ended may just have been written.
                result.lost.append(job)
            }
        }
        return result
    }

    /// Tries the halves of a refused batch on their own in this round. Tries a batch of one job again in a later round.
    private mutating func split(_ batch: Batch, now: ContinuousClock.Instant) {
        guard batch.jobs.count > 1 else {
            refused[batch.kind, default: [:]][batch.jobs[0].claim.key] = now + interval
            return
        }
        guard var left = round, left.splits < Self.maximumSplits else { return }
        left.splits += 1
        let half = batch.jobs.count / 2
        let halves = [Array(batch.jobs[..<half]), Array(batch.jobs[half...])]
        left.groups[batch.kind, default: []].insert(contentsOf: halves, at: 0)
        round = left
    }
}

extension HeldJob {
    /// After this many rounds, the end of a job has taken unusually long.
    private static let longSettling = 20

    /// Whether what is known of the job may be written to its lease. A job that is being ended writes that with its
    /// end, unless PostgreSQL refuses the end, another transaction prevents it, or other ends come first for long: then
    /// the next holder of the job must know it if this worker is lost.
    fileprivate var mayBeFlushed: Bool {
        (!isSettling || settling.isKeptBack || settling.rounds > Self.longSettling) && !isHandOverInDoubt
    }
}
