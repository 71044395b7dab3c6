package import FoundationEssentials

extension Statement {
    /// The entries of the audit, the latest first.
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

/// A change: who changed what, and when.
package struct AuditEntry: Sendable {
    package let changedAt: Date
    /// The database login, and the role that it had set.
    package let login: String
    package let actingAs: String?
    /// The client's `application_name` and its address. The address is nil for a Unix socket.
    package let application: String?
    package let address: String?
    /// Nil if the object belongs to no tenant.
    package let tenant: String?
    /// The kind of object, and its name.
    package let object: String
    package let name: String?
    /// `created`, `changed`, `removed`, or what was done to devices.
    package let action: String
    /// For example `rate: 100 → 250, burst: 10 → 25`. Never contains a secret or a token.
    package let changes: String?
}

extension PostgresConnection {
    /// Returns the latest entries of the audit, the last one first.
    /// - Parameters:
    ///   - tenant: only entries about this tenant, which may have been removed.
    ///   - since: only entries from this time on.
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
