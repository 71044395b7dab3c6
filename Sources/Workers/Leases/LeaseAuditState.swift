import PostgresStore

/// Decides when the leases in this worker's name are audited, and which of those that it finds are given back.
///
/// Claims go on meanwhile, on another connection. What an audit finds may be what a claim brings whose answer is on its
/// way, so nothing is given back before the claims have ended that the audit may have seen.
struct LeaseAuditState {
    enum Step: Equatable {
        case wait(Duration)
        /// Ask which leases there are that nobody knows of. Answered by ``noteFound(_:)`` or ``noteNoAnswer()``.
        case ask
        /// Wait until a claim has ended.
        case awaitClaim
        /// Give back what was found and is not held. Answered by ``noteGivenBack(_:)``.
        case giveBack
        case end
    }

    private enum Phase: Equatable {
        case resting
        case asking(claimsBegun: Int)
        /// Leases were found, and the claims up to this one have to end.
        case found(claims: Int)
        case givingBack
        case ended
    }

    /// With and without a reason to believe that something is found.
    private let shortPause: Duration
    private let pause: Duration
    private var phase = Phase.resting
    private var hasRested = false
    /// There may be leases that nobody knows of.
    private var isDue = false
    private var isStopping = false

    /// Claims that were sent, and those of them that have ended, with or without an answer.
    private var claimsBegun = 0
    private var claimsEnded = 0
    /// The claims that had begun when the last audit that was answered was sent.
    private var claimsAudited = 0

    /// - Parameters:
    ///   - pause: between two audits, as long as anything is claimed.
    ///   - shortPause: the same, if there is reason to believe that something is found.
    init(pause: Duration, shortPause: Duration) {
        self.pause = pause
        self.shortPause = shortPause
    }

    /// Whether the last audit is through.
    var hasEnded: Bool { phase == .ended }

    // MARK: What comes at any time

    /// A claim is sent.
    mutating func noteClaimBegun() { claimsBegun += 1 }

    /// A claim has ended, and what it brought is held.
    /// - Parameter isAnswered: false if nobody knows what it claimed.
    mutating func noteClaimEnded(isAnswered: Bool) {
        claimsEnded += 1
        if !isAnswered { isDue = true }
    }

    /// There is reason to believe that something is found.
    mutating func noteDoubt() { isDue = true }

    /// Ends after what is due.
    mutating func stop() { isStopping = true }

    // MARK: Steps

    /// The next step. The one before has to be through.
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
            phase = .asking(claimsBegun: claimsBegun)
            return .ask
        case .found(let claims):
            guard claimsEnded >= claims else { return .awaitClaim }
            phase = .givingBack
            return .giveBack
        case .asking, .givingBack, .ended: preconditionFailure("the step before is not through")
        }
    }

    /// The audit was answered. Returns whether anything that it found may have to be given back.
    mutating func noteFound(_ count: Int) {
        guard case .asking(let claims) = phase else { preconditionFailure("nothing was asked") }
        isDue = false
        claimsAudited = claims
        phase = count > 0 ? .found(claims: claimsBegun) : .resting
    }

    /// The audit was not answered: it is repeated, unless the worker is about to end.
    mutating func noteNoAnswer() {
        guard case .asking = phase else { preconditionFailure("nothing was asked") }
        isDue = true
        phase = isStopping ? .ended : .resting
    }

    /// What was found and is not held was given back, or that was not answered.
    mutating func noteGivenBack(_ isGivenBack: Bool) {
        guard phase == .givingBack else { preconditionFailure("nothing was to be given back") }
        if !isGivenBack { isDue = true }
        phase = isStopping ? .ended : .resting
    }

    // MARK: What is given back

    /// Of the leases that an audit found, those that go back, in the form in which they do.
    ///
    /// Nothing was sent for a lease that was never held here, so its watermark goes back to where it was.
    static func strangers(
        among found: [UnknownLease], held: Set<LeaseKey>, wasHeld: (LeaseKey) -> Bool
    ) -> [YieldedLease] {
        found.filter { !held.contains($0.progress.key) }.map { lease in
            YieldedLease(progress: wasHeld(lease.progress.key) ? lease.progress : lease.asItWas)
        }
    }
}
