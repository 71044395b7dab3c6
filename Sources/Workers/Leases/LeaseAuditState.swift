import PostgresStore

/// Decides when the leases in this worker's name are audited, and which of the leases found are given back.
///
/// Claims continue meanwhile, on another connection. A lease that an audit finds may belong to a claim whose answer is
/// on its way. So nothing is given back before the claims that the audit may have seen have ended.
struct LeaseAuditState {
    enum Step: Equatable {
        case wait(Duration)
        /// Ask for leases that the worker does not know of. Answered by ``noteFound(_:)`` or ``noteNoAnswer()``.
        case ask
        /// Wait until a claim has ended.
        case awaitClaim
        /// Give back the leases that were found and are not held. Answered by ``noteGivenBack(_:)``.
        case giveBack
        case end
    }

    private enum Phase: Equatable {
        case resting
        case asking(claimsBegun: Int)
        /// Leases were found, and the claims up to this number have to end first.
        case found(claims: Int)
        case givingBack
        case ended
    }

    /// The pauses with and without a reason to expect findings.
    private let shortPause: Duration
    private let pause: Duration
    private var phase = Phase.resting
    private var hasRested = false
    /// Whether there may be leases that the worker does not know of.
    private var isDue = false
    private var isStopping = false

    /// The number of claims that were sent, and of those that have ended, with or without an answer.
    private var claimsBegun = 0
    private var claimsEnded = 0
    /// The number of claims that had begun when the last answered audit was sent.
    private var claimsAudited = 0

    /// - Parameters:
    ///   - pause: the time between two audits while jobs are claimed.
    ///   - shortPause: the same, if there is reason to expect findings.
    init(pause: Duration, shortPause: Duration) {
        self.pause = pause
        self.shortPause = shortPause
    }

    /// Whether the last audit is done.
    var hasEnded: Bool { phase == .ended }

    // MARK: Events

    /// Notes that a claim is sent.
    mutating func noteClaimBegun() { claimsBegun += 1 }

    /// Notes that a claim has ended, and that the jobs that it returned are held.
    /// - Parameter isAnswered: false if it is unknown what was claimed.
    mutating func noteClaimEnded(isAnswered: Bool) {
        claimsEnded += 1
        if !isAnswered { isDue = true }
    }

    /// Notes that there is reason to expect findings.
    mutating func noteDoubt() { isDue = true }

    /// Ends after the audits that are due.
    mutating func stop() { isStopping = true }

    // MARK: Steps

    /// Returns the next step. The previous step must be done.
    mutating func next() -> Step {
        switch phase {
        case .resting:
            if isStopping, !isDue {
                phase = .ended
                return .end
            }
            guard isStopping || hasRested else {
                hasRested = true
                return .wait(isDue ? shortPause : pause)
            }
            hasRested = false
            guard isDue || claimsAudited != claimsBegun else { return next() }
            // What gives reason to doubt from now on may be later than what the audit sees.
            isDue = false
            phase = .asking(claimsBegun: claimsBegun)
            return .ask
        case .found(let claims):
            guard claimsEnded >= claims else { return .awaitClaim }
            phase = .givingBack
            return .giveBack
        case .asking, .givingBack, .ended: fatalError("the step before is not through")
        }
    }

    /// Notes how many unknown leases an audit found.
    mutating func noteFound(_ count: Int) {
        guard case .asking(let claims) = phase else { fatalError("nothing was asked") }
        claimsAudited = claims
        phase = count > 0 ? .found(claims: claimsBegun) : .resting
    }

    /// Notes that an audit was not answered. It is repeated, unless the worker is about to end.
    mutating func noteNoAnswer() {
        guard case .asking = phase else { fatalError("nothing was asked") }
        isDue = true
        phase = isStopping ? .ended : .resting
    }

    /// Notes whether PostgreSQL answered when leases were given back.
    mutating func noteGivenBack(_ isGivenBack: Bool) {
        guard phase == .givingBack else { fatalError("nothing was to be given back") }
        if !isGivenBack { isDue = true }
        phase = isStopping ? .ended : .resting
    }

    // MARK: Leases to give back

    /// The leases to give back among those that an audit found, in the form in which they are given back.
    ///
    /// Nothing was sent for a lease that this worker never held, so its watermark returns to where it was. After a
    /// failover, the worker may have served such a lease: the old primary knew that its job had ended, and the new one
    /// does not. Then the lease goes back like that of a lost worker.
    /// - Parameter timelineChanged: whether another server may have taken the place of the one where the leases were
    ///   taken.
    static func strangers(
        among found: [UnknownLease], held: Set<LeaseKey>, timelineChanged: Bool
    ) -> [YieldedLease] {
        found.filter { !held.contains($0.progress.key) }.map { lease in
            timelineChanged
                ? YieldedLease(progress: lease.progress, addedLosses: 1) : YieldedLease(progress: lease.asItWas)
        }
    }
}
