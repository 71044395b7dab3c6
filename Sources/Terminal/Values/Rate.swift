/// Pushes a second, fractions included: `250`, `0.5`.
package struct Rate: ArgumentValue, Equatable, Sendable {
    package let perSecond: Double

    package static var placeholder: String { "RATE" }
    package var shown: String { perSecond == perSecond.rounded() ? "\(Int(perSecond))" : "\(perSecond)" }

    package static func parse(_ text: String) throws(InvalidValue) -> Rate {
        guard let number = Double(text), number > 0, number <= 1_000_000_000 else {
            throw InvalidValue(Messages.notARate)
        }
        return Rate(perSecond: number)
    }
}

/// A part of a whole: `0.05` or `5%`.
package struct Share: ArgumentValue, Equatable, Sendable {
    /// Between 0 and 1.
    package let fraction: Double

    package static var placeholder: String { "SHARE" }
    package var shown: String { "\(fraction)" }

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
