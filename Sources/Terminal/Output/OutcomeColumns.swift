package import QueueCore

/// The columns for the outcomes of recipients, in the order that all commands use.
package enum OutcomeColumns {
    /// Returns the columns of the outcomes, which add up to the recipients that have one. `tally` returns the counts of
    /// a row.
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

    /// Returns the columns of the outcomes, and of the recipients that were retried on the way.
    package static func all<Row>(_ tally: @escaping (Row) -> OutcomeTally) -> [Column<Row>] {
        outcomes(tally) + [Column("retried") { .count(tally($0).retried) }]
    }

    /// Returns the same as facts about one tally, followed by the reasons for refusals, the most frequent first.
    package static func facts(
        of tally: OutcomeTally, refusals: [String: Int] = [:]
    ) -> [(name: String, value: Cell)] {
        all { $0 }.map { ($0.name, $0.cell(tally)) }
            + refusals.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.map { ($0.key, .count($0.value)) }
    }
}
