/// A type whose values are read from one word of a command line.
///
/// Conform a type to it to use it with `@Option` and `@Positional`. A parameter of an optional type may be absent, and
/// one of an array type may be given several times. Any other is required unless it has a default.
package protocol ArgumentValue: Sendable {
    /// The word that stands for a value in help, in capitals: `DURATION`.
    static var placeholder: String { get }

    /// The words that are the only values, for shells to offer; none if there are others.
    static var words: [String] { get }

    /// Whether errors must not repeat a value. This is for secrets and device tokens.
    static var isConfidential: Bool { get }

    /// Reads `text`, or throws what is wrong with it.
    static func parse(_ text: String) throws(InvalidValue) -> Self

    /// Reads one more `text` for a parameter that may have an `earlier` value.
    static func parse(_ text: String, after earlier: Self?) throws(InvalidValue) -> Self

    /// The value if none is given; nil if that is an error.
    static var absent: Self? { get }

    /// Whether the parameter may be given several times.
    static var isRepeated: Bool { get }

    /// The text of a default in help.
    var shown: String { get }
}

/// A word that is not valid for a parameter.
package struct InvalidValue: Error, Equatable {
    /// What is wrong, as the end of a sentence that begins with the parameter: `is not a whole number`.
    package let reason: String

    /// Says what is wrong: `is not a whole number`.
    package init(_ reason: String) {
        self.reason = reason
    }
}

extension ArgumentValue {
    package static var words: [String] { [] }
    package static var isConfidential: Bool { false }
    package static var isRepeated: Bool { false }
    package static var absent: Self? { nil }
    package var shown: String { "\(self)" }

    package static func parse(_ text: String, after earlier: Self?) throws(InvalidValue) -> Self {
        guard earlier == nil else { throw InvalidValue(Messages.givenTwice) }
        return try parse(text)
    }
}

extension Optional: ArgumentValue where Wrapped: ArgumentValue {
    package static var placeholder: String { Wrapped.placeholder }
    package static var words: [String] { Wrapped.words }
    package static var isConfidential: Bool { Wrapped.isConfidential }
    package static var absent: Self? { .some(nil) }
    package var shown: String { self?.shown ?? "" }

    package static func parse(_ text: String) throws(InvalidValue) -> Self {
        try Wrapped.parse(text)
    }
}

extension Array: ArgumentValue where Element: ArgumentValue {
    package static var placeholder: String { Element.placeholder }
    package static var words: [String] { Element.words }
    package static var isConfidential: Bool { Element.isConfidential }
    package static var isRepeated: Bool { true }
    package static var absent: Self? { [] }
    package var shown: String { map(\.shown).joined(separator: ", ") }

    package static func parse(_ text: String) throws(InvalidValue) -> Self {
        [try Element.parse(text)]
    }

    package static func parse(_ text: String, after earlier: Self?) throws(InvalidValue) -> Self {
        (earlier ?? []) + (try parse(text))
    }
}
