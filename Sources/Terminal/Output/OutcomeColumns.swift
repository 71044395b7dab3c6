package import QueueCore

/// What has become of recipients, in the order in which it is told everywhere.
package enum OutcomeColumns {
    /// The outcomes, which add up to the recipients that have one. `tally` finds the counts of a row.
    package static func outcomes<Row>(_ tally: @escaping (Row) -> OutcomeTally) -> [Column<Row>] {
        [
            Column("delivered") { .count(tally($0).delivered) },
            Column("rejected") { .count(tally($0).rejected) },
            Column("failed") { .count(tally($0).failed) },
            Column("suppressed") { .count(tally($0).suppressed) },
            Column("expired") { .count(tally($0).expired) },
            Column("cancelled") { .count(tally($0).cancelled) },
            Column("unknown") { .count(tally($0).unknown) },
        ]
    }

    /// The outcomes, and how many recipients were sent to again on the way.
    package static func all<Row>(_ tally: @escaping (Row) -> OutcomeTally) -> [Column<Row>] {
        outcomes(tally) + [Column("retried") { .count(tally($0).retried) }]
    }

    /// The same about one tally, a fact each; then for which reasons recipients did not get it, the most frequent
    /// first.
    package static func facts(
        of tally: OutcomeTally, refusals: [String: Int] = [:]
    ) -> [(name: String, value: Cell)] {
        all { $0 }.map { ($0.name, $0.cell(tally)) }
            + refusals.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.map { ($0.key, .count($0.value)) }
    }
}
