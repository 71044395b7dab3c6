extension String: ArgumentValue {
    package static var placeholder: String { "TEXT" }

    package static func parse(_ text: String) throws(InvalidValue) -> String {
        guard !text.isEmpty else { throw InvalidValue(Messages.empty) }
        return text
    }
}

extension Int: ArgumentValue {
    package static var placeholder: String { "N" }

    package static func parse(_ text: String) throws(InvalidValue) -> Int {
        // Users write a million as "1_000_000" or "1,000,000", too. But "12,13" are two numbers, and "1,5" is no 15.
        let isGrouped = text.wholeMatch(of: /-?[0-9]{1,3}([,_][0-9]{3})+/) != nil
        let digits = isGrouped ? text.filter { $0 != "_" && $0 != "," } : text
        if let number = Int(digits) { return number }
        let isNumber =
            !digits.isEmpty && digits.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        throw InvalidValue(isNumber ? Messages.tooLarge : Messages.notAWholeNumber)
    }
}

/// A number of things, at least one.
package struct Count: ArgumentValue, ExpressibleByIntegerLiteral, Sendable {
    package let number: Int

    package static var placeholder: String { "N" }
    package var shown: String { "\(number)" }

    /// A known count, above 0.
    package init(integerLiteral number: Int) {
        precondition(number > 0, "a count is above 0")
        self.number = number
    }

    package static func parse(_ text: String) throws(InvalidValue) -> Count {
        let number = try Int.parse(text)
        guard number > 0 else { throw InvalidValue(Messages.notACount) }
        return Count(integerLiteral: number)
    }
}

extension Double: ArgumentValue {
    package static var placeholder: String { "NUMBER" }

    package static func parse(_ text: String) throws(InvalidValue) -> Double {
        guard let number = Double(text), number.isFinite else { throw InvalidValue(Messages.notANumber) }
        return number
    }
}

/// A flag, which is true if it is given.
extension Bool: ArgumentValue {
    package static var placeholder: String { "" }
    package var shown: String { "" }

    package static func parse(_ text: String) -> Bool { true }
}

/// One of a few words: an enum whose names help and errors list.
package protocol ArgumentChoice: ArgumentValue, CaseIterable, RawRepresentable<String> {}

extension ArgumentChoice {
    package static var placeholder: String { words.joined(separator: "|") }
    package static var words: [String] { allCases.map(\.rawValue) }
    package var shown: String { rawValue }

    package static func parse(_ text: String) throws(InvalidValue) -> Self {
        guard let choice = Self(rawValue: text) else {
            throw InvalidValue(Messages.notOne(of: words))
        }
        return choice
    }
}
