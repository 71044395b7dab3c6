/// A rate in pushes a second, such as `250` or `0.5`, or with a unit of time: `250/s`, `6000/min`, `100000/h`.
package struct Rate: ArgumentValue, Equatable, Sendable {
    package let perSecond: Double

    package init(perSecond: Double) { self.perSecond = perSecond }

    package static var placeholder: String { "RATE" }
    package var shown: String { perSecond == perSecond.rounded() ? "\(Int(perSecond))" : "\(perSecond)" }

    /// The units of time that a rate may have, in seconds.
    private static let units = ["s": 1.0, "min": 60, "h": 3600]

    package static func parse(_ text: String) throws(InvalidValue) -> Rate {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let number = Double(parts[0]), let seconds = parts.count == 1 ? 1 : units[String(parts[1])],
            number > 0, number / seconds <= 1_000_000_000
        else { throw InvalidValue(Messages.notARate) }
        return Rate(perSecond: number / seconds)
    }
}

/// A rate, or none.
package struct RateLimitSetting: ArgumentValue, Equatable, Sendable {
    package let rate: Rate?

    package static var placeholder: String { "RATE" }
    package var shown: String { rate?.shown ?? "none" }

    package static func parse(_ text: String) throws(InvalidValue) -> RateLimitSetting {
        RateLimitSetting(rate: text == "none" ? nil : try Rate.parse(text))
    }
}

/// A part of a whole: `0.05` or `5%`.
package struct Share: ArgumentValue, Equatable, Sendable {
    /// Between 0 and 1.
    package let fraction: Double

    package init(fraction: Double) { self.fraction = fraction }

    package static var placeholder: String { "SHARE" }
    package var shown: String { Rate(perSecond: (fraction * 1e7).rounded() / 1e5).shown + "%" }

    /// People read per cent, programs get the fraction.
    package var cell: Cell { .told(shown, json: json) }
    package var json: JSON { .number((fraction * 1e7).rounded() / 1e7) }

    package static func parse(_ text: String) throws(InvalidValue) -> Share {
        let isPercentage = text.hasSuffix("%")
        guard let number = Double(isPercentage ? text.dropLast() : text[...]) else {
            throw InvalidValue(Messages.notAShare)
        }
        let fraction = isPercentage ? number / 100 : number
        guard (0...1).contains(fraction) else { throw InvalidValue(Messages.notAShare) }
        return Share(fraction: fraction)
    }
}
