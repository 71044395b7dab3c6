package import PostgresStore
import QueueCore
package import Terminal

/// The figures of queues and workers as columns, for the screen and for `--once`.
package enum TopColumns {
    /// The columns of queues.
    package static var queues: [Column<QueueLoad>] {
        [
            Column("queue") { .text("\($0.queue)") },
            Column("state") { .text($0.state) },
            Column("waiting") { $0.isPartial ? .atLeast($0.waitingRecipients) : .count($0.waitingRecipients) },
            Column("is_partial", isForProgramsOnly: true) { .yes($0.isPartial) },
            Column("campaigns_unbegun", isForProgramsOnly: true) { .count($0.unbegunCampaigns) },
            Column("oldest") { .duration($0.oldest) },
            Column("sent_per_second") { .decimal($0.sentPerSecond, places: $0.sentPerSecond < 10 ? 1 : 0) },
            Column("limit_per_second") { .number($0.limit) },
            Column("in_flight") { .count($0.inFlight) },
            Column("median_latency") { .duration($0.answerTimes.duration(of: 0.5)) },
            Column("p99_latency") { .duration($0.answerTimes.duration(of: 0.99)) },
            Column("refused_percent") { .decimal($0.refusedPercent, places: 1) },
            Column("main_reason") { .text($0.refused.first?.reason.text) },
            Column("workers") { .count($0.workers) },
            Column("paused_because") { .text($0.pausedReason) },
        ]
    }

    /// The columns of workers.
    package static var workers: [Column<WorkerSummary>] {
        [
            Column("worker") { .text($0.name) },
            Column("state") { .text($0.state.rawValue) },
            Column("in_flight") { .count($0.inFlight) },
            Column("streams") { .count($0.streams) },
            Column("connections") { .count($0.connections) },
            Column("held_jobs") { .count($0.heldJobs) },
            Column("held_recipients") { .count($0.heldRecipients) },
            Column("queues_unreachable") { .count($0.unreachableQueues) },
            Column("queues_in_outage") { .count($0.queuesInOutage) },
            Column("seen_ago") { .duration($0.silence) },
            Column("version") { .text($0.version) },
            Column("queues") { .text($0.queues) },
        ]
    }

    /// The columns of the reasons that APNs gives.
    package static var reasons: [Column<ReasonRate>] {
        [
            Column("answer") { .text($0.reason) },
            Column("per_second") { .decimal($0.perSecond, places: 1) },
            Column("percent") { .decimal($0.share * 100, places: 1) },
            Column("queues") { .count($0.queues) },
        ]
    }

    /// All tables that the login may see.
    package static func listings(_ figures: TopFigures, in state: TopState) -> [Listing] {
        var listings = [Listing("queues", state.sorted(figures.loads.queues), columns: queues)]
        if let found = figures.workers { listings.append(Listing("workers", found, columns: workers)) }
        return listings + [Listing("answers", figures.loads.reasons, columns: reasons)]
    }

    // MARK: On the screen

    static var liveQueues: [LiveColumn<QueueLoad>] {
        [
            live(queues, "queue", 0), live(queues, "state", 1), live(queues, "waiting", 2), live(queues, "oldest", 3),
            live(queues, "sent_per_second", 4, as: "sent/s"), live(queues, "limit_per_second", 6, as: "limit"),
            live(queues, "in_flight", 5), live(queues, "median_latency", 9, as: "median"),
            live(queues, "p99_latency", 8, as: "p99"), live(queues, "refused_percent", 7, as: "refused%"),
            live(queues, "main_reason", 10, as: "reason"), live(queues, "paused_because", 11),
        ]
    }
    static var liveWorkers: [LiveColumn<WorkerSummary>] {
        [
            live(workers, "worker", 0), live(workers, "state", 1), live(workers, "in_flight", 2),
            live(workers, "streams", 3), live(workers, "connections", 4), live(workers, "held_jobs", 6),
            live(workers, "held_recipients", 7), live(workers, "queues_unreachable", 5, as: "unreachable"),
            live(workers, "queues_in_outage", 5, as: "in outage"), live(workers, "seen_ago", 8, as: "seen"),
            live(workers, "version", 9), live(workers, "queues", 10, as: "serves"),
        ]
    }
    static var liveReasons: [LiveColumn<ReasonRate>] {
        [
            live(reasons, "answer", 0), live(reasons, "per_second", 1, as: "a second"),
            live(reasons, "percent", 2, as: "%"),
            live(reasons, "queues", 3),
        ]
    }

    private static func live<Row>(
        _ columns: [Column<Row>], _ name: String, _ importance: Int, as title: String? = nil
    ) -> LiveColumn<Row> {
        guard let column = columns.first(where: { $0.name == name }) else { fatalError("no column \(name)") }
        return LiveColumn(
            title: title ?? name.replacing("_", with: " "), cell: column.cell, importance: importance)
    }
}

extension QueueLoad {
    /// The lower of its own limit and the limit of all its tenant's queues together; nil: no limit.
    package var limit: Double? {
        guard let rate, let tenantRate else { return rate ?? tenantRate }
        return min(rate, tenantRate)
    }

    /// The percentage of refusals among the last answers; nil if there are none.
    package var refusedPercent: Double? {
        let answers = accepted + refusedCount
        return answers > 0 ? Double(refusedCount) * 100 / Double(answers) : nil
    }
}

extension AnswerTimes {
    /// The time within which this share of the answers came, rounded up; nil if there are none.
    package func duration(of share: Double) -> Duration? { bound(of: share).map { .milliseconds($0) } }
}
