extension Statement {
    /// Pauses campaigns of which too many answers are bad (migrations/functions/campaign_control.sql).
    static let judgeCampaigns = Statement(
        "judge_campaigns",
        "select queue_id, key, reason from pushq.judge_campaigns($queue_ids::int[], $campaign_ids::bigint[])")
}

/// A campaign by its number.
package struct CampaignKey: Hashable, Sendable {
    package let queueID: Int32
    package let campaignID: Int64

    package init(queueID: Int32, campaignID: Int64) {
        self.queueID = queueID
        self.campaignID = campaignID
    }
}

/// A campaign that was paused because too many of its answers are bad.
package struct StoppedCampaign: Sendable {
    package let queueID: Int32
    package let key: String
    /// In words.
    package let reason: String
}

extension PostgresConnection {
    /// Pauses those of `campaigns` of which a larger share of the answers is bad than they allow. One that somebody
    /// else is changing at this moment is passed over.
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
