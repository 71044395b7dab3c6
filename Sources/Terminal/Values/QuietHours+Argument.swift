package import QueueCore

/// Quiet hours on a command line: `22:00-08:00`, also `7:30-9:00`.
extension QuietHours: ArgumentValue {
    package static var placeholder: String { "HOURS" }

    package static func parse(_ text: String) throws(InvalidValue) -> QuietHours {
        let times = text.split(separator: "-", omittingEmptySubsequences: false).map(Self.minutes)
        guard times.count == 2, let start = times[0], let end = times[1] else {
            throw InvalidValue(Messages.notQuietHours)
        }
        guard let hours = QuietHours(start: start, end: end) else { throw InvalidValue(Messages.quietHoursLength) }
        return hours
    }

    private static func minutes(_ text: Substring) -> Int? {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        let isWritten = parts.count == 2 && (1...2).contains(parts[0].count) && parts[1].count == 2
        guard isWritten, parts.allSatisfy({ $0.allSatisfy { $0.isASCII && $0.isNumber } }), let hour = Int(parts[0]),
            let minute = Int(parts[1]), hour < 24, minute < 60
        else { return nil }
        return hour * 60 + minute
    }

    package var shown: String { text }
}

/// The quiet hours of a campaign, instead of those of its queue: its own, or none.
package enum QuietHoursSetting: ArgumentValue, Equatable, Sendable {
    case hours(QuietHours)
    case none

    package static var placeholder: String { "HOURS|none" }

    package static func parse(_ text: String) throws(InvalidValue) -> QuietHoursSetting {
        text == "none" ? QuietHoursSetting.none : .hours(try QuietHours.parse(text))
    }

    /// The form that `pushq.start_campaign` takes.
    package var shown: String {
        switch self {
        case .hours(let hours): hours.text
        case .none: "none"
        }
    }
}
