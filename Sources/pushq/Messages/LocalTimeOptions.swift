import FoundationEssentials
import PostgresStore
import Terminal

/// The local time at which a campaign is sent, and what happens to devices whose zone is unknown or past that time.
struct LocalTimeOptions: ParameterGroup {
    @Option(
        "Send to each device at this time in its own time zone: 09:00, or on a given day, 2026-12-24T18:00.", "TIME")
    var localTime: String?
    @Option(
        "When to send where the local time has already passed at the start. By default next-day, or never if a day was given."
    )
    var ifPassed: CampaignClock.Passed?
    @Option("How long after the local time the message is still sent, at once; by default an hour.") var catchUp:
        Duration?
    @Option("The time zone of devices whose time zone is not known; by default they are left out.", "ZONE")
    var defaultZone: String?

    var clock: CampaignClock {
        var clock = CampaignClock()
        clock.localTime = localTime
        clock.ifPassed = ifPassed
        clock.catchUp = catchUp
        clock.defaultZone = defaultZone
        return clock
    }

    /// When a campaign on a given day starts: when its local time comes in the first time zone, 14 hours ahead of UTC.
    /// Nil if there is no day, or the database would refuse the time.
    var dayStart: Date? {
        guard let parts = localTime?.wholeMatch(of: /(\d{4}-\d\d-\d\d)[T ](\d\d?):(\d\d)/),
            let day = try? Date("\(parts.1)T00:00:00Z", strategy: .iso8601), let hours = Double(parts.2),
            let minutes = Double(parts.3)
        else { return nil }
        return day.addingTimeInterval((hours - 14) * 3600 + minutes * 60)
    }

    /// As `pushq.read_clock` has it.
    private static let longestCatchUp = Duration.seconds(24 * 3600)

    /// Checks that the other options are used only with a local time, and that the time to catch up is no more than a
    /// day.
    func check() throws(UsageError) {
        if let catchUp, catchUp > Self.longestCatchUp {
            throw UsageError("--catch-up \(catchUp.shown) is more than \(Self.longestCatchUp.shown)")
        }
        let others = [
            ("--if-passed", ifPassed != nil), ("--catch-up", catchUp != nil), ("--default-zone", defaultZone != nil),
        ]
        guard localTime == nil, let other = others.first(where: \.1) else { return }
        throw UsageError("\(other.0) needs --local-time")
    }
}

extension CampaignClock.Passed: ArgumentChoice {}
