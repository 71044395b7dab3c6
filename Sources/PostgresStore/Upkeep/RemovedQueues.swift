extension Statement {
    /// `$after`: the key of the last row that was deleted.
    static let clearQueue = Statement("clear_queue", "select pushq.clear_queue($queue_id, $table, $after, 5000)")
    /// A send may be committed while its app is removed: so the queues are cleared a last time a day later.
    static let removedQueues = Statement(
        "removed_queues",
        "select queue_id, removed_at < now() - interval '1 day' as is_last from pushq.removed_queue order by queue_id")
    static let forgetRemovedQueue = Statement(
        "forget_removed_queue", "delete from pushq.removed_queue where queue_id = $queue_id")
}

extension PostgresConnection {
    /// Deletes what is left of queues that were removed. Returns whether all of it is gone.
    /// - Parameter goesOn: asked before each step.
    func clearRemovedQueues(
        while goesOn: () async throws(PostgresError) -> Bool
    ) async throws(PostgresError) -> Bool {
        for (queueID, isLast) in try await execute(.removedQueues).map({ ($0.int4("queue_id"), $0.bool("is_last")) }) {
            guard try await clear(queue: queueID, while: goesOn) else { return false }
            if isLast { _ = try await execute(.forgetRemovedQueue, ["queue_id": .int4(queueID)]) }
        }
        return true
    }

    /// Deletes what a removed queue held. Returns whether all of it is gone.
    /// - Parameter goesOn: asked before each step.
    func clear(
        queue queueID: Int32, while goesOn: () async throws(PostgresError) -> Bool
    ) async throws(PostgresError) -> Bool {
        // What would be sent comes first.
        for table in [
            "job", "lease", "fan_out", "campaign_tally", "campaign", "device", "channel", "newest_update",
            "feedback_record",
        ] {
            var last: Int64? = 0
            while let after = last {
                guard try await goesOn() else { return false }
                let parameters: Parameters = ["queue_id": .int4(queueID), "table": .text(table), "after": .int8(after)]
                last = try await execute(.clearQueue, parameters).one().optionalInt8("clear_queue")
            }
        }
        return true
    }
}
