import FoundationEssentials

/// The limits of a campaign.
package struct CampaignLimits: Sendable {
    /// Pushes per second over all workers; nil: only the limits of the queue and the tenant apply.
    package var maxRate: Double?
    /// The campaign pauses itself if a larger share of its answers is bad; nil: never.
    package var stopAtErrors: Double?
    /// Its quiet hours, such as 22:00-08:00, or `none`; nil: those of the queue.
    package var quietHours: String?

    /// No limits.
    package init() {}

    var parameters: Parameters {
        [
            "max_rate": .float8(maxRate), "stop_at_errors": .float8(stopAtErrors), "quiet_hours": .text(quietHours),
        ]
    }
}
