/// Durations are a number and a unit: `250ms`, `30s`, `5m`, `2h`, `7d`; a bare number means seconds.
extension Duration: ArgumentValue {
    package static var placeholder: String { "DURATION" }

    private static let units: [(suffix: String, milliseconds: Double)] = [
        ("ms", 1), ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000),
    ]

    /// The longest duration that a command takes. Microseconds of longer ones would at some point not fit into the
    /// integers of clocks and of the database, and no option has a use for them.
    private static let longest = Duration.seconds(3650 * 86_400)

    package static func parse(_ text: String) throws(InvalidValue) -> Duration {
        let unit = units.first { text.hasSuffix($0.suffix) }
        let digits = text.dropLast(unit?.suffix.count ?? 0)
        guard let number = Double(digits), number >= 0, number < 1e12, digits.allSatisfy({ $0.isNumber || $0 == "." })
        else { throw InvalidValue(Messages.notADuration) }
        let milliseconds = number * (unit?.milliseconds ?? 1000)
        guard milliseconds <= longest.seconds * 1000 else { throw InvalidValue(Messages.tooLong(longest)) }
        return .milliseconds(milliseconds)
    }

    /// The duration in the largest unit that leaves a whole number: `5m`, `1500ms`.
    package var shown: String {
        let milliseconds = Int((seconds * 1000).rounded())
        let whole = Self.units.filter { milliseconds.isMultiple(of: Int($0.milliseconds)) }
        let unit = whole.max { $0.milliseconds < $1.milliseconds }
        guard milliseconds != 0, let unit else { return "0s" }
        return "\(milliseconds / Int(unit.milliseconds))\(unit.suffix)"
    }

    /// The duration in seconds.
    package var seconds: Double {
        Double(components.seconds) + Double(components.attoseconds) * 1e-18
    }
}
