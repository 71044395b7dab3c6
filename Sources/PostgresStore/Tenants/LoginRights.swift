extension Statement {
    /// What the login may do; no row if there is no schema.
    fileprivate static let loginRights = Statement(
        "login_rights",
        #"""
        select current_user::text as login, pg_has_role(n.nspowner, 'usage') as is_operator,
               coalesce(bool_or(r.rolname = 'pushq_producer'), false) as is_producer,
               coalesce(bool_or(r.rolname = 'pushq_reader'), false) as is_reader,
               -- Without roles, whose login this was is not known.
               case when not pg_has_role(n.nspowner, 'usage')
                      and coalesce(pg_has_role(to_regrole('pushq_owner'), 'usage'),
                                   (select o.rolsuper from pg_roles o where o.oid = n.nspowner))
                      then pg_get_userbyid(n.nspowner)::text end as other_owner
        from pg_namespace n
        left join pg_roles r on r.rolname in ('pushq_producer', 'pushq_reader') and pg_has_role(r.oid, 'usage')
        where n.nspname = 'pushq'
        group by n.nspowner
        """#)
}

/// The kind of rights that a login has.
package struct LoginRights: Sendable, Equatable {
    /// From all rights to none.
    package enum Kind: Sendable {
        /// Has the rights of the schema's owner.
        case `operator`
        /// Was granted a tenant.
        case producer
        /// Was granted a tenant to read only.
        case reader
        case stranger
    }

    package let login: String
    package let kind: Kind
    /// The schema's owner, if it is not `pushq_owner`, of whose rights the login has: a dump was restored without
    /// owners or without roles. The login would have the rights of an operator otherwise.
    package let otherOwner: String?

    /// Says in one line that the schema has another owner, and what to do; nil if it has not.
    package var ownerProblem: String? {
        otherOwner.map {
            "the schema pushq belongs to \($0) and not to pushq_owner, as after a restore without owners or roles: run "
                + "'pushq-admin migrate' as \($0), which corrects that"
        }
    }
}

extension PostgresConnection {
    /// Returns what the login may do; nil if there is no schema.
    package func loginRights() async throws(PostgresError) -> LoginRights? {
        guard let row = try await execute(.loginRights).first else { return nil }
        let kind: LoginRights.Kind =
            row.bool("is_operator")
            ? .operator : row.bool("is_producer") ? .producer : row.bool("is_reader") ? .reader : .stranger
        return LoginRights(login: row.text("login"), kind: kind, otherOwner: row.optionalText("other_owner"))
    }
}
