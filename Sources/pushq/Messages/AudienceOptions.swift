import PostgresStore
import QueueCore
import Terminal

/// The devices that a campaign is for, if they are not given as tokens.
struct AudienceOptions: ParameterGroup {
    @Option("All active devices of the queue, or those of an audience: pushq-admin audience add.", "all|NAME")
    var audience: String?
    @Option("The active devices that match, such as \"locale = 'de' and tag 'vip'\".") var filter: String?

    /// The campaign's filter; nil: all devices. A name is quoted only if necessary, as a producer would write it who
    /// repeats the call in SQL: with another filter text, it would be another campaign.
    var condition: String? {
        guard let audience, audience != "all" else { return filter }
        guard audience.wholeMatch(of: /[A-Za-z_][A-Za-z0-9_]*/) == nil else { return "audience \(audience)" }
        return "audience \(audience.quotedLiteral)"
    }

    /// Checks that exactly one audience is given.
    /// - Parameter lists: the options for tokens or users, and whether each is given.
    func check(otherwise lists: [(option: String, isGiven: Bool)] = []) throws(UsageError) {
        let options = ["--audience NAME", "--filter FILTER"] + lists.map(\.option)
        let given = zip(options, [audience != nil, filter != nil] + lists.map(\.isGiven)).filter(\.1).map {
            $0.0.prefix { $0 != " " }
        }
        guard given.count < 2 else { throw UsageError("\(given[0]) and \(given[1]) cannot be used together") }
        guard given.isEmpty else { return }
        throw UsageError("--audience all, \(options.dropLast().joined(separator: ", ")) or \(options.last!) is missing")
    }
}

/// The limits of a campaign.
struct CampaignBounds: ParameterGroup {
    @Option("Maximum number of pushes per second, over all workers: 250, 0.5 or 15000/min.") var maxRate: Rate?
    @Option("Pause the campaign when a larger share of its answers is bad, such as 5%.") var stopAtErrors: Share?
    @Option("Replaces the queue's quiet hours: send no alert at these times of the day where the device is.")
    var quietHours: QuietHoursSetting?

    var limits: CampaignLimits {
        var limits = CampaignLimits()
        limits.maxRate = maxRate?.perSecond
        limits.stopAtErrors = stopAtErrors?.fraction
        limits.quietHours = quietHours?.shown
        return limits
    }
}
