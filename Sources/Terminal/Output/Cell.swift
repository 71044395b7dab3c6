package import FoundationEssentials
import QueueCore

/// A value to show: to people aligned and with thousands separators, to programs as JSON.
package enum Cell: Sendable {
    case text(String?)
    case count(Int?)
    /// This many were counted, and there may be more.
    case atLeast(Int)
    case decimal(Double?, places: Int)
    /// Programs get seconds.
    case duration(Duration?)
    case time(Date?)
    case yes(Bool)
    /// A value for which people read a word if it is missing. Programs get null, as always.
    indirect case orWord(Cell, String)
    /// What people read, and the value for programs, if that is no simple one.
    case told(String, json: JSON)

    /// The text for people; a missing value is a hyphen.
    package var text: String {
        switch self {
        case .text(let text): text?.printable() ?? "-"
        case .count(let count): count.map(NumberText.grouped) ?? "-"
        case .atLeast(let count): NumberText.grouped(count) + "+"
        case .decimal(let number, let places): number.map { NumberText.grouped($0, places: places) } ?? "-"
        case .duration(let duration): duration.map(NumberText.short) ?? "-"
        case .time(let date): date.map(Self.timestamp) ?? "-"
        case .yes(let yes): yes ? "yes" : "no"
        case .orWord(let cell, let word): cell.json == .null ? word : cell.text
        case .told(let text, _): text.printable()
        }
    }

    /// The value for programs.
    package var json: JSON {
        switch self {
        case .text(let text): text.map(JSON.string) ?? .null
        case .count(let count): count.map(JSON.integer) ?? .null
        case .atLeast(let count): .integer(count)
        case .decimal(let number, let places): number.map { .decimal($0, places: places) } ?? .null
        case .duration(let duration): duration.map { .decimal($0.seconds, places: 3) } ?? .null
        case .time(let date): date.map { .string(Self.timestamp($0)) } ?? .null
        case .yes(let yes): .bool(yes)
        case .orWord(let cell, _): cell.json
        case .told(_, let json): json
        }
    }

    /// Whether the value is a number, which tables align to the right.
    package var isNumber: Bool {
        switch self {
        case .count, .atLeast, .decimal, .duration: true
        case .text, .time, .yes, .told: false
        case .orWord(let cell, _): cell.isNumber
        }
    }

    /// A rate, a burst or a weight, with decimal places only if it is not a whole number: three, or as many as a low
    /// rate needs.
    package static func number(_ number: Double?) -> Cell {
        guard let number, number != number.rounded() else { return .decimal(number, places: 0) }
        var (places, unit) = (3, 0.001)
        while places < 9, abs((number / unit).rounded() * unit - number) > number / 200 {
            places += 1
            unit /= 10
        }
        return .decimal(number, places: places)
    }

    private static func timestamp(_ date: Date) -> String {
        // Foundation counts the days before 15 October 1582 by the Julian calendar, PostgreSQL does not. By the
        // Gregorian calendar, 1,600 years later is the same day of the same month.
        let (firstGregorian, years) = (-12_219_292_800.0, 1600)
        guard date.timeIntervalSince1970 < firstGregorian else { return date.formatted(.iso8601) }
        let later = date.addingTimeInterval(4 * 146_097 * 86_400).formatted(.iso8601)
        let year = "\((Int(later.prefix(4)) ?? years) - years)"
        return String(repeating: "0", count: max(0, 4 - year.count)) + year + later.dropFirst(4)
    }
}
