import PostgresStore
import QueueCore

/// Decides which jobs are ended or given back by one statement, and what becomes of them with its answer.
///
/// One statement is under way at a time, and it is about a bounded number of jobs: what renews leases shares its
/// connection and waits for one such statement at most. What PostgreSQL refuses for good, it refuses because of one
/// job, which must not take the others with it: the halves are tried on their own, down to the job alone. That one is
/// given back with what is known of it, and set aside if that happens again and again. Where this cannot be written
/// either, or the job is not to blame, it is abandoned. If a statement cannot be written because another transaction is
/// in its way, the halves are tried in the same manner: that transaction may stay open, and is about one job perhaps. A
/// job that is alone is tried again later, apart from those that nothing hinders. A statement that was not answered in
/// time may be about too much for one, so its halves are tried, too.
///
/// A value without a clock: its owner passes the time.
struct Endings {
    /// The maximum number of jobs of one statement. 20 to 40 cost the least per recipient (docs/performance.md).
    static let maximumJobs = 128
    /// This number of jobs is written without waiting for the interval to end.
    static let enoughJobs = 20
    /// A job that another transaction keeps from being written is tried again after this time.
    static let lockedPause = Duration.milliseconds(500)
    /// After this time somebody has to know.
    static let longestLocked = Duration.seconds(10)

    /// The jobs of one statement.
    struct Batch {
        enum Statement {
            case endJobs([SettledJob])
            case yield([YieldedLease])
            /// Give back a job whose end was refused for this reason.
            case setAside(YieldedLease, because: String)
        }

        fileprivate(set) var jobs: [HeldJob]
        fileprivate(set) var statement: Statement
        /// It was part of a statement that was not answered, and may have been carried out then.
        fileprivate(set) var isRepeated = false

        fileprivate var isSettingAside: Bool { if case .setAside = statement { true } else { false } }

        fileprivate var halves: [Batch] {
            let half = jobs.count / 2
            return [part(..<half), part(half...)]
        }

        private func part(_ range: some RangeExpression<Int>) -> Batch {
            switch statement {
            case .endJobs(let ended):
                Batch(jobs: Array(jobs[range]), statement: .endJobs(Array(ended[range])), isRepeated: isRepeated)
            case .yield(let back):
                Batch(jobs: Array(jobs[range]), statement: .yield(Array(back[range])), isRepeated: isRepeated)
            case .setAside: preconditionFailure("one job is set aside at a time")
            }
        }
    }

    /// What is to be done next.
    enum Step {
        case write(Batch)
        case wait(Duration)
        /// Nothing more will come.
        case end
    }

    /// What became of a statement, which is repeated until PostgreSQL has answered.
    enum Answer {
        /// - Parameter isRepeated: it was sent before and not answered, and may have been carried out then.
        case written(WrittenLeases, isRepeated: Bool)
        /// PostgreSQL refuses it, however often it is repeated.
        /// - Parameter problem: why, if one of the jobs may be to blame.
        case refused(problem: String?)
        /// Another transaction is in its way, which may last.
        case contended
        /// PostgreSQL has not answered in time a statement about more than one job.
        case unanswered
        /// The drain is over, and nobody knows whether it was written.
        case givenUp
    }

    /// What became of a batch's jobs. Those that are in neither list are tried again.
    struct Result {
        /// No longer held: they were written, or another worker holds them.
        var over: [HeldJob] = []
        /// The number of those that another worker holds.
        var lost = 0
        /// No longer held, and not written: their leases are still in this worker's name.
        var abandoned: [HeldJob] = []
        /// Those that another transaction has kept from being written for so long that it is to be reported, once.
        var hindered: [HeldJob] = []
    }

    private let interval: Duration
    private let jobs: HeldJobs
    /// Jobs with nothing in flight: finished, or closed and to be ended or given back.
    private var through: [HeldJob] = []
    /// What was made of jobs that were through, to be written one after another.
    private var batches: [Batch] = []
    private var isUnderWay = false
    /// Jobs that other transactions keep from being written, and when they are tried again.
    private var locked: [HeldJob] = []
    private var triesLockedAt: ContinuousClock.Instant
    /// When those that are through are written although they are few.
    private var nextTurn: ContinuousClock.Instant
    private(set) var isStopping = false

    init(interval: Duration, jobs: HeldJobs, now: ContinuousClock.Instant) {
        self.interval = interval
        self.jobs = jobs
        triesLockedAt = now
        nextTurn = now
    }

    /// Whether there are enough jobs for a batch before the interval has ended.
    var hasEnough: Bool { through.count >= Self.enoughJobs }

    /// Takes a job that is through.
    mutating func add(_ job: HeldJob) { through.append(job) }

    /// Writes what is there without waiting for more, and ends after that.
    mutating func stop() { isStopping = true }

    /// What is to be done now.
    /// - Parameter hasGivenUp: the drain is over: nothing is tried again.
    mutating func next(
        now: ContinuousClock.Instant, hasGivenUp: Bool, using generator: inout some RandomNumberGenerator
    ) -> Step {
        if isUnderWay { return .wait(interval) }
        if batches.isEmpty, !through.isEmpty, isStopping || hasEnough || now >= nextTurn {
            through = makeBatches(of: through, using: &generator)
        }
        if !locked.isEmpty, now >= triesLockedAt {
            locked = makeBatches(of: locked, using: &generator)
            triesLockedAt = now + Self.lockedPause
        }
        if now >= nextTurn { nextTurn = now + interval }
        if !batches.isEmpty {
            isUnderWay = true
            return .write(batches.removeFirst())
        }
        if isStopping, through.isEmpty, locked.isEmpty || hasGivenUp { return .end }
        return .wait(now.duration(to: nextTurn))
    }

    /// Notes the answer to the batch that was written last.
    mutating func note(
        _ answer: Answer, to batch: Batch, now: ContinuousClock.Instant
    ) -> Result {
        precondition(isUnderWay, "an answer belongs to a batch that was written")
        isUnderWay = false
        switch answer {
        case .written(let written, let isRepeated):
            var result = note(written, of: batch, now: now)
            if isRepeated || batch.isRepeated { result.lost = 0 }
            return result
        case .refused where batch.jobs.count > 1, .contended where batch.jobs.count > 1:
            batches.insert(contentsOf: batch.halves, at: 0)
            return Result()
        case .unanswered:
            precondition(batch.jobs.count > 1, "a statement about one job is repeated")
            var repeated = batch
            repeated.isRepeated = true
            batches.insert(contentsOf: repeated.halves, at: 0)
            return Result()
        case .refused(let problem?) where !batch.isSettingAside:
            let lease = batch.jobs[0].yielded(after: .zero)
            batches.insert(Batch(jobs: batch.jobs, statement: .setAside(lease, because: problem)), at: 0)
            return Result()
        case .contended:
            var result = Result()
            noteLocked(batch.jobs[0], in: &result, now: now)
            return result
        case .refused, .givenUp: return Result(abandoned: batch.jobs)
        }
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
                // A job that was to be given back and belongs to another worker needs nothing more.
                if case .endJobs = batch.statement, !written.keys.contains(job.claim.key) { result.lost += 1 }
            }
        }
        return result
    }

    private mutating func noteLocked(_ job: HeldJob, in result: inout Result, now: ContinuousClock.Instant) {
        if locked.isEmpty { triesLockedAt = now + Self.lockedPause }
        locked.append(job)
        let since = job.lockedSince ?? now
        job.lockedSince = since
        guard now >= since + Self.longestLocked, !job.isLockReported else { return }
        job.isLockReported = true
        result.hindered.append(job)
    }

    // MARK: Batches

    /// Makes a batch of those of `waiting` that are ended, and one of those that are given back. Returns the rest: what
    /// is too much for one statement.
    private mutating func makeBatches(
        of waiting: [HeldJob], using generator: inout some RandomNumberGenerator
    ) -> [HeldJob] {
        var (ended, settled): ([HeldJob], [SettledJob]) = ([], [])
        var (back, yielded): ([HeldJob], [YieldedLease]) = ([], [])
        var delays = RetryDelays()
        for job in waiting.prefix(Self.maximumJobs) {
            if let lease = self.yielded(job) {
                back.append(job)
                yielded.append(lease)
                continue
            }
            job.endWaitingAsClosed()
            ended.append(job)
            settled.append(job.settled { delays.delay(of: $0, using: &generator) })
        }
        if !ended.isEmpty { batches.append(Batch(jobs: ended, statement: .endJobs(settled))) }
        if !back.isEmpty { batches.append(Batch(jobs: back, statement: .yield(yielded))) }
        return Array(waiting.dropFirst(Self.maximumJobs))
    }

    /// A job as it is given back; nil for one that is ended. If answers have come that only the end of a job can write,
    /// the job is ended, and the recipients that wait continue in another job.
    private func yielded(_ job: HeldJob) -> YieldedLease? {
        guard case .yielded(let delay, _) = job.closing, job.waiting > 0 else { return nil }
        AnswerRules.spendAttemptsOfReturned(of: job, in: jobs.queue(of: job))
        if job.canBeYielded { return job.yielded(after: delay) }
        job.splitWaiting(after: delay)
        return nil
    }
}
