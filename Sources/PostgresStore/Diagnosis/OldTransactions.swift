extension HealthCheck {
    /// - Parameter age: the age from which on a transaction is old. From twelve times that age on, it is an error.
    static func transactions(olderThan age: Duration = .seconds(300)) -> HealthCheck {
        HealthCheck(
            "transactions", "transactions that have been open for minutes, so that newer dead rows cannot be removed",
            needsSchema: false
        ) { connection in
            try await connection.execute(.oldTransactions, ["age": .interval(age)]).map { row in
                let seconds = row.float8("seconds")
                return HealthFinding(
                    seconds > age / .seconds(1) * 12 ? .error : .warning, row.text("subject"),
                    "its transaction has been open for \(Words.time(seconds: seconds)) (\(row.text("circumstances")))",
                    .sql(row.text("remedy")))
            }
        }
    }
}

extension Statement {
    /// Who has a session of `pg_stat_activity`, from where, and what it does, without its statement.
    static let circumstancesOfSession =
        "concat_ws(', ', usename, nullif(application_name, ''), 'at ' || host(client_addr), state)"

    /// The five oldest transactions of the database, without their statements, which may contain tokens and payloads.
    fileprivate static let oldTransactions = Statement(
        "old_transactions",
        #"""
        with old as (
          select 'session ' || pid as subject, extract(epoch from clock_timestamp() - xact_start)::float8 as seconds,
                 case backend_type when 'client backend' then \#(circumstancesOfSession) else query end
                   as circumstances,
                 format('select pg_terminate_backend(%s);', pid) as remedy
          from pg_stat_activity
          where datname = current_database() and pid <> pg_backend_pid()
            and xact_start < clock_timestamp() - $age::interval
            -- A vacuum may take hours. An ANALYZE calls the functions of indexes, which may be a tenant's.
            and (backend_type = 'client backend'
              or backend_type = 'autovacuum worker' and pid in (select p.pid from pg_stat_progress_analyze p))
          union all
          select 'prepared ' || gid, extract(epoch from clock_timestamp() - prepared)::float8,
                 concat_ws(', ', owner, 'prepared for commit'), format('rollback prepared %L;', gid)
          from pg_prepared_xacts
          where database = current_database() and prepared < clock_timestamp() - $age::interval)
        select subject, seconds, circumstances, remedy
        from old
        order by seconds desc
        limit 5
        """#)
}
