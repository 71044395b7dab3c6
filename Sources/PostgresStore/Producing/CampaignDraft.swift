package import QueueCore

/// A campaign as a producer describes it: what is sent, in which queue, and under which key it is started once.
package struct CampaignDraft: Sendable {
    package var message: MessageDraft
    /// The key under which the campaign is started once, however often the start is repeated.
    package let key: String
    package let queue: QueueName
    /// Only devices that match the filter get the campaign (docs/audiences.md); nil: all active devices of the queue.
    /// Not for a campaign to the tokens or users of a file.
    package var filter: String?
    package var limits: CampaignLimits
    package var clock: CampaignClock
    package var shares: CampaignShares

    package init(
        _ message: MessageDraft, key: String, inQueue queue: QueueName, where filter: String? = nil,
        limits: CampaignLimits = CampaignLimits(), clock: CampaignClock = CampaignClock(),
        shares: CampaignShares = CampaignShares()
    ) {
        self.message = message
        self.key = key
        self.queue = queue
        self.filter = filter
        self.limits = limits
        self.clock = clock
        self.shares = shares
    }

    /// What starts and previews have in common, without the message and the recipients.
    var frame: Parameters {
        ["queue": .queue(queue), "key": .text(key)] + limits.parameters + clock.parameters + shares.parameters
    }

    /// What identifies the campaign if it is started again (`pushq.earlier_list_campaign`).
    var identity: Parameters {
        ["queue": .queue(queue), "key": .text(key), "quiet_hours": .text(limits.quietHours)] + message.identity
            + clock.parameters + shares.parameters
    }
}
