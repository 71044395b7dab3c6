import Glibc

/// Numbers in a form for people.
package enum NumberText {
    /// `1234567` as `1,234,567`.
    package static func grouped(_ number: Int) -> String {
        let digits = Array(String(number.magnitude))
        let grouped = digits.enumerated().map { index, digit in
            index > 0 && (digits.count - index) % 3 == 0 ? ",\(digit)" : "\(digit)"
        }
        return (number < 0 ? "-" : "") + grouped.joined()
    }

    /// `1 send`, `1,200 sends`: a number and a noun, whose plural has an s.
    package static func counted(_ number: Int, _ noun: String) -> String {
        "\(grouped(number)) \(noun)\(number == 1 ? "" : "s")"
    }

    /// `1234.5` with two places as `1,234.50`.
    package static func grouped(_ number: Double, places: Int) -> String {
        let text = fixed(number.magnitude, places: places)
        let whole = text.prefix { $0 != "." }
        return (number < 0 ? "-" : "") + grouped(Int(whole) ?? 0) + text.dropFirst(whole.count)
    }

    /// A duration in the two largest units: `20ms`, `4.2s`, `12s`, `3m 05s`, `2h 10m`, `5d 03h`.
    package static func short(_ duration: Duration) -> String {
        let seconds = max(0, duration.seconds)
        let whole = Int(min(seconds, 1e12))
        let two = { (number: Int) in number < 10 ? "0\(number)" : "\(number)" }
        switch seconds {
        case ..<1: return "\(Int((seconds * 1000).rounded()))ms"
        case ..<10: return "\(fixed(seconds, places: 1))s"
        case ..<60: return "\(whole)s"
        case ..<3600: return "\(whole / 60)m \(two(whole % 60))s"
        case ..<86_400: return "\(whole / 3600)h \(two(whole / 60 % 60))m"
        default: return "\(grouped(whole / 86_400))d \(two(whole / 3600 % 24))h"
        }
    }

    /// `1234.5` with two places as `1234.50`, whatever the locale.
    static func fixed(_ number: Double, places: Int) -> String {
        let scaled = (number.magnitude * pow(10, Double(places))).rounded(.toNearestOrEven)
        // A number as large as this has no decimal places, and neither has infinity.
        guard scaled < 1e18 else { return "\(number)" }
        let digits = String(Int(scaled))
        let text = String(repeating: "0", count: max(0, places + 1 - digits.count)) + digits
        let point = places > 0 ? "." : ""
        return (number < 0 && scaled > 0 ? "-" : "") + text.dropLast(places) + point + text.suffix(places)
    }
}
