package import Foundation
import QueueCore

/// A value as it is shown: to people with thousands separators and aligned, to programs as JSON.
package enum Cell: Sendable {
    case text(String?)
    case count(Int?)
    case decimal(Double?, places: Int)
    case time(Date?)
    case yes(Bool)

    /// As people read it; what is not there is a hyphen.
    package var text: String {
        switch self {
        case .text(let text): text?.printable() ?? "-"
        case .count(let count): count.map(NumberText.grouped) ?? "-"
        case .decimal(let number, let places): number.map { NumberText.grouped($0, places: places) } ?? "-"
        case .time(let date): date.map(Self.timestamp) ?? "-"
        case .yes(let yes): yes ? "yes" : "no"
        }
    }

    /// As programs read it.
    package var json: JSON {
        switch self {
        case .text(let text): text.map(JSON.string) ?? .null
        case .count(let count): count.map(JSON.integer) ?? .null
        case .decimal(let number, let places): number.map { .decimal($0, places: places) } ?? .null
        case .time(let date): date.map { .string(Self.timestamp($0)) } ?? .null
        case .yes(let yes): .bool(yes)
        }
    }

    /// Numbers stand flush right.
    var isNumber: Bool {
        switch self {
        case .count, .decimal: true
        case .text, .time, .yes: false
        }
    }

    private static func timestamp(_ date: Date) -> String {
        date.formatted(.iso8601)
    }
}

/// Numbers as people read them.
package enum NumberText {
    /// `1234567` as `1,234,567`.
    package static func grouped(_ number: Int) -> String {
        let digits = Array(String(number.magnitude))
        let grouped = digits.enumerated().map { index, digit in
            index > 0 && (digits.count - index) % 3 == 0 ? ",\(digit)" : "\(digit)"
        }
        return (number < 0 ? "-" : "") + grouped.joined()
    }

    /// `1 send`, `1,200 sends`: a number and what it counts, which takes an s.
    package static func counted(_ number: Int, _ noun: String) -> String {
        "\(grouped(number)) \(noun)\(number == 1 ? "" : "s")"
    }

    /// `1234.5` with two places as `1,234.50`.
    package static func grouped(_ number: Double, places: Int) -> String {
        let text = fixed(number.magnitude, places: places)
        let whole = text.prefix { $0 != "." }
        return (number < 0 ? "-" : "") + grouped(Int(whole) ?? 0) + text.dropFirst(whole.count)
    }

    /// `1234.5` with two places as `1234.50`, whatever the locale.
    static func fixed(_ number: Double, places: Int) -> String {
        String(format: "%.\(places)f", number)
    }
}
