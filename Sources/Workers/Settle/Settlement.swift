import PostgresStore
import QueueCore

/// Decides what is written of the jobs that a worker holds, and when: ``Endings`` for jobs that are through,
/// ``Renewals`` for all jobs. ``Settler`` carries out the decisions.
///
/// What holds at every moment (`SettlementExplorationTests`):
/// - A job is in at most one statement at a time that ends it or gives it back. It leaves the held jobs once: written
///   or lost. Whatever PostgreSQL refuses, it stays held until then.
/// - While PostgreSQL probably refuses all ends, one job at a time is tried, and no lease may be added.
/// - A statement has a bounded number of jobs, and at most one statement that ends jobs is under way.
/// - The committed watermark covers everything that was sent. The numbers of flushes grow.
/// - While a job is held, its lease is renewed in the round in which it is due, or in the next one.
/// - A job with recipients to send to is being given back in the first round after its tokens have become too old.
/// - After a drain with a working store, no job is held.
struct Settlement {
    /// A job of a paused campaign that is given back waits until the campaign is resumed. If another session is
    /// changing the campaign at this moment, the job is due again after this time instead.
    static let pausedDelay = Duration.seconds(1)

    /// What the owner has to do after an event.
    struct Consequences {
        /// The number of leases that turned out to belong to another worker.
        var lost = 0
        /// Jobs whose lease was renewed and whose watermark may have moved: sending may continue.
        var renewed: [HeldJob] = []
        /// Whether the next round is to begin at once.
        var wantsRound = false
        /// Campaigns that pause themselves when too many answers are bad, and of which jobs have ended.
        var judged: Set<CampaignKey> = []
        /// Jobs whose end another transaction prevents, which is to be reported.
        var hindered: [HeldJob] = []
    }

    private let jobs: HeldJobs
    private let settings: EngineSettings
    private var endings: Endings
    private var renewals: Renewals
    /// Whether every job that was held at the stop was written, or the drain is over.
    private(set) var isOver = false

    /// - Parameter jobs: the held jobs. Jobs that are over are removed from them here.
    init(_ settings: EngineSettings, jobs: HeldJobs, now: ContinuousClock.Instant) {
        self.jobs = jobs
        self.settings = settings
        endings = Endings(interval: settings.flushInterval, jobs: jobs, now: now)
        renewals = Renewals(
            interval: settings.lease / 3, window: settings.atMostOnceWindow, maximumLeases: settings.maximumLeases,
            jobs: jobs)
    }

    /// The maximum number of leases that this worker may hold now. While PostgreSQL refuses ends, no lease may be
    /// added: what is sent could not be recorded.
    var maximumLeases: Int { prevention == nil ? renewals.maximumLeases : 0 }

    /// Why PostgreSQL probably refuses all ends, and whether that is certain enough for a report; nil if it does not.
    var prevention: (problem: String, isConfirmed: Bool)? { endings.prevention }

    /// Whether there are jobs that are through to be written now.
    func hasDueEndings(now: ContinuousClock.Instant) -> Bool { endings.isDue(now: now) }

    // MARK: Events

    /// Takes a job that is through: every recipient has an outcome or the job was closed, and nothing is in flight.
    mutating func take(_ job: HeldJob) {
        guard !job.isSettling else { return }
        job.settling.hasBegun = true
        if job.closing == .lost { return jobs.remove(job) }
        endings.add(job)
    }

    /// Closes a job, and takes it at once if it has nothing in flight.
    mutating func close(_ job: HeldJob, _ reason: HeldJob.Closing) {
        job.close(reason)
        if job.inFlight == 0 { take(job) }
    }

    /// Notes that a campaign, send or job may have been paused or cancelled.
    mutating func doubt(_ id: Int64) { renewals.doubt(id) }

    /// Ends all remaining jobs. Their leases are renewed until that is done.
    mutating func stop() { endings.stop() }

    // MARK: Endings

    /// What the owner has to do now about jobs that are through.
    mutating func nextEnding(
        now: ContinuousClock.Instant, hasGivenUp: Bool, using generator: inout some RandomNumberGenerator
    ) -> Endings.Step {
        let step = endings.next(now: now, hasGivenUp: hasGivenUp, using: &generator)
        if case .end = step { isOver = true }
        return step
    }

    /// Notes the answer to a statement that ends jobs or gives them back.
    mutating func note(
        _ answer: Endings.Answer, to batch: Endings.Batch, now: ContinuousClock.Instant
    ) -> Consequences {
        let result = endings.note(answer, to: batch, now: now)
        for job in result.over { jobs.remove(job) }
        let judged = result.over.compactMap { job in
            job.claim.judgedCampaign.map { CampaignKey(queueID: job.claim.key.queueID, campaignID: $0) }
        }
        return Consequences(lost: result.lost, judged: Set(judged), hindered: result.hindered)
    }

    // MARK: Renewals

    /// Begins a round of flushes and renewals. Closes jobs that cannot be sent in time, or renewed in time.
    mutating func beginRound(now: ContinuousClock.Instant) {
        let held = jobs.all
        // Renewals have become slower since these jobs were claimed.
        for job in held.lazy.filter(\.isUntouched).reversed().prefix(renewals.excess(of: held.count)) {
            close(job, .yielded(after: .zero))
        }
        for job in held where !job.isSettling && now >= job.sendBy { close(job, .expired) }
        for job in held where !job.isSettling && job.unsent > 0 && job.hasOldTokens(settings, now: now) {
            close(job, .yielded(after: .zero))
        }
        renewals.beginRound(held, now: now)
    }

    /// The next statement of the round; nil when it is over.
    mutating func nextRenewal(
        now: ContinuousClock.Instant, using generator: inout some RandomNumberGenerator
    ) -> Renewals.Step? {
        renewals.next(now: now, using: &generator)
    }

    /// Notes the answer to a flush or renewal, and closes the jobs that must not continue.
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
