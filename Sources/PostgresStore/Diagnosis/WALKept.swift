extension HealthCheck {
    static let walKept = HealthCheck(
        "wal", "replication slots that nobody reads, which fill the disk with WAL", needsSchema: false
    ) { connection in
        try await connection.execute(.idleSlots).map { row in
            let megabytes = row.int8("kept") / 1_000_000
            return HealthFinding(
                megabytes > 10_000 ? .error : .warning, "slot \(row.text("name"))",
                "nobody reads it, and the server keeps \(megabytes) MB of WAL for it",
                .sql("select pg_drop_replication_slot('\(row.text("name"))'); -- or start its reader"))
        }
    }
}

extension Statement {
    /// Replication slots without a reader. Their names contain only lower-case letters, digits and underscores.
    fileprivate static let idleSlots = Statement(
        "idle_slots",
        #"""
        select slot_name::text as name,
               coalesce(pg_wal_lsn_diff(case when pg_is_in_recovery() then pg_last_wal_replay_lsn()
                                             else pg_current_wal_lsn() end, restart_lsn), 0)::bigint as kept
        from pg_replication_slots
        where not active and not temporary and restart_lsn is not null
        order by slot_name
        """#)
}
