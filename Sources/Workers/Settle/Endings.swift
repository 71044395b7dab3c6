import PostgresStore
import QueueCore

/// Decides which jobs one statement ends or gives back, and what happens to them after its answer.
///
/// Only one statement is under way at a time, and it has a bounded number of jobs: renewals share its connection, and
/// wait for one such statement at most. A statement that PostgreSQL refuses for good is refused because of one job,
/// which must not affect the others: each half is tried on its own, down to the single job. That job is given back with
/// what is known of it, and set aside if this happens again and again. If this cannot be written either, or the job is
/// not to blame, it stays held and is tried again: only this worker knows what APNs has answered (``RefusedJobs``).
///
/// If another transaction prevents a statement, the halves are tried in the same manner: that transaction may stay
/// open, and may concern only one job. Such a single job is tried again later, apart from the jobs that no transaction
/// prevents. The halves of a statement that was not answered in time are tried, too, because it may have too many jobs.
///
/// A value without a clock: its owner passes the time.
struct Endings {
    /// The maximum number of jobs of one statement. 20 to 40 jobs cost the least per recipient (docs/performance.md).
    static let maximumJobs = 128
    /// So many jobs are written without waiting for the end of the interval if they have so many recipients.
    static let enoughJobs = 20
    static let enoughRecipients = 1000
    /// So many jobs are written without waiting however few recipients they have: single pushes have one each.
    static let enoughSmallJobs = 100
    /// The time after which a job that another transaction locks is tried again.
    static let lockedPause = Duration.milliseconds(500)
    /// The time after which a locked job is reported.
    static let longestLocked = Duration.seconds(10)

    /// The jobs of one statement.
    struct Batch {
        enum Statement {
            case endJobs([SettledJob])
            case yield([YieldedLease])
            /// Gives back a job whose end was refused for this reason.
            case setAside(YieldedLease, because: String)
        }

        /// What happens to the jobs. PostgreSQL may accept one kind and refuse the other.
        fileprivate enum Kind: CaseIterable {
            case ends, returns
        }

        fileprivate(set) var jobs: [HeldJob]
        fileprivate(set) var statement: Statement
        fileprivate var kind: Kind
        /// Whether the jobs were part of a statement that was not answered, but may have been carried out.
        fileprivate(set) var isRepeated = false

        fileprivate var isSettingAside: Bool { if case .setAside = statement { true } else { false } }

        fileprivate var halves: [Batch] {
            let half = jobs.count / 2
            return [part(..<half), part(half...)]
        }

        private func part(_ range: some RangeExpression<Int>) -> Batch {
            switch statement {
            case .endJobs(let ended):
                Batch(
                    jobs: Array(jobs[range]), statement: .endJobs(Array(ended[range])), kind: kind,
                    isRepeated: isRepeated)
            case .yield(let back):
                Batch(
                    jobs: Array(jobs[range]), statement: .yield(Array(back[range])), kind: kind,
                    isRepeated: isRepeated)
            case .setAside: fatalError("one job is set aside at a time")
            }
        }
    }

    /// What the owner has to do next.
    enum Step {
        case write(Batch)
        case wait(Duration)
        /// Nothing more will be written.
        case end
    }

    /// The result of a statement, which the owner repeats until PostgreSQL has answered.
    enum Answer {
        /// - Parameter isRepeated: whether it was sent before without an answer, and may have been carried out then.
        case written(WrittenLeases, isRepeated: Bool)
        /// PostgreSQL refuses the statement for this reason, however often it is repeated, and one of the jobs may be
        /// to blame.
        case refused(String)
        /// PostgreSQL refuses the statement for this reason, for which probably no job is to blame.
        case prevented(String)
        /// Another transaction prevents the statement, perhaps for a long time.
        case contended
        /// PostgreSQL has not answered a statement with more than one job in time.
        case unanswered
        /// The drain is over, and it is unknown whether the statement was carried out.
        case givenUp
    }

    /// What happened to the jobs of a batch. Jobs that are not `over` are tried again, unless the drain is over.
    struct Result {
        /// Jobs that are no longer held: they were written, or another worker holds them.
        var over: [HeldJob] = []
        /// The number of jobs that another worker holds.
        var lost = 0
        /// Jobs that another transaction has locked for so long that this is to be reported. Each is in one result
        /// only.
        var hindered: [HeldJob] = []
    }

    private let interval: Duration
    private let jobs: HeldJobs
    /// Jobs with nothing in flight that are finished, or closed and to be ended or given back.
    private var through: [HeldJob] = []
    /// The number of their recipients.
    private var recipientsThrough = 0
    /// Batches of jobs that were through, to be written one after another.
    private var batches: [Batch] = []
    private var isUnderWay = false
    /// Jobs that other transactions lock, and when they are tried again.
    private var locked: [HeldJob] = []
    private var triesLockedAt: ContinuousClock.Instant
    /// Jobs that PostgreSQL refuses, by what was to happen to them.
    private var refused = Dictionary(uniqueKeysWithValues: Batch.Kind.allCases.map { ($0, RefusedJobs()) })
    /// When jobs that are through are written even if they are few: an interval after the last time. If nothing was
    /// written for a while, that is in the past, and the first job does not wait.
    private var nextTurn: ContinuousClock.Instant
    private(set) var isStopping = false

    init(interval: Duration, jobs: HeldJobs, now: ContinuousClock.Instant) {
        self.interval = interval
        self.jobs = jobs
        triesLockedAt = now
        nextTurn = now
    }

    /// Whether there are enough jobs to write a batch before the end of the interval.
    var hasEnough: Bool {
        through.count >= Self.enoughSmallJobs
            || through.count >= Self.enoughJobs && recipientsThrough >= Self.enoughRecipients
    }

    /// Whether there are jobs to write now.
    func isDue(now: ContinuousClock.Instant) -> Bool { hasEnough || !through.isEmpty && now >= nextTurn }

    /// Why PostgreSQL probably refuses all jobs, and whether that is certain enough for a report; nil if it does not.
    var prevention: (problem: String, isConfirmed: Bool)? {
        let all = Batch.Kind.allCases.compactMap { refused[$0] }
        guard let problem = all.lazy.compactMap(\.problem).first else { return nil }
        return (problem, all.contains(where: \.isConfirmed))
    }

    /// Adds a job that is through.
    mutating func add(_ job: HeldJob) {
        through.append(job)
        recipientsThrough += job.outcomes.count
    }

    /// Makes the remaining jobs be written without waiting for more, and then ends.
    mutating func stop() { isStopping = true }

    /// Returns what the owner has to do now.
    /// - Parameter hasGivenUp: whether the drain is over, so that nothing is tried again.
    mutating func next(
        now: ContinuousClock.Instant, hasGivenUp: Bool, using generator: inout some RandomNumberGenerator
    ) -> Step {
        if isUnderWay { return .wait(interval) }
        if batches.isEmpty, !through.isEmpty, isStopping || isDue(now: now) {
            through = addBatches(of: through, using: &generator)
            countRecipients()
        }
        if !locked.isEmpty, now >= triesLockedAt {
            locked = addBatches(of: locked, using: &generator)
            triesLockedAt = now + Self.lockedPause
        }
        if batches.isEmpty { retryRefused(now: now, using: &generator) }
        if !batches.isEmpty {
            if now >= nextTurn { nextTurn = now + interval }
            isUnderWay = true
            return .write(batches.removeFirst())
        }
        let isWaiting = !locked.isEmpty || refused.values.contains { !$0.isEmpty }
        if isStopping, through.isEmpty, !isWaiting || hasGivenUp { return .end }
        return .wait(now < nextTurn ? now.duration(to: nextTurn) : interval)
    }

    /// Notes the answer to the last batch.
    mutating func note(
        _ answer: Answer, to batch: Batch, now: ContinuousClock.Instant
    ) -> Result {
        precondition(isUnderWay, "an answer belongs to a batch that was written")
        isUnderWay = false
        switch answer {
        case .written(let written, let isRepeated):
            // A locked job says nothing about refusals.
            if !batch.isSettingAside, written.locked.count < batch.jobs.count { refused[batch.kind]?.noteAccepted() }
            var result = note(written, of: batch, now: now)
            if isRepeated || batch.isRepeated { result.lost = 0 }
            return result
        case .refused where batch.jobs.count > 1, .prevented where batch.jobs.count > 1,
            .contended where batch.jobs.count > 1:
            batches.insert(contentsOf: batch.halves, at: 0)
            return Result()
        case .unanswered:
            precondition(batch.jobs.count > 1, "a statement about one job is repeated")
            var repeated = batch
            repeated.isRepeated = true
            batches.insert(contentsOf: repeated.halves, at: 0)
            return Result()
        case .refused where batch.isSettingAside, .prevented where batch.isSettingAside:
            refused[batch.kind]?.keep(batch.jobs[0])
            return Result()
        case .refused(let problem):
            refused[batch.kind]?.noteOver()
            setAside(batch, because: problem)
            return Result()
        case .prevented(let problem):
            if refused[batch.kind]?.refuse(batch.jobs[0], because: problem) == true {
                postpone(batch.kind)
            } else {
                setAside(batch, because: problem)
            }
            return Result()
        case .contended:
            var result = Result()
            noteLocked(batch.jobs[0], in: &result, now: now)
            return result
        // The job is left to another worker, which claims it when its lease ends.
        case .givenUp: return Result()
        }
    }

    private mutating func setAside(_ batch: Batch, because problem: String) {
        let lease = batch.jobs[0].yielded(after: .zero)
        batches.insert(Batch(jobs: batch.jobs, statement: .setAside(lease, because: problem), kind: batch.kind), at: 0)
    }

    // MARK: Jobs that are refused

    /// Has the other jobs of a kind wait until PostgreSQL accepts one. A batch that may have been carried out before is
    /// tried nevertheless, because its jobs may be over.
    private mutating func postpone(_ kind: Batch.Kind) {
        let isPostponed = { (batch: Batch) in batch.kind == kind && !batch.isSettingAside && !batch.isRepeated }
        refused[kind]?.postpone(batches.filter(isPostponed).flatMap(\.jobs))
        batches.removeAll(where: isPostponed)
    }

    /// Tries the refused jobs whose time has come: one of those of a kind of which all are refused.
    private mutating func retryRefused(
        now: ContinuousClock.Instant, using generator: inout some RandomNumberGenerator
    ) {
        for kind in Batch.Kind.allCases {
            let jobs = refused[kind]?.due(now: now, using: &generator) ?? []
            if refused[kind]?.problem == nil {
                through.insert(contentsOf: jobs, at: 0)
                countRecipients()
            } else {
                batches += makeBatches(of: jobs, using: &generator).batches
            }
        }
    }

    private mutating func countRecipients() {
        recipientsThrough = through.reduce(0) { $0 + $1.outcomes.count }
    }

    private mutating func note(
        _ written: WrittenLeases, of batch: Batch, now: ContinuousClock.Instant
    ) -> Result {
        var result = Result()
        for job in batch.jobs {
            if written.locked.contains(job.claim.key) {
                noteLocked(job, in: &result, now: now)
            } else {
                result.over.append(job)
                if !written.keys.contains(job.claim.key) { result.lost += 1 }
            }
        }
        return result
    }

    private mutating func noteLocked(_ job: HeldJob, in result: inout Result, now: ContinuousClock.Instant) {
        if locked.isEmpty { triesLockedAt = now + Self.lockedPause }
        locked.append(job)
        job.settling.isKeptBack = true
        let since = job.settling.lockedSince ?? now
        job.settling.lockedSince = since
        guard now >= since + Self.longestLocked, !job.settling.isLockReported else { return }
        job.settling.isLockReported = true
        result.hindered.append(job)
    }

    // MARK: Batches

    /// Adds the batches of `waiting` jobs, except those that PostgreSQL would probably refuse: these wait. Returns the
    /// jobs that are too many for one statement.
    private mutating func addBatches(
        of waiting: [HeldJob], using generator: inout some RandomNumberGenerator
    ) -> [HeldJob] {
        let (made, rest) = makeBatches(of: waiting, using: &generator)
        for batch in made {
            if refused[batch.kind]?.problem == nil {
                batches.append(batch)
            } else {
                refused[batch.kind]?.postpone(batch.jobs)
            }
        }
        return rest
    }

    /// Makes one batch of the `waiting` jobs to end, and one of those to give back. Also returns the jobs that are too
    /// many for one statement.
    private func makeBatches(
        of waiting: [HeldJob], using generator: inout some RandomNumberGenerator
    ) -> (batches: [Batch], rest: [HeldJob]) {
        var (ended, settled): ([HeldJob], [SettledJob]) = ([], [])
        var (back, yielded): ([HeldJob], [YieldedLease]) = ([], [])
        var delays = RetryDelays()
        for job in waiting.prefix(Self.maximumJobs) {
            if let lease = prepareReturn(of: job) {
                back.append(job)
                yielded.append(lease)
                continue
            }
            job.endWaitingAsClosed()
            ended.append(job)
            settled.append(job.settled { delays.delay(of: $0, using: &generator) })
        }
        var made: [Batch] = []
        if !ended.isEmpty { made.append(Batch(jobs: ended, statement: .endJobs(settled), kind: .ends)) }
        if !back.isEmpty { made.append(Batch(jobs: back, statement: .yield(yielded), kind: .returns)) }
        return (made, Array(waiting.dropFirst(Self.maximumJobs)))
    }

    /// Prepares a job that is given back, and returns the lease to give back. Nil for a job that is to be ended. That
    /// includes one with news that only the end of a job can write: its waiting recipients have become retries.
    private func prepareReturn(of job: HeldJob) -> YieldedLease? {
        guard case .yielded(let delay, _) = job.closing, job.waiting > 0 else { return nil }
        AnswerRules.spendAttemptsOfReturned(of: job, in: jobs.queue(of: job))
        if job.canBeYielded { return job.yielded(after: delay) }
        job.splitWaiting(after: delay)
        return nil
    }
}
