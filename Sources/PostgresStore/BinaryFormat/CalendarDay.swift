/// A calendar day: PostgreSQL's `date`.
package struct CalendarDay: Hashable, Sendable {
    /// Days since 1 January 2000.
    let daysSince2000: Int32
}

extension CalendarDay: LosslessStringConvertible {
    /// Reads a day such as `2026-11-21`; nil if there is no such day.
    package init?(_ text: String) {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 3, parts.map(\.utf8.count) == [4, 2, 2],
            text.utf8.allSatisfy({ $0 == UInt8(ascii: "-") || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }),
            let year = Int32(parts[0]), let month = Int32(parts[1]), let day = Int32(parts[2])
        else { return nil }
        self.init(year: year, month: month, day: day)
    }

    /// Returns nil if there is no such day.
    init?(year: Int32, month: Int32, day: Int32) {
        self.init(counting: year, month, day)
        // 30 February, for example, becomes another day.
        guard parts == (year, month, day) else { return nil }
    }

    package var description: String {
        let (year, month, day) = parts
        func padded(_ number: Int32, _ width: Int) -> String {
            let digits = String(number)
            return String(repeating: "0", count: max(0, width - digits.count)) + digits
        }
        return "\(padded(year, 4))-\(padded(month, 2))-\(padded(day, 2))"
    }

    // Years begin in March, so that the leap day is the last day of its year. Eras have 400 years, and all have the
    // same number of days (the rule of the Gregorian calendar).

    private static let daysPerEra: Int32 = 146_097
    /// The days from 1 March of year 0 to 1 January 2000.
    private static let epoch: Int32 = 730_425

    private init(counting year: Int32, _ month: Int32, _ day: Int32) {
        let marchYear = month > 2 ? year : year - 1
        let (era, yearOfEra) = (marchYear / 400, marchYear % 400)
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        daysSince2000 = era * Self.daysPerEra + dayOfEra - Self.epoch
    }

    private var parts: (year: Int32, month: Int32, day: Int32) {
        let days = daysSince2000 + Self.epoch
        let (era, dayOfEra) = (days / Self.daysPerEra, days % Self.daysPerEra)
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let marchMonth = (5 * dayOfYear + 2) / 153
        let month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * marchMonth + 2) / 5 + 1)
    }
}
