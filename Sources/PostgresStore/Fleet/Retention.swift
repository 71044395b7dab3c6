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
    /// the newest long ago, and messages of which neither recipients nor results are kept.
    /// - Parameter today: the day to do it for; nil for the database's own.
    package func forget(_ retention: Retention = Retention(), today: CalendarDay? = nil) async throws(PostgresError) {
        let days = Int32(retention.days)
        for statement in [Statement.forgetSendKeys, .forgetNewestUpdates] {
            while try await execute(statement, [.int4(days)]).affectedRows == 5000 {}
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
