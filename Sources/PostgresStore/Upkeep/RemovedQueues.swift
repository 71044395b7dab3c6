extension Statement {
    /// $1 queue_id; $2 table; $3 the key of the last row that was deleted.
    static let clearQueue = Statement("clear_queue", "select pushq.clear_queue($1, $2, $3, 5000)")
    /// A send may be committed while its app is removed: so the queues are cleared a last time a day later.
    static let removedQueues = Statement(
        "removed_queues",
        "select queue_id, removed_at < now() - interval '1 day' from pushq.removed_queue order by queue_id")
    static let forgetRemovedQueue = Statement(
        "forget_removed_queue", "delete from pushq.removed_queue where queue_id = $1")
}

extension PostgresConnection {
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
                last = try await execute(.clearQueue, [.int4(queueID), .text(table), .int8(after)]).first?.optionalInt8(
                    0)
            }
        }
        return true
    }
}
