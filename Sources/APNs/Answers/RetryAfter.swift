/// The field `retry-after` (RFC 9110 §10.2.3): a number of seconds or a date.
enum RetryAfter {
    /// The maximum, whatever the server asks for.
    static let maximum = Duration.seconds(3600)

    /// - Parameters:
    ///   - sentAt: the answer's field `date`. A date is as far ahead as it is after this one: the server wrote both, so
    ///     this machine's clock may be wrong.
    ///   - now: seconds since 1970 by this machine's clock, for a date in an answer that has no `date`.
    static func delay(from text: String, sentAt: String? = nil, now: Int64) -> Duration? {
        let text = text.trimmingSpaces
        if !text.isEmpty, text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) {
            // A number too large for an integer also means a very long time.
            return Int64(text).map { min(.seconds($0), maximum) } ?? maximum
        }
        guard let date = secondsSince1970(text) else { return nil }
        return min(.seconds(max(0, date - (sentAt.flatMap(secondsSince1970) ?? now))), maximum)
    }

    /// Reads a date in the only form in which it may be sent, `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 §5.6.7).
    private static func secondsSince1970(_ text: String) -> Int64? {
        let parts = text.split(separator: " ")
        guard parts.count == 6, parts[5] == "GMT", let day = Int64(parts[1]), let year = Int64(parts[3]),
            let month = months.firstIndex(of: String(parts[2])), (1...31).contains(day), (1970...9999).contains(year)
        else { return nil }
        let clock = parts[4].split(separator: ":").compactMap { Int64($0) }
        guard clock.count == 3, (0..<24).contains(clock[0]), (0..<60).contains(clock[1]), (0...60).contains(clock[2])
        else {
            return nil
        }
        let days = daysSince1970(year: year, month: Int64(month) + 1, day: day)
        return days * 86_400 + clock[0] * 3600 + clock[1] * 60 + clock[2]
    }

    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    /// Counts days by years that begin in March, so that the leap day comes last, within eras of 400 years.
    private static func daysSince1970(year: Int64, month: Int64, day: Int64) -> Int64 {
        let marchYear = month > 2 ? year : year - 1
        let monthFromMarch = (month + 9) % 12
        let (era, yearOfEra) = marchYear.quotientAndRemainder(dividingBy: 400)
        let dayOfYear = (153 * monthFromMarch + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }
}

extension String {
    fileprivate var trimmingSpaces: String {
        String(drop { $0 == " " }.reversed().drop { $0 == " " }.reversed())
    }
}
