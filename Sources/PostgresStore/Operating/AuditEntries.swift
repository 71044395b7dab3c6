package import FoundationEssentials

extension Statement {
    /// The latest first.
    fileprivate static let auditEntries = Statement(
        "audit_entries",
        #"""
        select a.changed_at, a.login, a.acting_as, a.application, host(a.address) as address, a.tenant, a.object,
               a.name, a.action,
               (select string_agg(
                         c.key || ': ' || coalesce(c.value ->> 'from', '-') || ' → ' || coalesce(c.value ->> 'to', '-'),
                         ', ' order by c.key)
                from jsonb_each(a.changes) c) as changes
        from pushq.audit a
        where ($tenant::text is null or a.tenant = $tenant) and ($since::timestamptz is null or a.changed_at >= $since)
        order by a.id desc
        limit $limit
        """#)
}

/// Who changed what when.
package struct AuditEntry: Sendable {
    package let changedAt: Date
    /// The database login, and the role that it had set.
    package let login: String
    package let actingAs: String?
    /// What the client calls itself, and where it is; nil by a Unix socket.
    package let application: String?
    package let address: String?
    /// Nil for what belongs to no tenant.
    package let tenant: String?
    /// The kind of thing, and what it is called.
    package let object: String
    package let name: String?
    /// `created`, `changed`, `removed`, or what was done to devices.
    package let action: String
    /// `rate: 100 → 250, burst: 10 → 25`; never a secret or a token.
    package let changes: String?
}

extension PostgresConnection {
    /// The latest entries of the audit, the last one first.
    /// - Parameters:
    ///   - tenant: only those about this tenant, which may be gone.
    ///   - since: only those from then on.
    package func auditEntries(
        of tenant: String?, since: Date?, limit: Int
    ) async throws(PostgresError) -> [AuditEntry] {
        let parameters: Parameters = [
            "tenant": .text(tenant), "since": .time(since), "limit": .int8(Int64(limit)),
        ]
        return try await execute(.auditEntries, parameters).map { row in
            AuditEntry(
                changedAt: row.time("changed_at"), login: row.text("login"), actingAs: row.optionalText("acting_as"),
                application: row.optionalText("application"), address: row.optionalText("address"),
                tenant: row.optionalText("tenant"), object: row.text("object"), name: row.optionalText("name"),
                action: row.text("action"), changes: row.optionalText("changes"))
        }
    }
}
