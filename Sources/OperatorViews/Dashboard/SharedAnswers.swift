package import HTTP1

/// Answers to questions, each kept for a moment: however many look at the page, the database is asked once a second,
/// and while it is being asked nobody asks it the same again.
///
/// A value without a clock. The caller carries out what it says.
package struct SharedAnswers<Waiter> {
    package enum Step {
        /// Answer with this.
        case answer(Response)
        /// Ask the database, and hand the answer to ``finish(_:with:now:)``.
        case ask
        /// Somebody asks it already; the waiter gets the same answer.
        case wait
        /// Too many questions are under way.
        case refuse
    }

    private enum State {
        case asking([Waiter])
        case known(Response, until: ContinuousClock.Instant)
    }

    /// How long an answer is good for.
    package static var lifetime: Duration { .seconds(1) }
    /// The most different questions that are under way, or known.
    private static var maximum: Int { 64 }

    private var states: [String: State] = [:]

    package init() {}

    /// What to do about a question. With `ask` and `wait` the waiter is kept.
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

    /// Keeps an answer, and returns who waits for it.
    package mutating func finish(
        _ question: String, with response: Response, now: ContinuousClock.Instant
    ) -> [Waiter] {
        guard case .asking(let waiters) = states[question] else { return [] }
        states[question] = .known(response, until: now + Self.lifetime)
        return waiters
    }

    /// Something was changed: what was known is asked anew.
    package mutating func forgetKnown() {
        states = states.filter { if case .asking = $0.value { true } else { false } }
    }

    private mutating func forgetOld(_ now: ContinuousClock.Instant) {
        states = states.filter { if case .known(_, let until) = $0.value { now < until } else { true } }
    }
}
