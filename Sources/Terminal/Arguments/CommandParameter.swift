import Transport

/// A parameter of a command, whatever its type: its help, and how a word for it is read.
struct CommandParameter {
    enum Kind {
        case positional, option, flag
    }

    let kind: Kind
    /// `QUEUE` of a positional, `--token` of an option or flag.
    let name: String
    /// The word after an option in help; empty for flags and positionals.
    let placeholder: String
    /// What a shell offers for its value.
    let completion: ValueCompletion
    let help: String
    /// The default as help shows it; nil if there is none.
    let defaultText: String?
    let isRequired: Bool
    let isRepeated: Bool
    let isConfidential: Bool
    /// Reads one word into the command.
    let read: (String) throws(InvalidValue) -> Void

    /// The help with notes: required, repeatable, default.
    var explanation: String {
        let notes = [
            isRequired ? "required" : nil,
            isRepeated ? "may be repeated" : nil,
            defaultText.map { "default: \($0)" },
        ].compactMap(\.self)
        return notes.isEmpty ? help : "\(help) (\(notes.joined(separator: "; ")))"
    }

    /// How the parameter is written in a usage line: `--token HEX`.
    var usage: String {
        placeholder.isEmpty ? name : "\(name) \(placeholder)"
    }
}

/// A field of a command that the parser fills.
protocol ParameterField: Sendable {
    /// Describes the field; `label` is the name of the stored property.
    func parameter(label: String) -> CommandParameter
    /// Whether a value was given or there is a default.
    var isFilled: Bool { get }
}

/// Options that several commands share; a command includes them by having a property of this type.
package protocol ParameterGroup: Sendable {}

/// The value that the parser read. It is a reference, so that it can be filled after the command's `init()`.
final class ParameterBox<Value: ArgumentValue>: Sendable {
    private let fallback: Value?
    private let given = Locked<Value?>(nil)

    init(fallback: Value?) {
        self.fallback = fallback
    }

    var value: Value? { given.withLock { $0 } ?? fallback }

    func read(_ text: String) throws(InvalidValue) {
        try given.withLock { (given) throws(InvalidValue) in given = try Value.parse(text, after: given) }
    }

    func describe(_ kind: CommandParameter.Kind, name: String, placeholder: String, help: String) -> CommandParameter {
        let shown = fallback?.shown ?? ""
        let offered = placeholder.isEmpty ? Value.placeholder : placeholder
        return CommandParameter(
            kind: kind, name: name, placeholder: placeholder,
            completion: Value.words.isEmpty ? ValueCompletion(placeholder: offered) : .words(Value.words), help: help,
            defaultText: shown.isEmpty ? nil : shown, isRequired: fallback == nil,
            isRepeated: Value.isRepeated, isConfidential: Value.isConfidential,
            read: { (text) throws(InvalidValue) in try self.read(text) })
    }
}

enum ParameterName {
    /// The option for a property: `maxRate` is given as `--max-rate`.
    static func option(for label: String) -> String {
        "--" + words(of: label).joined(separator: "-")
    }

    /// The placeholder of a positional: `keyFile` is shown as `KEY-FILE`.
    static func positional(for label: String) -> String {
        words(of: label).joined(separator: "-").uppercased()
    }

    private static func words(of label: String) -> [String] {
        var words = [""]
        var isWithinCapitals = true
        for character in label.drop(while: { $0 == "_" }) {
            // Capitals in a row are one word: `bundleID` is `bundle` and `id`.
            if character.isUppercase, !isWithinCapitals { words.append("") }
            isWithinCapitals = character.isUppercase
            words[words.count - 1] += character.lowercased()
        }
        return words
    }
}
