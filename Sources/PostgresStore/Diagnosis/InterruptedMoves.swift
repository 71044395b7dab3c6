extension HealthCheck {
    static let interruptedMoves = HealthCheck(
        "interrupted_moves", "moves of tenants to another database that were interrupted"
    ) { connection in
        try await connection.execute(.interruptedMoves).map { row in
            let (peer, age) = (row.text("peer"), Words.time(seconds: row.float8("seconds")))
            let (leaves, isStopped) = (row.bool("leaves"), row.bool("is_stopped"))
            let what =
                if !leaves {
                    "its move here from \(peer) was interrupted \(age) ago"
                } else if isStopped {
                    "has been stopped since its move to \(peer) was interrupted \(age) ago"
                } else {
                    "its move to \(peer) was interrupted \(age) ago; sending continues"
                }
            // The move may have progressed further in the other database than this one remembers.
            guard row.bool("is_restored") else {
                return HealthFinding(
                    leaves && isStopped ? .error : .note, "tenant \(row.text("tenant"))", what,
                    .advice(
                        leaves
                            ? "run pushq-admin tenant move again, or undo it with --abandon. If \(peer) is lost for good, add "
                                + "--target-is-lost"
                            : "run pushq-admin tenant move in \(peer) again, or undo it there with --abandon"))
            }
            return HealthFinding(
                .error, "tenant \(row.text("tenant"))",
                "\(what). Since then, this database was restored, so the tenant may "
                    + (leaves ? "be in the other one as well" : "be in neither"),
                .advice(
                    "see where it is with pushq-admin tenant where --databases FILE, and what to do then in "
                        + "docs/restore.md"))
        }
    }
}

extension Statement {
    fileprivate static let interruptedMoves = Statement(
        "interrupted_moves",
        #"""
        select m.tenant, m.peer, m.leaves, m.stage <> 'copying' as is_stopped,
               exists (select from pushq.lineage l where l.is_restore and l.id > m.lineage_id) as is_restored,
               extract(epoch from now() - m.changed_at)::float8 as seconds
        from pushq.tenant_move m
        where (m.leaves and m.stage <> 'moved' or not m.leaves and m.stage = 'copying')
          and not pushq.has_mover(m.tenant)
        order by m.changed_at
        limit \#(HealthCheck.queryLimit)
        """#)
}
