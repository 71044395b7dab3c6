extension Statement {
    /// SQL: whether a role `r` of `pg_roles` is a worker by a grant. A superuser has the rights of all roles without
    /// one.
    static let isWorker = """
        exists (
          select from pg_auth_members m
          where m.roleid = to_regrole('pushq_worker') and m.member = r.oid and not (\(onlyAdministers)))
        """
    /// SQL: whether a membership `m` only lets its member grant the role. From PostgreSQL 16 on, a login that is no
    /// superuser has such a membership of each role that it has created. Earlier versions have no such columns.
    static let onlyAdministers = """
        coalesce(m.admin_option and not (to_jsonb(m) ->> 'inherit_option')::boolean
          and not (to_jsonb(m) ->> 'set_option')::boolean, false)
        """
    /// The statement that makes a login a worker, or revokes that; no row if there is no such login. Another session
    /// may do the same at this moment for another database of the server, hence `unique_violation`.
    fileprivate static let changeWorkerLogin = Statement(
        "change_worker_login",
        #"""
        select case when $is_granted::boolean
                    then format(
                      -- As a literal: between dollar quotes, a name could end them.
                      'do %L', format(
                        'begin grant pushq_worker to %I; exception when unique_violation then null; end', r.rolname))
                    else format('revoke pushq_worker from %I', r.rolname) end as statement,
               \#(isWorker) as is_member,
               to_regrole('pushq_worker') is not null as has_role,
               quote_ident(current_user) as me,
               coalesce(pg_has_role(to_regrole('pushq_owner'), 'usage'), false) as is_owner,
               to_regclass('pushq.audit') is not null as has_audit
        from pg_roles r
        where r.rolname = $login
        """#)
    /// Notes the change in the audit, because no trigger sees the members of a role.
    fileprivate static let noteWorkerLogin = Statement(
        "note_worker_login", "select pushq.note_change(null, 'worker_login', $login, $action, '{}')::text")
}

/// Why a login was not made a worker, or could not be revoked.
package enum WorkerGrantError: Error, Equatable {
    /// The server has no login of this name.
    case noLogin
    /// The login to revoke is not a worker.
    case noWorker
    /// The server has no role `pushq_worker`.
    case noRole
    /// The login would not have the rights of the roles that it is a member of.
    case doesNotInherit
    /// The login acts for this tenant, and would read what belongs to all others.
    case actsFor(tenant: String)
    case mayNotGrant(GrantRefusal)
}

extension PostgresConnection {
    /// Makes a login a member of `pushq_worker`, which may do what `pushq work` does, or revokes that.
    package func setWorker(_ login: String, isGranted: Bool) async throws {
        let rows = try await execute(.changeWorkerLogin, ["login": .text(login), "is_granted": .bool(isGranted)])
        guard let row = rows.first else { throw WorkerGrantError.noLogin }
        guard row.bool("has_role") else { throw WorkerGrantError.noRole }
        // An administrator of the server who may not read the table may grant the role, too.
        if isGranted, row.bool("is_owner"), row.bool("has_audit"), let tenant = try await tenants(of: login).first {
            throw WorkerGrantError.actsFor(tenant: tenant)
        }
        let isNews = row.bool("is_member") != isGranted
        try await transaction {
            // Without the right to do so, the statement fails here, even if there is nothing to revoke.
            do {
                try await runScript(row.text("statement"))
            } catch let error as PostgresError {
                guard error.isNotAllowed, row.bool("is_owner") else { throw error }
                throw WorkerGrantError.mayNotGrant(GrantRefusal(role: "pushq_worker", login: row.text("me")))
            }
            if isGranted {
                guard try await hasRights(of: "pushq_worker", login) else { throw WorkerGrantError.doesNotInherit }
            }
            guard isNews, row.bool("is_owner"), row.bool("has_audit") else { return }
            _ = try await execute(
                .noteWorkerLogin, ["login": .text(login), "action": .text(isGranted ? "created" : "removed")])
        }
        guard isGranted || row.bool("is_member") else { throw WorkerGrantError.noWorker }
    }
}
