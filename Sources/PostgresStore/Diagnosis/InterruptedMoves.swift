extension HealthCheck {
    static let interruptedMoves = HealthCheck(
        "interrupted_moves", "moves of tenants to another database that were interrupted"
    ) { connection in
        try await connection.execute(.interruptedMoves).map { row in
            let age = Words.time(seconds: row.float8("seconds"))
            let isStopped = row.bool("is_stopped")
            return HealthFinding(
                isStopped ? .error : .note, "tenant \(row.text("tenant"))",
                isStopped
                    ? "has been stopped since its move to \(row.text("peer")) was interrupted \(age) ago"
                    : "its move to \(row.text("peer")) was interrupted \(age) ago; sending continues",
                .advice("run pushq-admin tenant move again, or undo it with --abandon"))
        }
    }
}

extension Statement {
    fileprivate static let interruptedMoves = Statement(
        "interrupted_moves",
        #"""
        select m.tenant, m.peer, m.stage <> 'copying' as is_stopped,
               extract(epoch from now() - m.changed_at)::float8 as seconds
        from pushq.tenant_move m
        where m.leaves and m.stage <> 'moved'
          and not pushq.has_mover(m.tenant)
        order by m.changed_at
        limit 20
        """#)
}
