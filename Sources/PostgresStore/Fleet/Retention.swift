extension Statement {
    static let forgetSendKeys = Statement(
        "forget_send_keys",
        #"""
        delete from pushq.send_key
        where ctid = any (array(
          select ctid from pushq.send_key where created_at < now() - make_interval(days => $1::int) order by created_at limit 5000))
        """#)
    static let forgetNewestUpdates = Statement(
        "forget_newest_updates",
        #"""
        delete from pushq.newest_update
        where ctid = any (array(
          select ctid from pushq.newest_update
          where updated_at < now() - make_interval(days => $1::int) order by updated_at limit 5000))
        """#)
    /// A send that was committed while its app was being removed is nobody's. Its job would hold a day of bodies for ever.
    static let forgetRemovedQueues = Statement(
        "forget_removed_queues",
        #"""
        with recursive waiting as (
          (select queue_id from pushq.job order by queue_id limit 1)
          union all
          select n.queue_id
          from waiting w
          cross join lateral (select queue_id from pushq.job where queue_id > w.queue_id order by queue_id limit 1) n),
        removed as materialized (
          select queue_id
          from (select queue_id from waiting union select queue_id from pushq.lease union select queue_id from pushq.fan_out) k
          where not exists (select from pushq.queue q where q.id = k.queue_id)),
        jobs as (delete from pushq.job where queue_id in (select queue_id from removed)),
        leases as (delete from pushq.lease where queue_id in (select queue_id from removed))
        delete from pushq.fan_out where queue_id in (select queue_id from removed)
        """#)
    static let listsToForget = Statement("lists_to_forget", "select queue_id, list_id from pushq.lists_to_forget()")
    static let forgetList = Statement("forget_list", "select pushq.forget_list($1, $2, $3, 5000)")
    static let queueIDs = Statement("queue_ids", "select id from pushq.queue order by id")
    static let forgetMessages = Statement(
        "forget_messages",
        "select pushq.forget_messages($1::int, coalesce($2::date, pushq.today()), $3::int, $4::bigint, 1000)")
}

/// How long history is kept.
package struct Retention: Sendable {
    /// Days that are kept after the one in which something was written.
    package var days = 7
    /// Days for which partitions are made ahead, in case that no worker runs for a while.
    package var daysAhead = 4

    package init() {}
}

extension PostgresConnection {
    /// Forgets what lies in plain tables and is past retention, in batches: old keys of sends, which updates of Live Activities were
    /// the newest long ago, lists whose campaign has fanned out or was never started, messages of which neither recipients nor results are kept, and what waits in queues that are gone.
    /// - Parameter today: the day to do it for; nil for the database's own.
    package func forget(_ retention: Retention = Retention(), today: CalendarDay? = nil) async throws(PostgresError) {
        let days = Int32(retention.days)
        _ = try await execute(.forgetRemovedQueues)
        for statement in [Statement.forgetSendKeys, .forgetNewestUpdates] {
            while try await execute(statement, [.int4(days)]).affectedRows == 5000 {}
        }
        for (queueID, list) in try await execute(.listsToForget, []).map({ ($0.int4(0), $0.int8(1)) }) {
            var last: Int64? = 0
            while let after = last {
                last = try await execute(.forgetList, [.int4(queueID), .int8(list), .int8(after)]).first?.optionalInt8(
                    0)
            }
        }
        for queueID in try await execute(.queueIDs, []).map({ $0.int4(0) }) {
            var last: Int64? = 0
            while let after = last {
                let page: [Parameter] = [.int4(queueID), .date(today), .int4(days), .int8(after)]
                last = try await execute(.forgetMessages, page).first?.optionalInt8(0)
            }
        }
    }
}
