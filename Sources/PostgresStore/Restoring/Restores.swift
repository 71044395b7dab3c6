package import FoundationEssentials
package import QueueCore

extension Statement {
    static let restored = Statement(
        "restored",
        #"""
        select tenant, app, environment, found_at, back_to, recipients, at_most_once, campaigns, runs
        from pushq.show_restored()
        """#)

    /// The latest restore, whether or not queues wait for a decision.
    static let lastRestore = Statement(
        "last_restore",
        "select found_at, back_to from pushq.lineage where is_restore order by id desc limit 1")

    static let resumeRestored = Statement(
        "resume_restored", "select recipients, unknown from pushq.resume_restored($queue, $sends)")

    static let declareRestore = Statement("declare_restore", "select pushq.judge_lineage(declared => true)::text")
}

/// A restore of the database to an earlier state.
package struct Restore: Sendable {
    /// When the first worker or command noticed it.
    package let foundAt: Date
    /// The last moment that the restored database knows of.
    package let backTo: Date
}

/// A queue that is paused because its waiting pushes may have been sent before the database was restored.
package struct RestoredQueue: Sendable {
    package let name: QueueName
    package let restore: Restore
    /// Recipients whose pushes may have been sent: all recipients that were due when the restore was found.
    package let recipients: Int
    /// Recipients among them whose pushes may be sent only once.
    package let atMostOnce: Int
    /// Campaigns that had not created all of their jobs. Their recipients count.
    package let campaigns: Int
    /// Schedules with a run that may have been started.
    package let runs: Int
}

/// What an operator decided about a restored queue.
package struct RestoreDecision: Sendable {
    /// Recipients whose pushes may have been sent.
    package let recipients: Int
    /// Recipients among them whose outcome is unknown, so that nothing more is sent to them.
    package let unknown: Int
}

extension PostgresConnection {
    /// The time limit for counting a campaign of millions.
    private static let patience = Duration.seconds(600)

    /// Returns the queues that are undecided since the database was restored.
    package func restoredQueues() async throws(PostgresError) -> [RestoredQueue] {
        try await followTimeline()
        return try await execute(.restored, within: Self.patience).compactMap(RestoredQueue.init)
    }

    /// Returns the last restore of the database; nil if there was none.
    package func lastRestore() async throws(PostgresError) -> Restore? {
        try await execute(.lastRestore).first.map(Restore.init)
    }

    /// Resumes an undecided queue. If `sends`, pushes that may have been sent are sent again, except those that may be
    /// sent only once; otherwise all of them are recorded as unknown. A queue that is not undecided is an error.
    package func resumeRestored(_ queue: QueueName, sends: Bool) async throws(PostgresError) -> RestoreDecision {
        let row = try await execute(
            .resumeRestored, ["queue": .queue(queue), "sends": .bool(sends)], within: Self.patience
        ).one()
        return RestoreDecision(recipients: row.count("recipients"), unknown: row.count("unknown"))
    }

    /// Treats the database as restored, because the operator knows of a restore that pushq cannot detect.
    package func declareRestore() async throws(PostgresError) {
        try await followTimeline()
        _ = try await execute(.declareRestore, within: Self.patience)
    }
}

extension Restore {
    fileprivate init(_ row: Row) {
        self.init(foundAt: row.time("found_at"), backTo: row.time("back_to"))
    }
}

extension RestoredQueue {
    fileprivate init?(_ row: Row) {
        guard let name = QueueName(row) else { return nil }
        self.init(
            name: name, restore: Restore(row), recipients: row.count("recipients"),
            atMostOnce: row.count("at_most_once"), campaigns: row.count("campaigns"), runs: row.count("runs"))
    }
}
