extension Statement {
    /// Pauses campaigns with too many bad answers (migrations/functions/judge_campaigns.sql).
    static let judgeCampaigns = Statement(
        "judge_campaigns",
        "select queue_id, key, reason from pushq.judge_campaigns($queue_ids::int[], $campaign_ids::bigint[])")
}

/// A campaign that was paused because too many of its answers are bad.
package struct StoppedCampaign: Sendable {
    package let queueID: Int32
    package let key: String
    /// Why the campaign was paused, as a sentence for operators.
    package let reason: String
}

extension PostgresConnection {
    /// Pauses those of `campaigns` whose share of bad answers is larger than they allow. Skips a campaign that another
    /// transaction is changing at this moment.
    package func judgeCampaigns(_ campaigns: [CampaignKey]) async throws(PostgresError) -> [StoppedCampaign] {
        try await execute(
            .judgeCampaigns,
            [
                "queue_ids": .int4Array(campaigns.map(\.queueID)),
                "campaign_ids": .int8Array(campaigns.map(\.campaignID)),
            ]
        ).map { row in
            StoppedCampaign(queueID: row.int4("queue_id"), key: row.text("key"), reason: row.text("reason"))
        }
    }
}
