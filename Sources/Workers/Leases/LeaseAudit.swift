import PostgresStore
import Transport

/// Gives back the leases in this worker's name that it does not hold: the answer to their claim was lost, or another
/// server, which does not know of their ends, has taken the place of the primary.
///
/// The cost of its statement grows with the number of held jobs, so it uses another connection than renewals and
/// claims.
///
/// Belongs to the engine's event loop.
final class LeaseAudit {
    private let postgres: EngineConnections
    private let store: RetryingConnection
    private let workerID: Int64
    private let jobs: HeldJobs
    private let report: (EngineEvent) -> Void
    private let signal: Signal
    private let claimSignal: Signal
    private let drainProgress: Signal
    private var state: LeaseAuditState
    /// What the last audit found.
    private var found: [UnknownLease] = []
    /// How often the database had been replaced by another copy when the last audit was sent.
    private var changesAudited = 0
    /// The same for the last audit after which no unknown lease was left. Leases that are found after a later change
    /// may have been served before it.
    private var changesSettled = 0

    init(_ context: EngineContext, jobs: HeldJobs) {
        postgres = context.postgres
        store = context.postgres.fanOut
        workerID = context.workerID
        report = context.report
        self.jobs = jobs
        signal = Signal(loop: context.loop)
        claimSignal = Signal(loop: context.loop)
        drainProgress = context.drainProgress
        state = LeaseAuditState(pause: context.settings.lease / 3, shortPause: context.settings.idlePoll)
    }

    /// Whether an audit may be under way or follow.
    var isRunning: Bool { !state.hasEnded }

    /// Notes that a claim is sent.
    func claimBegins() { state.noteClaimBegun() }

    /// Notes that a claim has ended, and that the jobs that it returned are held.
    /// - Parameter isAnswered: false if it is unknown what was claimed.
    func claimEnds(isAnswered: Bool) {
        state.noteClaimEnded(isAnswered: isAnswered)
        claimSignal.raise()
        if !isAnswered { signal.raise() }
    }

    /// Audits soon, because there is reason to expect findings.
    func wake() {
        state.noteDoubt()
        signal.raise()
    }

    /// Ends ``run()`` after the audits that are due.
    func stop() {
        state.stop()
        signal.raise()
    }

    /// Audits three times per lease time while jobs are claimed, until ``stop()``.
    func run() async {
        while !state.hasEnded {
            switch state.next() {
            case .wait(let pause): await signal.wait(atMost: pause)
            case .ask: await ask()
            case .awaitClaim: await claimSignal.wait(atMost: .seconds(1))
            case .giveBack: state.noteGivenBack(await giveBack())
            case .end: break
            }
        }
        drainProgress.raise()
    }

    private func ask() async {
        let known = jobs.all.map(\.claim.key)
        let answer = await store.attempt { connection -> [UnknownLease] in
            // Opening this connection may have shown that there is another primary.
            changesAudited = postgres.changesOfDatabase
            return try await connection.unknownLeases(workerID: workerID, known: known)
        }
        guard let found = answer else { return state.noteNoAnswer() }
        self.found = found
        if found.isEmpty { changesSettled = changesAudited }
        state.noteFound(found.count)
    }

    /// Gives back the leases that were found and are not held. Returns false if some of them may be left: PostgreSQL
    /// did not answer, or their rows were locked.
    private func giveBack() async -> Bool {
        let held = Set(jobs.all.map(\.claim.key))
        let isAfterFailover = postgres.changesOfDatabase != changesSettled
        let back = LeaseAuditState.strangers(among: found, held: held, timelineChanged: isAfterFailover)
        found = []
        guard !back.isEmpty else {
            changesSettled = changesAudited
            return true
        }
        guard let given = await store.attempt({ try await $0.yield(back, workerID: workerID) }) else { return false }
        if !given.keys.isEmpty { report(.leasesFound(given.keys.count, afterFailover: isAfterFailover)) }
        guard given.locked.isEmpty else { return false }
        changesSettled = changesAudited
        return true
    }
}
