/// Identifies a campaign.
package struct CampaignKey: Hashable, Sendable {
    package let queueID: Int32
    package let campaignID: Int64

    package init(queueID: Int32, campaignID: Int64) {
        self.queueID = queueID
        self.campaignID = campaignID
    }
}
