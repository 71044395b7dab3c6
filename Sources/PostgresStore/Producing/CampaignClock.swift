import FoundationEssentials

/// The local time at which a campaign is sent. Each device gets it by the time of its own zone.
package struct CampaignClock: Sendable {
    /// What happens to devices in zones where the time has passed when the campaign starts.
    package enum Passed: String, CaseIterable, Sendable {
        case now, never
        case nextDay = "next-day"
    }

    /// `09:00`, or with a day, `2026-12-24T18:00`; nil: the campaign has no local time.
    package var localTime: String?
    /// Nil: the next day if `localTime` has no day, else never.
    package var ifPassed: Passed?
    /// How long after the local time a push is still sent at once; nil: an hour.
    package var catchUp: Duration?
    /// The zone of devices whose own zone is unknown; nil: these devices are left out.
    package var defaultZone: String?

    /// No local time.
    package init() {}

    var parameters: Parameters {
        [
            "local_time": .text(localTime), "if_passed": .text(ifPassed?.rawValue), "catch_up": .interval(catchUp),
            "default_zone": .text(defaultZone),
        ]
    }
}
