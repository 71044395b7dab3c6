import PostgresStore
import QueueCore
import Transport

/// Gives back the leases in this worker's name that it does not know of: their claim came with an answer that was lost, or their end
/// could not be written.
///
/// What it asks grows with what is held, so it is asked apart from what renews leases, and beside the claims.
///
/// Belongs to the engine's event loop.
final class LeaseAudit {
    private let store: EngineStore
    private let settings: EngineSettings
    private let owner: Int64
    private let jobs: HeldJobs
    private let report: (EngineEvent) -> Void
    private let signal: Signal
    private let claimSignal: Signal
    /// There may be leases that nobody knows of.
    private var isDue = false
    private var isStopping = false
    /// An audit may be under way.
    private(set) var isRunning = true

    /// Claims that were sent, and those of them that have ended, with or without an answer.
    private var claimsBegun = 0
    private var claimsEnded = 0
    /// The claims that were known of at the last audit.
    private var claimsAudited = 0

    init(_ context: EngineContext, jobs: HeldJobs) {
        store = context.stores.fanOut
        settings = context.settings
        owner = context.owner
        self.jobs = jobs
        report = context.report
        signal = Signal(loop: context.loop)
        claimSignal = Signal(loop: context.loop)
    }

    /// Notes that a claim is sent.
    func claimBegins() { claimsBegun += 1 }

    /// Notes that a claim has ended, and that what it brought is held.
    /// - Parameter isAnswered: false if nobody knows what it claimed.
    func claimEnds(isAnswered: Bool) {
        claimsEnded += 1
        claimSignal.raise()
        if !isAnswered { hurry() }
    }

    /// Audits soon: there is reason to believe that something is found.
    func hurry() {
        isDue = true
        signal.raise()
    }

    /// Ends ``run()`` after what is due.
    func stop() {
        isStopping = true
        signal.raise()
    }

    /// Audits three times in a lease's time as long as anything is claimed, until ``stop()``.
    func run() async {
        while !isStopping {
            await signal.wait(atMost: isDue ? settings.idleLook : settings.lease / 3)
            if isDue || claimsAudited != claimsBegun { await audit() }
        }
        if isDue { await audit() }
        isRunning = false
    }

    private func audit() async {
        let begun = claimsBegun
        let known = jobs.all.map(\.claim.key)
        guard let found = await store.attempt({ try await $0.unknownLeases(owner: owner, known: known) }) else {
            isDue = true
            return
        }
        isDue = false
        claimsAudited = begun
        guard !found.isEmpty else { return }
        // What was claimed meanwhile is no stranger, once the claim's answer is there.
        let last = claimsBegun
        while claimsEnded < last { await claimSignal.wait(atMost: .seconds(1)) }
        let held = Set(jobs.all.map(\.claim.key))
        let strangers = found.filter { !held.contains($0.progress.key) }
        guard !strangers.isEmpty else { return }
        // Nothing was sent for a lease that was never known here: its mark goes back to where it was.
        let back = strangers.map { lease in
            YieldedLease(progress: jobs.wasAbandoned(lease.progress.key) ? lease.progress : lease.asItWas)
        }
        guard let given = await store.attempt({ try await $0.yield(back, owner: owner) }) else { return hurry() }
        if !given.keys.isEmpty { report(.leasesFound(given.keys.count)) }
    }
}
