/// Decides when a worker asks for the provider token of a gateway anew, as APNs and the clock tell.
///
/// A value without a clock: its owner passes the time.
struct TokenUpkeep {
    /// What is to be done now.
    struct Step: Equatable {
        /// Have the fleet keep the present token for a while.
        var keeps = false
        /// Ask for the token to use.
        var asks = false
        /// APNs called the present one expired.
        var isRefused = false
    }

    /// For this time after a token was replaced, answers may come to requests that carried the one before.
    private let responseTime: Duration
    private var isRefused = false
    private var mustStay = false
    private var lateAnswersUntil: ContinuousClock.Instant?

    init(responseTime: Duration) { self.responseTime = responseTime }

    /// APNs calls the token expired. Returns whether that is news: of a token that has just been replaced it is not.
    mutating func noteExpired(now: ContinuousClock.Instant) -> Bool {
        if let lateAnswersUntil, now < lateAnswersUntil { return false }
        isRefused = true
        return true
    }

    /// APNs wants no other token for a while.
    mutating func noteTooMany() { mustStay = true }

    /// What is to be done, and is taken for done until ``noteFailed(_:)``.
    /// - Parameter isDue: the present token is so old that another one may be due.
    mutating func next(isDue: Bool) -> Step {
        defer { (isRefused, mustStay) = (false, false) }
        return Step(keeps: mustStay, asks: isRefused || isDue, isRefused: isRefused)
    }

    /// A step could not be carried out: PostgreSQL is out of reach. It is done the next time.
    mutating func noteFailed(_ step: Step) {
        isRefused = isRefused || step.isRefused
        mustStay = mustStay || step.keeps
    }

    /// Another token is used from now on. What was heard of expired ones meanwhile is about the one before.
    mutating func noteReplaced(now: ContinuousClock.Instant) {
        isRefused = false
        lateAnswersUntil = now + responseTime
    }
}
