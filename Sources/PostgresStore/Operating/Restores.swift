package import FoundationEssentials
package import QueueCore

extension Statement {
    static let restored = Statement(
        "restored",
        #"""
        select tenant, app, environment, found_at, back_to, recipients, at_most_once, campaigns, runs
        from pushq.show_restored()
        """#)

    /// The latest one, whether or not queues wait for a decision.
    static let lastRestore = Statement(
        "last_restore",
        "select found_at, back_to from pushq.lineage where is_restore order by id desc limit 1")

    static let resumeRestored = Statement(
        "resume_restored", "select recipients, unknown from pushq.resume_restored($queue, $sends)")

    static let declareRestore = Statement("declare_restore", "select pushq.judge_lineage(declared => true)::text")
}

/// A time at which the database went back to an earlier state.
package struct Restore: Sendable {
    /// By the first worker or command.
    package let foundAt: Date
    /// The last moment that the database knows of.
    package let backTo: Date
}

/// A queue that is paused because what waits in it may have been sent before the database was restored.
package struct RestoredQueue: Sendable {
    package let name: QueueName
    package let restore: Restore
    /// Recipients who may have been sent to: all who were due when the restore was found.
    package let recipients: Int
    /// Those of them who may be sent to only once.
    package let atMostOnce: Int
    /// Campaigns that had not made all of their jobs; their recipients count.
    package let campaigns: Int
    /// Schedules with a run that may have been started.
    package let runs: Int
}

/// What an operator decided about a restored queue.
package struct RestoreDecision: Sendable {
    /// Recipients who may have been sent to.
    package let recipients: Int
    /// Those of them whose outcome is unknown, so that they are not sent to again.
    package let unknown: Int
}

extension PostgresConnection {
    /// The time that a campaign of millions may take to be counted.
    private static let patience = Duration.seconds(600)

    /// The queues about which nobody has decided since the database was restored.
    package func restoredQueues() async throws(PostgresError) -> [RestoredQueue] {
        try await followTimeline()
        return try await execute(.restored, within: Self.patience).compactMap(RestoredQueue.init)
    }

    /// The last time that the database was restored, if it ever was.
    package func lastRestore() async throws(PostgresError) -> Restore? {
        try await execute(.lastRestore).first.map(Restore.init)
    }

    /// Resumes a queue of a restored database. What may have been sent is sent again, except to those who may be sent
    /// to only once, or recorded as unknown. A queue about which nobody has to decide is an error.
    package func resumeRestored(_ queue: QueueName, sends: Bool) async throws(PostgresError) -> RestoreDecision {
        let row = try await execute(
            .resumeRestored, ["queue": .queue(queue), "sends": .bool(sends)], within: Self.patience
        ).one()
        return RestoreDecision(recipients: row.count("recipients"), unknown: row.count("unknown"))
    }

    /// Treats the database as restored, because somebody knows that it was and it cannot be seen.
    package func declareRestore() async throws(PostgresError) {
        try await followTimeline()
        _ = try await execute(.declareRestore)
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
