extension HealthCheck {
    static let walKept = HealthCheck(
        "wal", "replication slots that nobody reads, which fill the disk with WAL and may keep dead rows",
        needsSchema: false
    ) { connection in
        try await connection.execute(.idleSlots).map { row in
            let megabytes = row.int8("kept") / 1_000_000
            let rows = row.optionalInt8("age").map { ", and what died in the last \($0) transactions" }
            return HealthFinding(
                megabytes > 10_000 ? .error : .warning, "slot \(row.text("name"))",
                "nobody reads it, and the server keeps \(megabytes) MB of WAL for it\(rows ?? "")",
                .sql(row.text("remedy")))
        }
    }
}

extension Statement {
    /// What to do about a slot of `pg_replication_slots` without a reader.
    static let remedyOfIdleSlot = "format('select pg_drop_replication_slot(%L); -- or start its reader', slot_name)"

    /// Replication slots without a reader. The slot of a standby also keeps the rows that its last queries could see.
    fileprivate static let idleSlots = Statement(
        "idle_slots",
        #"""
        select slot_name::text as name,
               coalesce(pg_wal_lsn_diff(case when pg_is_in_recovery() then pg_last_wal_replay_lsn()
                                             else pg_current_wal_lsn() end, restart_lsn), 0)::bigint as kept,
               age(xmin)::bigint as age, \#(remedyOfIdleSlot) as remedy
        from pg_replication_slots
        where not active and not temporary and restart_lsn is not null
        order by slot_name
        """#)
}
