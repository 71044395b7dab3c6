import QueueCore
import Terminal

/// The columns in which outcomes are counted, everywhere in the same order.
enum OutcomeColumns {
    /// `tally` finds the counts of a row.
    static func all<Row>(_ tally: @escaping (Row) -> OutcomeTally) -> [Column<Row>] {
        [
            Column("delivered") { .count(tally($0).delivered) },
            Column("rejected") { .count(tally($0).rejected) },
            Column("failed") { .count(tally($0).failed) },
            Column("suppressed") { .count(tally($0).suppressed) },
            Column("expired") { .count(tally($0).expired) },
            Column("cancelled") { .count(tally($0).cancelled) },
            Column("unknown") { .count(tally($0).unknown) },
            Column("retried") { .count(tally($0).retried) },
        ]
    }
}
