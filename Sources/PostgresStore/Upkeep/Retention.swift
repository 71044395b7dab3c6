extension Statement {
    static let forgetSendKeys = forgetting("send_key", by: "due_at")
    static let forgetNewestUpdates = forgetting("newest_update", by: "due_at")
    static let forgetEmptySends = forgetting("empty_send", by: "created_at")

    /// Deletes a batch of a table's rows, those first that are past retention for longest.
    private static func forgetting(_ table: String, by time: String) -> Statement {
        Statement(
            "forget_\(table)",
            #"""
            delete from pushq.\#(table)
            where ctid = any (array(
              select ctid
              from pushq.\#(table)
              where \#(time) < now() - make_interval(days => $days::int)
              order by \#(time)
              limit 5000))
            """#)
    }

    /// Not while a job of it waits, which may be scheduled for long.
    static let forgetCancelled = Statement(
        "forget_cancelled",
        #"""
        delete from pushq.cancelled
        where ctid = any (array(
          select x.ctid from pushq.cancelled x
          where x.cancelled_at < now() - make_interval(days => $days::int)
            and not exists (select from pushq.body b where b.queue_id = x.queue_id and b.root_id = x.id)
            and not exists (select from pushq.job j where j.queue_id = x.queue_id and j.id = x.id)
            and not exists (select from pushq.lease l where l.queue_id = x.queue_id and l.job_id = x.id)
          order by x.cancelled_at limit 5000))
        """#)
    static let forgetAudit = Statement("forget_audit", "select pushq.forget_audit(5000)")
    /// Of jobs that have ended since.
    static let forgetStuckJobs = Statement(
        "forget_stuck_jobs",
        #"""
        delete from pushq.stuck_job s
        where not exists (select from pushq.job j where j.queue_id = s.queue_id and j.id = s.job_id)
          and not exists (select from pushq.lease l where l.queue_id = s.queue_id and l.job_id = s.job_id)
        """#)
    static let listsToForget = Statement("lists_to_forget", "select queue_id, list_id from pushq.lists_to_forget()")
    static let forgetList = Statement("forget_list", "select pushq.forget_list($queue_id, $list, $after, 5000)")
}

/// How long history is kept.
package struct Retention: Sendable {
    /// Days that are kept after the one in which something was written.
    package var days = 7
    /// The same of feedback, which producers read: some of them once a week.
    package var feedbackDays = 30
    /// Days for which partitions are made ahead, in case that no worker runs for a while.
    package var daysAhead = 4

    package init() {}
}

extension PostgresConnection {
    /// Forgets what lies in plain tables and is past retention, in batches: old keys of sends, sends that reached
    /// nobody, what was cancelled, which updates of Live Activities were the newest long ago, lists whose campaign has
    /// fanned out or was never started, old entries of the audit, and what queues hold that are gone.
    /// - Parameter goesOn: asked before each step; where it says no, the rest is left to the next round.
    package func forget(
        _ retention: Retention = Retention(), while goesOn: () async throws(PostgresError) -> Bool = { true }
    ) async throws(PostgresError) {
        guard try await clearRemovedQueues(while: goesOn) else { return }
        let days = Int32(retention.days)
        for statement in [Statement.forgetSendKeys, .forgetEmptySends, .forgetCancelled, .forgetNewestUpdates] {
            while try await goesOn(), try await execute(statement, ["days": .int4(days)]).affectedRows == 5000 {}
        }
        while try await goesOn(), try await execute(.forgetAudit).one().count("forget_audit") == 5000 {}
        _ = try await execute(.forgetStuckJobs)
        for (queueID, list) in try await execute(.listsToForget).map({ ($0.int4("queue_id"), $0.int8("list_id")) }) {
            guard try await forgetList(list, ofQueue: queueID, while: goesOn) else { return }
        }
    }

    /// Deletes a list that nobody needs, and its members. Returns whether all of it is gone.
    /// - Parameter goesOn: asked before each step.
    func forgetList(
        _ list: Int64, ofQueue queueID: Int32, while goesOn: () async throws(PostgresError) -> Bool
    ) async throws(PostgresError) -> Bool {
        var last: Int64? = 0
        while let after = last {
            guard try await goesOn() else { return false }
            let parameters: Parameters = ["queue_id": .int4(queueID), "list": .int8(list), "after": .int8(after)]
            last = try await execute(.forgetList, parameters).one().optionalInt8("forget_list")
        }
        return true
    }
}
