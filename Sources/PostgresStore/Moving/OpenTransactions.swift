extension Statement {
    /// The transactions that may have found a queue. A transaction that has looked for a queue keeps a lock on this
    /// table until its end. A session with a snapshot may look with that snapshot: a REPEATABLE READ transaction keeps
    /// its first one. A session whose snapshot this login may not see counts as having one.
    fileprivate static let openTransactions = Statement(
        "open_transactions",
        #"""
        select l.virtualtransaction as name
        from pg_locks l
        where l.relation = 'pushq.queue'::regclass and l.pid is distinct from pg_backend_pid()
          and l.database = (select d.oid from pg_database d where d.datname = current_database())
        union
        select l.virtualtransaction
        from pg_stat_activity a
        join pg_locks l on l.pid = a.pid and l.locktype = 'virtualxid'
        where a.datname = current_database() and a.backend_type = 'client backend' and a.pid <> pg_backend_pid()
          and (a.backend_xmin is not null or a.query = '<insufficient privilege>')
        """#)

    /// The processes of those among the named transactions that are still open, and may still find a queue.
    fileprivate static let transactionsStillOpen = Statement(
        "transactions_still_open",
        #"""
        select distinct coalesce(l.pid, 0) as pid
        from pg_locks l
        left join pg_stat_activity a on a.pid = l.pid
        where l.virtualtransaction = any ($names)
          and (l.relation = 'pushq.queue'::regclass
            or l.locktype = 'virtualxid' and (a.backend_xmin is not null or a.query = '<insufficient privilege>'))
        """#)
}

extension PostgresConnection {
    /// Returns the open transactions that may have found a queue or may still find one.
    func openTransactions() async throws(PostgresError) -> [String] {
        try await execute(.openTransactions).map { $0.text("name") }
    }

    /// Returns the processes of these transactions that are still open.
    func processes(ofTransactions names: [String]) async throws(PostgresError) -> [Int32] {
        try await execute(.transactionsStillOpen, ["names": .textArray(names)]).map { $0.int4("pid") }
    }
}
