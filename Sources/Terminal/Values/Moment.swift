package import FoundationEssentials

/// A point in time with its offset, in the form of RFC 3339: `2026-03-01T09:00:00Z`.
package struct Moment: ArgumentValue, Equatable, Sendable {
    package let date: Date

    package static var placeholder: String { "TIME" }
    package var shown: String { date.formatted(.iso8601) }

    package static func parse(_ text: String) throws(InvalidValue) -> Moment {
        // `Date(_:strategy:)` would ignore what follows a time.
        guard
            let (end, date) = try? Date.ISO8601FormatStyle.iso8601.consuming(
                text, startingAt: text.startIndex, in: text.startIndex..<text.endIndex), end == text.endIndex
        else { throw InvalidValue(Messages.notATime) }
        // Of later years, not all can be stored.
        guard isInTheCalendar(text), date < endOfTime else { throw InvalidValue(Messages.noSuchTime) }
        return Moment(date: date)
    }

    /// The beginning of the year 10000.
    private static let endOfTime = Date(timeIntervalSince1970: 253_402_300_800)

    /// Whether the day and the time of day at the beginning of `text` exist. Foundation carries a field that is too
    /// large over: it reads the 30th of February as the 2nd of March.
    private static func isInTheCalendar(_ text: String) -> Bool {
        let clock = text.prefix(while: { "0123456789-T:".contains($0) })
        // The prefix drops the offset, which may also begin with a minus.
        let fields = clock.split(whereSeparator: { "-T:".contains($0) }).prefix(6)
        guard fields.count == 6, let zulu = try? Date(written(fields), strategy: .iso8601) else { return false }
        return zulu.formatted(.iso8601) == written(fields)
    }

    private static func written(_ fields: some Collection<Substring>) -> String {
        let padded = fields.enumerated().map { place, field in
            String(repeating: "0", count: max(0, (place == 0 ? 4 : 2) - field.count)) + field
        }
        return padded[0..<3].joined(separator: "-") + "T" + padded[3...].joined(separator: ":") + "Z"
    }

    /// Returns the times of `--since` and `--until`. Throws if `--since` is the later one.
    package static func span(from since: Moment?, to until: Moment?) throws(UsageError) -> (since: Date?, until: Date?)
    {
        if let since, let until, since.date > until.date { throw UsageError("--since is later than --until") }
        return (since?.date, until?.date)
    }
}
