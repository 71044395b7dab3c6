import Foundation

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
