/// Stride scheduling: contenders take turns in proportion to their weights.
///
/// Each contender has a *pass* that grows by `1 / weight` with every unit served. The contender with the lowest pass is
/// next. A contender that was away joins at the pass that the others have reached, so it does not catch up for the time
/// away. (Waldspurger and Weihl, "Stride Scheduling", 1995.)
package struct FairShare: Sendable {
    /// A contender's place in the order.
    package struct Turn: Sendable {
        /// The share of this contender relative to others; above 0.
        package var weight: Double
        fileprivate var pass: Double

        package init(weight: Double) {
            precondition(weight > 0, "a weight is above 0")
            self.weight = weight
            pass = 0
        }

        /// Whether this contender goes before `other`.
        package func precedes(_ other: Turn) -> Bool { pass < other.pass }
    }

    /// The pass of the contender that was served last.
    private var reached = 0.0

    package init() {}

    /// Admits a contender that was away: it continues from the pass that the others have reached.
    package func join(_ turn: inout Turn) { turn.pass = max(turn.pass, reached) }

    /// Counts `units` for the contender that was served.
    /// - Parameter isAhead: whether the contender was served before its turn. It then waits later for the lead that
    ///   this gives it over the others.
    package mutating func serve(_ turn: inout Turn, units: Int, isAhead: Bool = false) {
        if !isAhead { reached = max(reached, turn.pass) }
        turn.pass += Double(units) / turn.weight
    }

    /// How far a contender is ahead of the others, in units at a weight of 1.
    package func lead(of turn: Turn) -> Double { turn.pass - reached }
}
