package import HTTP1

/// Keeps answers to questions for a moment. However many operators look at the page, each question goes to the database
/// at most once a second, and not again while it is being asked.
///
/// It is a value without a clock. The caller carries out the steps that it returns.
package struct SharedAnswers<Waiter> {
    package enum Step {
        /// Answer with this.
        case answer(Response)
        /// Ask the database, then pass the answer and this number to ``finish(_:_:with:now:)``.
        case ask(Int)
        /// The question is being asked already; the waiter gets the same answer.
        case wait
        /// Too many questions are under way.
        case refuse
    }

    private enum State {
        case asking(Int)
        case known(Response, until: ContinuousClock.Instant)
    }

    /// How long an answer is valid.
    package static var lifetime: Duration { .seconds(1) }
    /// The maximum number of different questions that are being asked or have an answer.
    private static var maximum: Int { 64 }

    private var states: [String: State] = [:]
    /// Who waits for each question that is being asked, by its number. Some were asked before the last change.
    private var waiters: [Int: [Waiter]] = [:]
    private var lastNumber = 0

    package init() {}

    /// Returns what to do about a question. For `ask` and `wait`, it keeps the waiter.
    package mutating func begin(_ question: String, _ waiter: Waiter, now: ContinuousClock.Instant) -> Step {
        switch states[question] {
        case .known(let response, let until) where now < until: return .answer(response)
        case .asking(let number):
            waiters[number]?.append(waiter)
            return .wait
        case .known, nil: break
        }
        forgetOld(now)
        guard max(states.count, waiters.count) < Self.maximum else { return .refuse }
        lastNumber += 1
        states[question] = .asking(lastNumber)
        waiters[lastNumber] = [waiter]
        return .ask(lastNumber)
    }

    /// Returns the waiters for an answer, and keeps it if nothing was changed since the question.
    package mutating func finish(
        _ question: String, _ number: Int, with response: Response, now: ContinuousClock.Instant
    ) -> [Waiter] {
        if case .asking(number) = states[question] { states[question] = .known(response, until: now + Self.lifetime) }
        return waiters.removeValue(forKey: number) ?? []
    }

    /// Forgets all answers, also those that are still to come, because something was changed. Who waits gets the answer
    /// to the old question.
    package mutating func forgetAll() { states = [:] }

    private mutating func forgetOld(_ now: ContinuousClock.Instant) {
        states = states.filter { if case .known(_, let until) = $0.value { now < until } else { true } }
    }
}
