/// What a worker knows about the database's clock, from answers that name the moment at which PostgreSQL executed the
/// statement.
///
/// By the worker's clock, that moment lies between the request and the answer. If the worker stands still while it
/// waits, these may be seconds apart. But both clocks go on, so what the quickest of the last statements showed also
/// holds for a slow one.
///
/// A value without a clock of its own: its owner passes the time.
struct DatabaseClock {
    /// When a moment of the database's clock was, by the worker's clock.
    struct Moment: Equatable {
        let earliest: ContinuousClock.Instant
        let latest: ContinuousClock.Instant
        /// Whether further statements will hardly tell it better: even many of them in a row have left the bounds not
        /// much narrower.
        let isSettled: Bool

        var uncertainty: Duration { earliest.duration(to: latest) }
    }

    /// The two clocks move apart by at most one part in this many: each may be corrected by half of that.
    private static let partsOfDrift = 1000
    /// After this time without a statement, the bounds are too wide to be of use.
    private static let forgottenAfter = Duration.seconds(10)
    /// After this many statements, the quickest of them has probably taken no longer than the way there and back.
    private static let statementsThatTell = 8
    /// Bounds that are wider by more than this factor may be from a statement that was slow.
    private static let usualSpread = 2

    private let origin: ContinuousClock.Instant
    /// Bounds of the difference between the worker's clock, counted from `origin`, and the database's clock, at a time.
    private var known: (least: Duration, most: Duration, at: ContinuousClock.Instant)?
    /// The number of statements that these bounds are from.
    private var count = 0
    /// How wide the bounds were after many statements in a row, which is about the time of the way to PostgreSQL and
    /// back. While there are no statements, it does not change. Nil: it is not known yet.
    private var settledWidth: Duration?

    init(now: ContinuousClock.Instant) { origin = now }

    /// Whether a further statement will probably tell its moment, because the last ones did: to less than `width`, or
    /// as well as it gets.
    func tells(within width: Duration) -> Bool {
        guard let known else { return false }
        let uncertainty = known.most - known.least
        return uncertainty < width || isSettled(uncertainty)
    }

    /// Whether bounds of this width are about as narrow as they get.
    private func isSettled(_ width: Duration) -> Bool {
        settledWidth.map { width <= $0 * Self.usualSpread } ?? false
    }

    /// Notes a statement, and returns when it was executed.
    /// - Parameters:
    ///   - moment: the database's time in microseconds since 1970.
    ///   - asked: a time before the statement was sent.
    ///   - answered: a time after its answer was read.
    mutating func note(
        _ moment: Int64, askedAt asked: ContinuousClock.Instant, answeredAt answered: ContinuousClock.Instant
    ) -> Moment {
        let moment = Duration.microseconds(moment)
        var (least, most) = (origin.duration(to: asked) - moment, origin.duration(to: answered) - moment)
        var former = 0
        if let known {
            let drift = known.at.duration(to: answered) / Self.partsOfDrift
            let (knownLeast, knownMost) = (known.least - drift, known.most + drift)
            if max(least, knownLeast) > min(most, knownMost) {
                // One of the clocks was set, or another server answers. Only this statement counts.
                settledWidth = nil
            } else if known.at + Self.forgottenAfter >= answered {
                (least, most) = (max(least, knownLeast), min(most, knownMost))
                former = count
            }
        }
        known = (least, most, answered)
        count = former + 1
        let width = most - least
        if count >= Self.statementsThatTell { settledWidth = width }
        return Moment(
            earliest: origin + (moment + least), latest: origin + (moment + most),
            isSettled: isSettled(width))
    }
}
