package import FoundationEssentials

/// A point in time with its offset, as RFC 3339 writes it: `2026-03-01T09:00:00Z`.
package struct Moment: ArgumentValue, Equatable, Sendable {
    package let date: Date

    package static var placeholder: String { "TIME" }
    package var shown: String { date.formatted(.iso8601) }

    package static func parse(_ text: String) throws(InvalidValue) -> Moment {
        guard let date = try? Date(text, strategy: .iso8601) else { throw InvalidValue(Messages.notATime) }
        return Moment(date: date)
    }

    /// The times of `--since` and `--until`. Throws if there is no time between the two.
    package static func span(from since: Moment?, to until: Moment?) throws(UsageError) -> (since: Date?, until: Date?)
    {
        if let since, let until, since.date > until.date { throw UsageError("--since is later than --until") }
        return (since?.date, until?.date)
    }
}
