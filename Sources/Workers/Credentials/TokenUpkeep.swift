/// Decides when a worker asks again for the provider token of a gateway, by APNs' answers and the clock.
///
/// A value without a clock: its owner passes the time.
struct TokenUpkeep {
    /// What the owner has to do now.
    struct Step: Equatable {
        /// Whether to make the fleet keep the present token for a while.
        var keeps = false
        /// Whether to ask for the token to use.
        var asks = false
        /// Whether APNs called the present token expired.
        var isRefused = false
    }

    /// The time after a replacement in which requests that carried the previous token may be answered.
    private let responseTime: Duration
    private var isRefused = false
    private var mustStay = false
    private var lateAnswersUntil: ContinuousClock.Instant?

    init(responseTime: Duration) { self.responseTime = responseTime }

    /// Notes that APNs calls the token expired. Returns whether that is news: it is not if the token was just replaced.
    mutating func noteExpired(now: ContinuousClock.Instant) -> Bool {
        if let lateAnswersUntil, now < lateAnswersUntil { return false }
        isRefused = true
        return true
    }

    /// Notes that APNs accepts no other token for a while.
    mutating func noteTooMany() { mustStay = true }

    /// Returns what to do now. It counts as done unless ``noteFailed(_:)`` is called.
    /// - Parameter isDue: whether the present token is so old that another one may be due.
    mutating func next(isDue: Bool) -> Step {
        defer { (isRefused, mustStay) = (false, false) }
        return Step(keeps: mustStay, asks: isRefused || isDue, isRefused: isRefused)
    }

    /// Notes that a step could not be carried out because PostgreSQL is out of reach. The next step includes it.
    mutating func noteFailed(_ step: Step) {
        isRefused = isRefused || step.isRefused
        mustStay = mustStay || step.keeps
    }

    /// Notes that another token is used from now on. Answers that called a token expired meanwhile meant the previous
    /// one.
    mutating func noteReplaced(now: ContinuousClock.Instant) {
        isRefused = false
        lateAnswersUntil = now + responseTime
    }
}
