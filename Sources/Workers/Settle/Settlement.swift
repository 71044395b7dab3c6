import PostgresStore
import QueueCore

/// Decides what is written of the jobs that a worker holds, and when: ``Endings`` of those that are through,
/// ``Renewals`` of all. ``Settler`` carries it out.
///
/// What holds at every moment (`SettlementExplorationTests`):
/// - A job is in one statement at a time that ends it or gives it back, and leaves the held jobs once: written, lost or
///   abandoned.
/// - A job is abandoned only if PostgreSQL refuses it alone, or when the drain is over.
/// - A statement is about a bounded number of jobs, and at most one that ends jobs is under way.
/// - What is committed as sent covers what was sent; numbers of flushes grow.
/// - As long as a job is held, its lease is renewed in the round in which it is due, or in the next.
/// - A job that has recipients to send to is being given back in the first round after its tokens have become too old.
/// - After a drain with a store that works, nothing is held.
struct Settlement {
    /// A job of a paused campaign is set aside. Should that not be possible at this moment, it comes again after this
    /// time.
    static let pausedDelay = Duration.seconds(1)

    /// What the owner does after an event.
    struct Consequences {
        /// The number of leases that turned out to be another worker's.
        var lost = 0
        /// Leases were left in this worker's name: the audit finds them.
        var hasAbandoned = false
        /// Jobs whose lease was renewed and whose watermark may have been moved: they may go on.
        var renewed: [HeldJob] = []
        /// The next round is to come at once.
        var wantsRound = false
        /// Campaigns with jobs that have ended, and that pause themselves when too many answers are bad.
        var judged: Set<CampaignKey> = []
        /// Jobs that another transaction keeps from being ended, which is to be reported.
        var hindered: [HeldJob] = []
    }

    private let jobs: HeldJobs
    private let tokenAge: Duration
    private var endings: Endings
    private var renewals: Renewals
    /// Everything was written or abandoned that was held when this was stopped.
    private(set) var isOver = false

    /// - Parameter jobs: the jobs that are held: those that are over leave it here.
    init(_ settings: EngineSettings, jobs: HeldJobs, now: ContinuousClock.Instant) {
        self.jobs = jobs
        tokenAge = settings.tokenAge
        endings = Endings(interval: settings.flushInterval, jobs: jobs, now: now)
        renewals = Renewals(
            interval: settings.lease / 3, window: settings.atMostOnceWindow, maximumLeases: settings.maximumLeases)
    }

    /// The maximum number of leases that this worker may hold now.
    var maximumLeases: Int { renewals.maximumLeases }

    /// Whether there are enough jobs to be ended before the interval has ended.
    var hasEnough: Bool { endings.hasEnough }

    // MARK: Events

    /// Takes a job that is through: every recipient has an outcome, or it was closed; and nothing is in flight.
    mutating func take(_ job: HeldJob) {
        guard !job.isSettling else { return }
        job.isSettling = true
        if job.closing == .lost { return jobs.remove(job) }
        endings.add(job)
    }

    /// Closes a job, and takes it at once if nothing of it is in flight.
    mutating func close(_ job: HeldJob, _ reason: HeldJob.Closing) {
        job.close(reason)
        if job.inFlight == 0 { take(job) }
    }

    /// A campaign, send or job may have been paused or cancelled.
    mutating func doubt(_ id: Int64) { renewals.doubt(id) }

    /// Ends everything that is left. Leases are renewed until that is done.
    mutating func stop() { endings.stop() }

    // MARK: Endings

    /// What is to be done now about jobs that are through.
    mutating func nextEnding(
        now: ContinuousClock.Instant, hasGivenUp: Bool, using generator: inout some RandomNumberGenerator
    ) -> Endings.Step {
        let step = endings.next(now: now, hasGivenUp: hasGivenUp, using: &generator)
        if case .end = step { isOver = true }
        return step
    }

    /// Notes what became of the statement that ended jobs or gave them back.
    mutating func note(
        _ answer: Endings.Answer, to batch: Endings.Batch, now: ContinuousClock.Instant
    ) -> Consequences {
        let result = endings.note(answer, to: batch, now: now)
        for job in result.abandoned { jobs.noteAbandoned(job) }
        for job in result.over + result.abandoned { jobs.remove(job) }
        let judged = result.over.compactMap { job in
            job.claim.judgedCampaign.map { CampaignKey(queueID: job.claim.key.queueID, campaignID: $0) }
        }
        return Consequences(
            lost: result.lost, hasAbandoned: !result.abandoned.isEmpty, judged: Set(judged), hindered: result.hindered)
    }

    // MARK: Renewals

    /// Begins a round of flushes and renewals. What cannot be sent in time, or renewed in time, is closed.
    mutating func beginRound(now: ContinuousClock.Instant) {
        let held = jobs.all
        // Renewals have become slower than they were when it was claimed.
        for job in held.lazy.filter(\.isUntouched).reversed().prefix(renewals.excess(of: held.count)) {
            close(job, .yielded(after: .zero))
        }
        for job in held where !job.isSettling && now >= job.sendBy { close(job, .expired) }
        for job in held where !job.isSettling && now >= job.claimedAt + tokenAge && job.unsent > 0 {
            close(job, .yielded(after: .zero))
        }
        renewals.beginRound(held, now: now)
    }

    /// The next statement of the round; nil when it is over.
    mutating func nextRenewal(now: ContinuousClock.Instant) -> Renewals.Step? { renewals.next(now: now) }

    /// Notes what became of a flush or renewal, and closes what is not to go on.
    mutating func note(
        _ answer: Renewals.Answer, to batch: Renewals.Batch, now: ContinuousClock.Instant
    ) -> Consequences {
        let result = renewals.note(answer, to: batch, now: now)
        for job in result.lost { close(job, .lost) }
        for job in result.cancelled where !job.isSettling { close(job, .cancelled) }
        for job in result.elsewhere where !job.isSettling { close(job, .yielded(after: .zero)) }
        if !result.pausedRoots.isEmpty {
            for job in jobs.all where !job.isSettling && result.pausedRoots.contains(job.claim.rootID) {
                close(job, .yielded(after: Self.pausedDelay))
            }
        }
        return Consequences(
            lost: result.lost.count, renewed: result.kept.filter { !$0.isClosed && !$0.isSettling },
            wantsRound: !result.cancelled.isEmpty)
    }
}
