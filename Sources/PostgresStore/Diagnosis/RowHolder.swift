/// What keeps vacuum from removing rows that have died: the transaction or the standby with the oldest snapshot.
struct RowHolder {
    /// A session, a prepared transaction, a replication slot or a standby.
    let subject: String
    /// How many transactions have begun since its snapshot. A snapshot of a standby has no time.
    let age: Int64
    let circumstances: String
    /// A statement that ends it; nil if only somebody on the standby can.
    let remedy: String?

    /// Returns the oldest one of the database that this login sees.
    /// - Parameter age: how long a transaction must have been open to be named.
    static func oldest(heldFor age: Duration, in connection: PostgresConnection) async throws -> RowHolder? {
        try await connection.execute(.rowHolders, ["age": .interval(age)]).first.map { row in
            RowHolder(
                subject: row.text("subject"), age: row.int8("age"), circumstances: row.text("circumstances"),
                remedy: row.optionalText("remedy"))
        }
    }

    /// What it does, as a sentence about it.
    var evidence: String { "\(subject) keeps what died in the last \(age) transactions (\(circumstances))" }

    /// Ends it, and then removes what it has kept.
    func remedy(then vacuum: String) -> HealthFinding.Remedy {
        guard let remedy else {
            return .advice(
                "end the long query on the standby, or set hot_standby_feedback = off there; then: \(vacuum)")
        }
        return .sql(remedy, then: [vacuum])
    }
}

extension Statement {
    /// A standby reports the oldest snapshot of its queries every 10 s (`wal_receiver_status_interval`), so one from a
    /// few hundred transactions ago is normal. It is kept in the standby's slot, or in its session if it has none.
    /// Vacuum ignores the snapshots of other vacuums.
    fileprivate static let rowHolders = Statement(
        "row_holders",
        #"""
        with holder as (
          select 'session ' || a.pid as subject, greatest(age(a.backend_xid), age(a.backend_xmin)) as age,
                 \#(circumstancesOfSession) as circumstances,
                 format('select pg_terminate_backend(%s);', a.pid) as remedy
          from pg_stat_activity a
          where a.datname = current_database() and a.backend_type <> 'walsender' and a.pid <> pg_backend_pid()
            and a.xact_start < clock_timestamp() - $age::interval
            and not exists (select from pg_stat_progress_vacuum v where v.pid = a.pid)
          union all
          select 'prepared ' || gid, age(transaction), concat_ws(', ', owner, 'prepared for commit'),
                 format('rollback prepared %L;', gid)
          from pg_prepared_xacts
          where database = current_database() and prepared < clock_timestamp() - $age::interval
          union all
          select 'slot ' || s.slot_name, age(s.xmin),
                 case when not s.active then 'nobody reads it'
                      else 'read by ' || concat_ws(', ', coalesce(nullif(r.application_name, ''), 'a standby'),
                                                   'at ' || host(r.client_addr)) end,
                 case when not s.active then \#(remedyOfIdleSlot) end
          from pg_replication_slots s
          left join pg_stat_replication r on r.pid = s.active_pid
          where age(s.xmin) >= 1000 and s.wal_status is distinct from 'lost'
          union all
          select 'standby ' || coalesce(nullif(r.application_name, ''), r.pid::text), age(r.backend_xmin),
                 concat_ws(', ', r.usename, 'at ' || host(r.client_addr), r.state), null
          from pg_stat_replication r
          where age(r.backend_xmin) >= 1000
            and not exists (select from pg_replication_slots s where s.active_pid = r.pid))
        select subject, age::bigint as age, circumstances, remedy
        from holder
        where age > 0
        order by holder.age desc, subject
        limit 1
        """#)
}
