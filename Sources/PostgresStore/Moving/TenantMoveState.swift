extension Statement {
    /// The move of a tenant that this database knows of. No row if it knows of none.
    fileprivate static let tenantMove = Statement(
        "tenant_move",
        #"""
        select m.id::text, m.leaves, m.stage, m.peer, coalesce(m.history_days, 0) as history_days,
               coalesce(m.feedback_days, 0) as feedback_days,
               exists (select from pushq.lineage l where l.is_restore and l.id > m.lineage_id) as was_restored
        from pushq.tenant_move m
        where m.tenant = $tenant
        """#)
}

/// The state of a tenant's move, as one of the two databases knows it.
package struct TenantMoveState: Equatable, Sendable {
    package enum Stage: String, Sendable {
        /// Contents are copied. The old place still serves the tenant.
        case copying
        /// At the old place: nothing new is sent, and the jobs that workers hold come to their end.
        case stopping
        /// At the old place: no session can use the tenant.
        case detached
        /// At the old place: the tenant is at the new one.
        case moved
        /// At the new place: the tenant is here, but the old place does not know it yet.
        case arrived

        /// Reads a stored stage. A newer version of the program may have stored an unknown one; it would do harm to
        /// continue as if it were another stage.
        init(stored text: String) {
            guard let stage = Self(rawValue: text) else {
                fatalError(
                    "a move of a tenant is at the stage \(text), which this version of the program does not know")
            }
            self = stage
        }
    }

    let id: String
    /// Whether this is the database that the tenant leaves.
    package let leaves: Bool
    package let stage: Stage
    /// The other database.
    package let peer: String
    /// Whether the database was restored since the move came to this stage.
    package let wasRestored: Bool
    let historyDays: Int32
    let feedbackDays: Int32
}

extension PostgresConnection {
    /// Returns the move of a tenant that this database knows of.
    package func tenantMove(of tenant: String) async throws(PostgresError) -> TenantMoveState? {
        try await execute(.tenantMove, ["tenant": .text(tenant)]).first.map { row in
            TenantMoveState(
                id: row.text("id"), leaves: row.bool("leaves"),
                stage: .init(stored: row.text("stage")), peer: row.text("peer"),
                wasRestored: row.bool("was_restored"), historyDays: row.int4("history_days"),
                feedbackDays: row.int4("feedback_days"))
        }
    }
}
