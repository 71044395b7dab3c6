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
    /// Whether a role `r` of `pg_roles` is a member of one of the two roles that a grant gives.
    private static let wasGranted =
        "(coalesce(pg_has_role(r.oid, to_regrole('pushq_producer'), 'member'), false) "
        + "or coalesce(pg_has_role(r.oid, to_regrole('pushq_reader'), 'member'), false))"
    /// The tenants of a login, except one.
    fileprivate static let tenantsOfLogin = Statement(
        "tenants_of_login",
        #"""
        select t.name
        from pushq.tenant_login l
        join pushq.tenant t on t.id = l.tenant_id
        where l.login = $login and t.name is distinct from $but
        order by t.name
        """#)
    /// The statement that makes a login a producer or reader; no row if there is no such role. Another session may do
    /// the same at this moment for another tenant, hence `unique_violation`.
    fileprivate static let grantRole = Statement(
        "grant_role",
        #"""
        select format(
                 -- As a literal: between dollar quotes, a name could end them.
                 'do %L',
                 format('begin grant %I to %I; exception when unique_violation then null; end', w.role, r.rolname))
                 as statement,
               w.role, quote_ident(current_user) as me,
               coalesce(pg_has_role(r.oid, to_regrole(w.role), 'member'), false) as is_member,
               \#(wasGranted) as was_granted,
               \#(isWorker) as is_worker
        from pg_roles r
        cross join lateral (
          select case when $read_only::boolean then 'pushq_reader' else 'pushq_producer' end) w(role)
        where r.rolname = $login
        """#)
    fileprivate static let hasRightsOfRole = Statement(
        "has_rights_of_role",
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
    /// Whether that role is a producer or reader, as a grant makes it.
    let hasRole: Bool
}

/// Why a login was not granted to a tenant.
package enum TenantGrantError: Error, Equatable {
    case noTenant
    /// The server has no role of this name.
    case noRole
    case mayNotGrant(GrantRefusal)
    /// The name is one of pushq's own roles, which never log in.
    case isOwnRole
    /// The login runs workers, and so reads what belongs to all tenants.
    case isWorker
    /// The role would not have the rights of the roles that it is a member of.
    case doesNotInherit
    /// A role of this name was granted these tenants, and the present role was granted none. It may belong to another
    /// user and have been created after the first one was dropped.
    case hadNamesake(tenants: [String])
}

/// A login lacks the right to grant a role.
package struct GrantRefusal: Equatable, Sendable, CustomStringConvertible {
    package let role: String
    package let login: String

    package var description: String {
        "\(login) may not grant \(role). Let an administrator of the server run: "
            + "grant \(role) to \(login) with admin option. Then repeat this command"
    }
}

extension PostgresConnection {
    /// Whether a login has the rights of a role, and is not only a member of it.
    func hasRights(of role: String, _ login: String) async throws(PostgresError) -> Bool {
        try await execute(.hasRightsOfRole, ["login": .text(login), "role": .text(role)]).one().bool("has_rights")
    }

    /// The roles that `migrate` creates.
    private static let ownRoles: Set = ["pushq_owner", "pushq_worker", "pushq_producer", "pushq_reader"]

    /// Lets a login act for a tenant, and makes it a member of `pushq_producer` or `pushq_reader`. No other task may
    /// use this connection meanwhile.
    package func grantTenant(_ tenant: String, to login: String, isReadOnly: Bool) async throws {
        guard !Self.ownRoles.contains(login) else { throw TenantGrantError.isOwnRole }
        try await transaction {
            let readOnly = Parameter.bool(isReadOnly)
            // Read before the role, because another session may grant the login a tenant at this moment.
            let others = try await tenants(of: login, but: tenant)
            let grants = try await execute(.grantRole, ["login": .text(login), "read_only": readOnly])
            guard let grant = grants.first else { throw TenantGrantError.noRole }
            guard !grant.bool("is_worker") else { throw TenantGrantError.isWorker }
            // A role that is dropped loses its memberships, but the tenants know it only by its name.
            guard others.isEmpty || grant.bool("was_granted") else {
                throw TenantGrantError.hadNamesake(tenants: others)
            }
            let wasFound: Bool
            do throws(PostgresError) {
                wasFound = try await !execute(
                    .grantTenant, ["login": .text(login), "read_only": readOnly, "tenant": .text(tenant)]
                ).isEmpty
            } catch {
                // The tenant was removed meanwhile.
                throw error.violates("tenant_login_tenant_exists") ? TenantGrantError.noTenant as any Error : error
            }
            guard wasFound else {
                try await refuseMoved(tenant)
                throw TenantGrantError.noTenant
            }
            // The login may already be a member: an administrator may have granted the role that this login may not
            // grant.
            if !grant.bool("is_member") {
                do {
                    try await runScript(grant.text("statement"))
                } catch let error as PostgresError where error.isNotAllowed {
                    throw TenantGrantError.mayNotGrant(
                        GrantRefusal(role: grant.text("role"), login: grant.text("me")))
                }
            }
            guard try await hasRights(of: grant.text("role"), login) else {
                throw TenantGrantError.doesNotInherit
            }
        }
    }

    /// The names of the tenants that a login was granted.
    func tenants(of login: String, but one: String? = nil) async throws(PostgresError) -> [String] {
        try await execute(.tenantsOfLogin, ["login": .text(login), "but": .text(one)]).map { $0.text("name") }
    }

    /// Revokes what ``grantTenant(_:to:isReadOnly:)`` granted. The login stays a member of its role, because other
    /// databases of the server may need it; the role alone gives no access. Returns whether the tenant had been
    /// granted. Throws if the tenant is in another database, where the login may have rights, or is being moved to one.
    package func revokeTenant(_ tenant: String, from login: String) async throws(PostgresError) -> Bool {
        let wasGranted = try await !execute(
            .revokeTenant, ["tenant": .text(tenant), "login": .text(login)]
        ).isEmpty
        if !wasGranted { try await refuseMoved(tenant) }
        return wasGranted
    }

    /// Returns the logins of one tenant, or of all tenants.
    package func tenantLogins(of tenant: String?) async throws(PostgresError) -> [TenantLogin] {
        try await execute(.tenantLogins, ["tenant": .text(tenant)]).map { row in
            TenantLogin(
                tenant: row.text("tenant"), login: row.text("login"), isReadOnly: row.bool("read_only"),
                grantedAt: row.time("granted_at"), exists: row.bool("exists"), hasRole: row.bool("was_granted"))
        }
    }
}
