import QueueCore

/// Jobs that PostgreSQL refuses to end, or to take back, for a reason for which they are not to blame, such as a
/// missing right or a damaged index. They stay held, so that nothing is sent again, and are tried again with backoff.
///
/// As long as PostgreSQL has accepted no job since a refusal, it probably refuses all of them. So one job at a time is
/// tried, each time another one, and jobs that are through meanwhile wait behind. As soon as one is accepted, all are
/// tried. A job that is refused again although another one was accepted since is to blame after all.
///
/// A value without a clock: its owner passes the time.
struct RefusedJobs {
    private var waiting: [HeldJob] = []
    /// When the next job is tried; nil until that is drawn.
    private var nextTry: ContinuousClock.Instant?
    /// The number of refusals after which the pause grows.
    private var attempts = 0
    /// The number of statements that PostgreSQL has accepted.
    private var accepted = 0
    /// Why PostgreSQL probably refuses all jobs; nil if it does not.
    private(set) var problem: String?

    var isEmpty: Bool { waiting.isEmpty }

    /// Whether PostgreSQL has refused more than one job in a row, so that this is worth a report.
    var isConfirmed: Bool { problem != nil && attempts > 1 }

    /// Notes that PostgreSQL has refused a job alone.
    /// - Returns: false if the job is to blame: it is not kept here.
    mutating func refuse(_ job: HeldJob, because problem: String) -> Bool {
        if let before = job.settling.acceptedBeforeRefusal, accepted > before { return false }
        job.settling.acceptedBeforeRefusal = accepted
        self.problem = problem
        attempts += 1
        keep(job)
        return true
    }

    /// Keeps a job that is to blame, but that PostgreSQL refuses to set aside, too.
    mutating func keep(_ job: HeldJob) {
        job.settling.refusals += 1
        job.settling.isKeptBack = true
        waiting.append(job)
        nextTry = nil
    }

    /// Makes jobs wait, because PostgreSQL would probably refuse them, too.
    mutating func postpone(_ jobs: [HeldJob]) {
        precondition(problem != nil, "jobs are postponed while all are refused")
        for job in jobs { job.settling.isKeptBack = true }
        waiting.insert(contentsOf: jobs, at: 0)
    }

    /// Notes that PostgreSQL has accepted a statement.
    mutating func noteAccepted() {
        accepted += 1
        noteOver()
    }

    /// Notes that PostgreSQL does not refuse all jobs any more.
    mutating func noteOver() {
        guard problem != nil else { return }
        problem = nil
        attempts = 0
        nextTry = nil
    }

    /// Returns the jobs to try now, and keeps them no more.
    mutating func due(now: ContinuousClock.Instant, using generator: inout some RandomNumberGenerator) -> [HeldJob] {
        guard !waiting.isEmpty else { return [] }
        let next = nextTry ?? now + pause(using: &generator)
        nextTry = next
        guard now >= next else { return [] }
        nextTry = nil
        if problem != nil { return [waiting.removeFirst()] }
        defer { waiting = [] }
        return waiting
    }

    /// The time until the next try. Jobs that only waited for a refused one need no pause once that one was accepted.
    private func pause(using generator: inout some RandomNumberGenerator) -> Duration {
        let attempt = problem == nil ? waiting.map(\.settling.refusals).min() ?? 0 : attempts
        return attempt == 0 ? .zero : Backoff.store.delay(afterAttempt: attempt, using: &generator)
    }
}
