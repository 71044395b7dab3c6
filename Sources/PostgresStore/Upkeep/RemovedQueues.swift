extension Statement {
    /// `$after`: the key of the last row that was deleted.
    static let clearQueue = Statement(
        "clear_queue", "select gone, last from pushq.clear_queue($queue_id, $table, $since, 5000)")
    static let clearSendKeys = Statement("clear_send_keys", "select pushq.clear_send_keys($queue_id, 5000)")
    static let clearSettings = Statement("clear_settings", "select pushq.clear_settings($queue_id)")
    static let daysOfHistory = Statement("days_of_history", "select parent, day from pushq.days_of_history()")
    /// Skips a list that a producer has locked; a later round finds it by its age.
    static let listsOfQueue = Statement(
        "lists_of_queue",
        #"""
        with found as (
          update pushq.list
          set abandoned = true
          where queue_id = $queue_id
            and id in (
              select l.id
              from pushq.list l
              where l.queue_id = $queue_id and l.id > $after_list
              order by l.id
              limit \#(stepOfLists)
              for no key update skip locked)
          returning queue_id, id)
        select queue_id, id as list_id
        from found
        order by id
        """#)
    /// A send or a setting may be committed while its app is being removed, so the queues are cleared a last time a day
    /// later.
    static let removedQueues = Statement(
        "removed_queues",
        #"""
        select queue_id, removed_at < now() - interval '1 day' as is_last
        from pushq.removed_queue
        where $tenant::text is null or tenant = $tenant
        order by queue_id
        """#)
    static let forgetRemovedQueue = Statement(
        "forget_removed_queue", "delete from pushq.removed_queue where queue_id = $queue_id")
}

extension PostgresConnection {
    /// Deletes what is left of removed queues. Returns whether all of it is gone.
    /// - Parameters:
    ///   - tenant: only the queues of the tenant that had this name; nil: all.
    ///   - mayContinue: asked before each step.
    ///   - count: is called after each step with the table and the number of rows deleted.
    func clearRemovedQueues(
        of tenant: String? = nil, while mayContinue: () async throws(PostgresError) -> Bool,
        count: (String, Int) -> Void = { _, _ in }
    ) async throws(PostgresError) -> Bool {
        let queues = try await execute(.removedQueues, ["tenant": .text(tenant)])
            .map { (id: $0.int4("queue_id"), isLast: $0.bool("is_last")) }
        guard try await clear(queues: queues.map(\.id), while: mayContinue, count: count) else { return false }
        for queue in queues where queue.isLast {
            _ = try await execute(.forgetRemovedQueue, ["queue_id": .int4(queue.id)])
        }
        return true
    }

    /// Deletes the rows of removed queues. Returns whether all of them are gone.
    /// - Parameters:
    ///   - mayContinue: asked before each step.
    ///   - count: is called after each step with the table and the number of rows deleted.
    func clear(
        queues: [Int32], while mayContinue: () async throws(PostgresError) -> Bool, count: (String, Int) -> Void
    ) async throws(PostgresError) -> Bool {
        for queueID in queues {
            guard try await clear(queue: queueID, while: mayContinue, count: count) else { return false }
        }
        return try await clearHistory(of: queues, while: mayContinue, count: count)
    }

    private func clear(
        queue queueID: Int32, while mayContinue: () async throws(PostgresError) -> Bool, count: (String, Int) -> Void
    ) async throws(PostgresError) -> Bool {
        // The first tables are those whose rows would be sent.
        for table in [
            "job", "lease", "fan_out", "wave", "campaign_share", "campaign_tally", "campaign", "device", "profile",
            "recent_push", "badge", "channel", "newest_update", "feedback_record", "empty_send", "cancelled",
            "stuck_job",
        ] {
            var last: Int64? = 0
            while let since = last {
                guard try await mayContinue() else { return false }
                let parameters: Parameters = ["queue_id": .int4(queueID), "table": .text(table), "since": .int8(since)]
                let row = try await execute(.clearQueue, parameters).one()
                last = row.optionalInt8("last")
                count(table, row.count("gone"))
            }
        }
        let queue: Parameters = ["queue_id": .int4(queueID)]
        let areListsGone = try await forgetLists(.listsOfQueue, while: mayContinue) { _, list in
            queue + ["after_list": .int8(list)]
        }
        guard areListsGone else { return false }
        var gone = 5000
        while gone == 5000 {
            guard try await mayContinue() else { return false }
            gone = try await execute(.clearSendKeys, queue).one().count("clear_send_keys")
        }
        guard try await mayContinue() else { return false }
        count("settings", try await execute(.clearSettings, queue).one().count("clear_settings"))
        return true
    }

    /// Deletes the queues' rows from history. Whole days are dropped as well, but perhaps only after years: a day stays
    /// as long as any tenant keeps it.
    private func clearHistory(
        of queues: [Int32], while mayContinue: () async throws(PostgresError) -> Bool, count: (String, Int) -> Void
    ) async throws(PostgresError) -> Bool {
        guard !queues.isEmpty else { return true }
        for (parent, day) in try await execute(.daysOfHistory).map({ ($0.text("parent"), $0.date("day")) }) {
            guard try await clearDay(day, of: parent, queues: queues, while: mayContinue, count: count) else {
                return false
            }
        }
        return true
    }
}
