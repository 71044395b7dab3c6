package import FoundationEssentials

extension Statement {
    fileprivate static let grantTenant = Statement(
        "grant_tenant",
        #"""
        insert into pushq.tenant_login (login, tenant_id, read_only)
        select $login, t.id, $read_only::boolean
        from pushq.tenant t
        where t.name = $tenant
        on conflict (login, tenant_id) do update set read_only = excluded.read_only, granted_at = now()
        returning tenant_id
        """#)
    fileprivate static let revokeTenant = Statement(
        "revoke_tenant",
        #"""
        delete from pushq.tenant_login l
        using pushq.tenant t
        where t.id = l.tenant_id and t.name = $tenant and l.login = $login
        returning l.tenant_id
        """#)
    fileprivate static let tenantLogins = Statement(
        "tenant_logins",
        #"""
        select t.name as tenant, l.login, l.read_only, l.granted_at, r.oid is not null as exists,
               \#(wasGranted) as was_granted
        from pushq.tenant_login l
        join pushq.tenant t on t.id = l.tenant_id
        left join pg_roles r on r.rolname = l.login
        where $tenant::text is null or t.name = $tenant
        order by t.name, l.login
        """#)
    /// Whether a role `r` of `pg_roles` has either of the roles that a grant makes it a member of.
    private static let wasGranted =
        "(coalesce(pg_has_role(r.oid, to_regrole('pushq_producer'), 'member'), false) "
        + "or coalesce(pg_has_role(r.oid, to_regrole('pushq_reader'), 'member'), false))"
    fileprivate static let otherTenants = Statement(
        "other_tenants",
        #"""
        select t.name
        from pushq.tenant_login l
        join pushq.tenant t on t.id = l.tenant_id
        where l.login = $login and t.name <> $tenant
        order by t.name
        """#)
    /// The statement that makes a login a producer or reader; no row if there is no such role. Another session may do
    /// the same at this moment, for another tenant.
    fileprivate static let grantRole = Statement(
        "grant_role",
        #"""
        select format(
                 'do $do$ begin grant %I to %I; exception when unique_violation then null; end $do$',
                 w.role, r.rolname) as statement,
               w.role, quote_ident(current_user) as me,
               coalesce(pg_has_role(r.oid, to_regrole(w.role), 'member'), false) as is_member,
               \#(wasGranted) as was_granted
        from pg_roles r
        cross join lateral (
          select case when $read_only::boolean then 'pushq_reader' else 'pushq_producer' end) w(role)
        where r.rolname = $login
        """#)
    fileprivate static let hasRole = Statement(
        "has_role",
        "select pg_has_role($login::text::name, to_regrole($role), 'usage') as has_rights")
}

/// A login that may act for a tenant.
package struct TenantLogin: Sendable {
    package let tenant: String
    package let login: String
    package let isReadOnly: Bool
    package let grantedAt: Date
    /// Whether the server has a role of this name.
    package let exists: Bool
    /// Whether that is a producer or reader, as a grant has made it.
    let hasRole: Bool
}

/// Why a login was not granted to a tenant.
package enum TenantGrantError: Error, Equatable {
    case noTenant
    /// The server has no role of this name.
    case noRole
    case mayNotGrant(GrantRefusal)
    /// It is one of pushq's own roles, as which nobody logs in.
    case isOwnRole
    /// The role would not have the rights of the roles that it is a member of.
    case doesNotInherit
    /// A role of this name was granted these tenants, and this one was granted none: it may be somebody else's, made
    /// after the other one was dropped.
    case hadNamesake(tenants: [String])
}

/// A login may not make others members of a role.
package struct GrantRefusal: Equatable, Sendable, CustomStringConvertible {
    package let role: String
    package let login: String

    package var description: String {
        "\(login) may not grant \(role). Let an administrator of the server run: "
            + "grant \(role) to \(login) with admin option. Then repeat this command"
    }
}

extension PostgresConnection {
    /// The roles that `migrate` makes.
    private static let ownRoles: Set = ["pushq_owner", "pushq_worker", "pushq_producer", "pushq_reader"]

    /// Lets a login act for a tenant, and makes it a member of `pushq_producer` or `pushq_reader`. Nobody else uses
    /// this connection meanwhile.
    package func grantTenant(_ tenant: String, to login: String, isReadOnly: Bool) async throws {
        guard !Self.ownRoles.contains(login) else { throw TenantGrantError.isOwnRole }
        try await transaction {
            let readOnly = Parameter.bool(isReadOnly)
            // Before the role: another session may grant it a tenant at this moment.
            let others = try await execute(.otherTenants, ["login": .text(login), "tenant": .text(tenant)])
                .map { $0.text("name") }
            let grants = try await execute(.grantRole, ["login": .text(login), "read_only": readOnly])
            guard let grant = grants.first else { throw TenantGrantError.noRole }
            // A role that is dropped loses its memberships, and the tenants know it by its name alone.
            guard others.isEmpty || grant.bool("was_granted") else {
                throw TenantGrantError.hadNamesake(tenants: others)
            }
            let wasFound: Bool
            do throws(PostgresError) {
                wasFound = try await !execute(
                    .grantTenant, ["login": .text(login), "read_only": readOnly, "tenant": .text(tenant)]
                ).isEmpty
            } catch {
                // It was removed meanwhile.
                throw error.violates("tenant_login_tenant_exists") ? TenantGrantError.noTenant as any Error : error
            }
            guard wasFound else {
                try await refuseMoved(tenant)
                throw TenantGrantError.noTenant
            }
            // An administrator may have made it a member, since this login may not.
            if !grant.bool("is_member") {
                do {
                    try await runScript(grant.text("statement"))
                } catch let error as PostgresError where error.isNotAllowed {
                    throw TenantGrantError.mayNotGrant(
                        GrantRefusal(role: grant.text("role"), login: grant.text("me")))
                }
            }
            let rights: Parameters = ["login": .text(login), "role": .text(grant.text("role"))]
            guard try await execute(.hasRole, rights).one().bool("has_rights") else {
                throw TenantGrantError.doesNotInherit
            }
        }
    }

    /// Ends what ``grantTenant(_:to:isReadOnly:)`` has begun. The login stays a member of its role, which alone gives
    /// no access to anything: other databases of the server may need it. Returns whether it had been granted.
    package func revokeTenant(_ tenant: String, from login: String) async throws(PostgresError) -> Bool {
        try await !execute(.revokeTenant, ["tenant": .text(tenant), "login": .text(login)]).isEmpty
    }

    /// The logins of one tenant, or of all.
    package func tenantLogins(of tenant: String?) async throws(PostgresError) -> [TenantLogin] {
        try await execute(.tenantLogins, ["tenant": .text(tenant)]).map { row in
            TenantLogin(
                tenant: row.text("tenant"), login: row.text("login"), isReadOnly: row.bool("read_only"),
                grantedAt: row.time("granted_at"), exists: row.bool("exists"), hasRole: row.bool("was_granted"))
        }
    }
}
