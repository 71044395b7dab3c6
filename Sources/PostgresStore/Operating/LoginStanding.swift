extension Statement {
    /// Without a schema there is no row.
    fileprivate static let loginStanding = Statement(
        "login_standing",
        #"""
        select current_user::text as login, pg_has_role(n.nspowner, 'usage') as is_operator,
               coalesce(bool_or(r.rolname = 'pushq_producer'), false) as is_producer,
               coalesce(bool_or(r.rolname = 'pushq_reader'), false) as is_reader
        from pg_namespace n
        left join pg_roles r on r.rolname in ('pushq_producer', 'pushq_reader') and pg_has_role(r.oid, 'usage')
        where n.nspname = 'pushq'
        group by n.nspowner
        """#)
}

/// What a login may do at all.
package struct LoginStanding: Sendable, Equatable {
    /// From the most rights to none.
    package enum Kind: Sendable {
        /// With the rights of the schema's owner.
        case `operator`
        /// It was granted a tenant.
        case producer
        /// It was granted a tenant to read only.
        case reader
        case stranger
    }

    package let login: String
    package let kind: Kind
}

extension PostgresConnection {
    /// What the login may do; nil if there is no schema.
    package func loginStanding() async throws(PostgresError) -> LoginStanding? {
        guard let row = try await execute(.loginStanding).first else { return nil }
        let kind: LoginStanding.Kind =
            row.bool("is_operator")
            ? .operator : row.bool("is_producer") ? .producer : row.bool("is_reader") ? .reader : .stranger
        return LoginStanding(login: row.text("login"), kind: kind)
    }
}
