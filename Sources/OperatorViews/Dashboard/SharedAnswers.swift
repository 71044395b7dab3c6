package import HTTP1

/// Keeps answers to questions for a moment. However many operators look at the page, each question goes to the database
/// at most once a second, and not again while it is being asked.
///
/// It is a value without a clock. The caller carries out the steps that it returns.
package struct SharedAnswers<Waiter> {
    package enum Step {
        /// Answer with this.
        case answer(Response)
        /// Ask the database, then pass the answer to ``finish(_:with:now:)``.
        case ask
        /// The question is being asked already; the waiter gets the same answer.
        case wait
        /// Too many questions are under way.
        case refuse
    }

    private enum State {
        case asking([Waiter])
        case known(Response, until: ContinuousClock.Instant)
    }

    /// How long an answer is valid.
    package static var lifetime: Duration { .seconds(1) }
    /// The maximum number of different questions that are being asked or have an answer.
    private static var maximum: Int { 64 }

    private var states: [String: State] = [:]

    package init() {}

    /// Returns what to do about a question. For `ask` and `wait`, it keeps the waiter.
    package mutating func begin(_ question: String, _ waiter: Waiter, now: ContinuousClock.Instant) -> Step {
        switch states[question] {
        case .known(let response, let until) where now < until: return .answer(response)
        case .asking(let waiters):
            states[question] = .asking(waiters + [waiter])
            return .wait
        case .known, nil: break
        }
        forgetOld(now)
        guard states.count < Self.maximum else { return .refuse }
        states[question] = .asking([waiter])
        return .ask
    }

    /// Keeps an answer, and returns the waiters for it.
    package mutating func finish(
        _ question: String, with response: Response, now: ContinuousClock.Instant
    ) -> [Waiter] {
        guard case .asking(let waiters) = states[question] else { return [] }
        states[question] = .known(response, until: now + Self.lifetime)
        return waiters
    }

    /// Forgets all answers, because something was changed.
    package mutating func forgetKnown() {
        states = states.filter { if case .asking = $0.value { true } else { false } }
    }

    private mutating func forgetOld(_ now: ContinuousClock.Instant) {
        states = states.filter { if case .known(_, let until) = $0.value { now < until } else { true } }
    }
}
