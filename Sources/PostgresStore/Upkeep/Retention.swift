extension Statement {
    static let forgetSendKeys = Statement(
        "forget_send_keys",
        #"""
        delete from pushq.send_key
        where ctid = any (array(
          select ctid from pushq.send_key where due_at < now() - make_interval(days => $1::int) order by due_at limit 5000))
        """#)
    static let forgetNewestUpdates = Statement(
        "forget_newest_updates",
        #"""
        delete from pushq.newest_update
        where ctid = any (array(
          select ctid from pushq.newest_update
          where due_at < now() - make_interval(days => $1::int) order by due_at limit 5000))
        """#)
    static let forgetEmptySends = Statement(
        "forget_empty_sends",
        #"""
        delete from pushq.empty_send
        where ctid = any (array(
          select ctid from pushq.empty_send where created_at < now() - make_interval(days => $1::int) order by created_at limit 5000))
        """#)
    /// Not while a job of it waits, which may be scheduled for long.
    static let forgetCancelled = Statement(
        "forget_cancelled",
        #"""
        delete from pushq.cancelled
        where ctid = any (array(
          select x.ctid from pushq.cancelled x
          where x.cancelled_at < now() - make_interval(days => $1::int)
            and not exists (select from pushq.body b where b.queue_id = x.queue_id and b.root_id = x.id)
            and not exists (select from pushq.job j where j.queue_id = x.queue_id and j.id = x.id)
            and not exists (select from pushq.lease l where l.queue_id = x.queue_id and l.job_id = x.id)
          order by x.cancelled_at limit 5000))
        """#)
    static let listsToForget = Statement("lists_to_forget", "select queue_id, list_id from pushq.lists_to_forget()")
    static let forgetList = Statement("forget_list", "select pushq.forget_list($1, $2, $3, 5000)")
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
    /// Forgets what lies in plain tables and is past retention, in batches: old keys of sends, sends that reached nobody, what was
    /// cancelled, which updates of Live Activities were the newest long ago, lists whose campaign has fanned out or was never started, and
    /// what queues hold that are gone.
    /// - Parameter goesOn: asked before each step; where it says no, the rest is left to the next round.
    package func forget(
        _ retention: Retention = Retention(), while goesOn: () async throws(PostgresError) -> Bool = { true }
    ) async throws(PostgresError) {
        for (queueID, isLast) in try await execute(.removedQueues, []).map({ ($0.int4(0), $0.bool(1)) }) {
            guard try await clear(queue: queueID, while: goesOn) else { return }
            if isLast { _ = try await execute(.forgetRemovedQueue, [.int4(queueID)]) }
        }
        let days = Int32(retention.days)
        for statement in [Statement.forgetSendKeys, .forgetEmptySends, .forgetCancelled, .forgetNewestUpdates] {
            while try await goesOn(), try await execute(statement, [.int4(days)]).affectedRows == 5000 {}
        }
        for (queueID, list) in try await execute(.listsToForget, []).map({ ($0.int4(0), $0.int8(1)) }) {
            var last: Int64? = 0
            while let after = last, try await goesOn() {
                last = try await execute(.forgetList, [.int4(queueID), .int8(list), .int8(after)]).first?.optionalInt8(
                    0)
            }
        }
    }
}
