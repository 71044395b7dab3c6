// Who may move a tenant: a login with the rights of the schema's owner, in one session at a time.
extension Statement {
    /// Whether this login may move tenants, and whether the session is that of this connection alone: a pooler gives
    /// another process ID. No row if there is no such schema.
    fileprivate static let mayMove = Statement(
        "may_move",
        #"""
        select pg_has_role(n.nspowner, 'usage') as may, current_user::text as login,
               pg_get_userbyid(n.nspowner)::text as owner, pg_backend_pid() = $backend as is_direct
        from pg_namespace n
        where n.nspname = 'pushq'
        """#)

    fileprivate static let lockMove = Statement(
        "lock_move", "select pushq.lock_move($tenant) as is_mine")
    fileprivate static let unlockMove = Statement(
        "unlock_move", "select pushq.unlock_move($tenant)::text")
}

extension PostgresConnection {
    /// Returns whether this login may move tenants, and whether no pooler is in between; nil if this is not a database
    /// of pushq.
    func mayMove() async throws(PostgresError) -> (may: Bool, login: String, owner: String, isDirect: Bool)? {
        try await execute(.mayMove, ["backend": .int4(backendProcessID)]).first.map {
            ($0.bool("may"), $0.text("login"), $0.text("owner"), $0.bool("is_direct"))
        }
    }

    /// Takes the lock for moving the tenant. Returns whether this session has it now.
    func lockMove(of tenant: String) async throws(PostgresError) -> Bool {
        try await execute(.lockMove, ["tenant": .text(tenant)]).one().bool("is_mine")
    }

    /// Releases the lock for moving the tenant. Does nothing if this session does not have it.
    func unlockMove(of tenant: String) async throws(PostgresError) {
        _ = try await execute(.unlockMove, ["tenant": .text(tenant)])
    }
}
