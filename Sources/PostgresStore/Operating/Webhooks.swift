package import FoundationEssentials

extension Statement {
    fileprivate static let webhook = Statement(
        "webhook",
        #"""
        select t.id as tenant_id, w.url, w.sealed,
               case when w.former_until > now() then w.former_sealed end as former_sealed,
               case when w.former_until > now() then w.former_until end as former_until, w.created_at, p.cursor,
               p.newest > p.cursor as is_behind, p.failures, p.failing_since, p.problem, p.delivered_at, p.lost_to,
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

/// The webhook of a tenant.
package struct WebhookPlace: Sendable {
    package let tenantID: Int32
    /// Nil if the tenant has no webhook.
    package let webhook: WebhookSummary?
}

/// A webhook as an operator sees it.
package struct WebhookSummary: Sendable {
    package let url: String
    /// The sealed secret, and the previous one while messages are signed with both.
    package let sealed: [UInt8]
    package let formerSealed: [UInt8]?
    package let formerUntil: Date?
    package let createdAt: Date
    /// The cursor of the last report that the receiver has accepted.
    package let cursor: Int64
    /// Whether there are reports that the receiver has not accepted yet.
    package let isBehind: Bool
    /// The number of failed turns in a row, since when they fail, and why the last one failed.
    package let failures: Int
    package let failingSince: Date?
    package let problem: String?
    package let nextTryAt: Date?
    package let deliveredAt: Date?
    /// The receiver will never get some of the reports up to this time, because they are no longer kept; nil: it has
    /// missed none.
    package let lostTo: Date?
    /// The database's time, in seconds since 1970.
    package let now: Int64
}

extension PostgresConnection {
    /// Returns a tenant's webhook; nil if there is no such tenant.
    package func webhook(of tenant: String) async throws(PostgresError) -> WebhookPlace? {
        guard let row = try await execute(.webhook, ["tenant": .text(tenant)]).first else { return nil }
        let webhook = row.optionalText("url").map { url in
            WebhookSummary(
                url: url, sealed: row.bytes("sealed"), formerSealed: row.optionalBytes("former_sealed"),
                formerUntil: row.optionalTime("former_until"), createdAt: row.time("created_at"),
                cursor: row.int8("cursor"), isBehind: row.bool("is_behind"), failures: Int(row.int4("failures")),
                failingSince: row.optionalTime("failing_since"), problem: row.optionalText("problem"),
                nextTryAt: row.optionalTime("next_try_at"), deliveredAt: row.optionalTime("delivered_at"),
                lostTo: row.optionalTime("lost_to"),
                now: row.int8("now"))
        }
        return WebhookPlace(tenantID: row.int4("tenant_id"), webhook: webhook)
    }

    /// Sends reports about a tenant's devices to a URL from now on. Nil leaves a setting unchanged; a new webhook needs
    /// both.
    /// - Parameter formerFor: how long messages are also signed with the previous secret.
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

    /// Removes a tenant's webhook. Returns false if there is no such webhook or tenant.
    package func removeWebhook(of tenant: String) async throws(PostgresError) -> Bool {
        try await execute(.removeWebhook, ["tenant": .text(tenant)]).count > 0
    }
}
