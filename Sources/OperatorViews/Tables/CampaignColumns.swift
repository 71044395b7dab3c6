package import PostgresStore
import QueueCore
package import Terminal

/// The columns of campaigns in commands and on the page.
package enum CampaignColumns {
    package static var all: [Column<CampaignSummary>] {
        [
            Column("queue") { .text("\($0.queue)") },
            Column("key") { .text($0.key) },
            Column("state") { .text($0.state) },
            Column("total") { .count($0.total) },
            Column("waiting") { .count($0.waiting) },
        ] + OutcomeColumns.all { $0.tally } + [Column("starts_at") { .time($0.startsAt) }]
    }

    /// The outcomes by the time at which they were recorded.
    package static var timeline: [Column<OutcomeTimeline.Interval>] {
        [Column("at") { .time($0.start) }] + OutcomeColumns.outcomes { $0.tally }
    }

    /// Why recipients did not get the push.
    package static var reasons: [Column<OutcomeTimeline.Cause>] {
        [
            Column("reason") { .text($0.reason) },
            Column("count") { .count($0.count) },
        ]
    }
}
