package import FoundationEssentials

extension Statement {
    fileprivate static let webhook = Statement(
        "webhook",
        #"""
        select t.id as tenant_id, w.url, w.sealed,
               case when w.former_until > now() then w.former_sealed end as former_sealed,
               case when w.former_until > now() then w.former_until end as former_until, w.created_at, p.cursor,
               p.newest > p.cursor as is_behind, p.failures, p.failing_since, p.problem, p.delivered_at,
               case when p.failures > 0 then p.not_before end as next_try_at,
               floor(extract(epoch from now()))::int8 as now
        from pushq.tenant t
        left join pushq.webhook w on w.tenant_id = t.id
        left join pushq.webhook_progress p on p.tenant_id = w.tenant_id
        where t.name = $tenant
        """#)
    fileprivate static let setWebhook = Statement(
        "set_webhook",
        "select pushq.set_webhook($tenant_id, $url::text, $sealed::bytea, $former_for::interval)::text as done")
    fileprivate static let removeWebhook = Statement(
        "remove_webhook",
        #"""
        delete from pushq.webhook w
        using pushq.tenant t
        where t.id = w.tenant_id and t.name = $tenant
        returning w.tenant_id
        """#)
}

/// Where reports about a tenant's devices go.
package struct WebhookPlace: Sendable {
    package let tenantID: Int32
    /// Nil for a tenant without a webhook.
    package let webhook: WebhookSummary?
}

/// A webhook as an operator sees it.
package struct WebhookSummary: Sendable {
    package let url: String
    /// The secret, sealed, and the one before it while that signs, too.
    package let sealed: [UInt8]
    package let formerSealed: [UInt8]?
    package let formerUntil: Date?
    package let createdAt: Date
    /// The receiver has taken all reports up to this one.
    package let cursor: Int64
    /// Whether there are reports that it has not taken yet.
    package let isBehind: Bool
    /// Tries in a row that have failed, since when, and how the last one did.
    package let failures: Int
    package let failingSince: Date?
    package let problem: String?
    package let nextTryAt: Date?
    package let deliveredAt: Date?
    /// The database's time, in seconds since 1970.
    package let now: Int64
}

extension PostgresConnection {
    /// A tenant's webhook. Nil if there is no such tenant.
    package func webhook(of tenant: String) async throws(PostgresError) -> WebhookPlace? {
        guard let row = try await execute(.webhook, ["tenant": .text(tenant)]).first else { return nil }
        let webhook = row.optionalText("url").map { url in
            WebhookSummary(
                url: url, sealed: row.bytes("sealed"), formerSealed: row.optionalBytes("former_sealed"),
                formerUntil: row.optionalTime("former_until"), createdAt: row.time("created_at"),
                cursor: row.int8("cursor"), isBehind: row.bool("is_behind"), failures: Int(row.int4("failures")),
                failingSince: row.optionalTime("failing_since"), problem: row.optionalText("problem"),
                nextTryAt: row.optionalTime("next_try_at"), deliveredAt: row.optionalTime("delivered_at"),
                now: row.int8("now"))
        }
        return WebhookPlace(tenantID: row.int4("tenant_id"), webhook: webhook)
    }

    /// Has reports about a tenant's devices sent to a URL, from now on. What is nil stays as it is; a new webhook needs
    /// both.
    /// - Parameter formerFor: how long messages are signed with the secret before this one, too.
    package func setWebhook(
        ofTenant id: Int32, url: String?, sealed: [UInt8]?, formerFor: Duration
    ) async throws(PostgresError) {
        _ = try await execute(
            .setWebhook,
            [
                "tenant_id": .int4(id), "url": .text(url), "sealed": .bytea(sealed),
                "former_for": .interval(formerFor),
            ])
    }

    /// Sends a tenant's reports nowhere any more. False if it has no webhook, or there is no such tenant.
    package func removeWebhook(of tenant: String) async throws(PostgresError) -> Bool {
        try await execute(.removeWebhook, ["tenant": .text(tenant)]).count > 0
    }
}
