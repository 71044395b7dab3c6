/// A named value: `@Option("How many.") var count: Int = 3` is given as `--count 5` or `--count=5`.
@propertyWrapper
package struct Option<Value: ArgumentValue>: ParameterField {
    private let help: String
    private let placeholder: String
    private let box: ParameterBox<Value>

    /// An option without a default: required, unless its type is optional or an array.
    ///
    /// - Parameters:
    ///   - help: one sentence for the help text.
    ///   - placeholder: the word that stands for the value in help; by default that of the type.
    package init(_ help: String, _ placeholder: String? = nil) {
        self.help = help
        self.placeholder = placeholder ?? Value.placeholder
        box = ParameterBox(fallback: Value.absent)
    }

    /// An option with a default.
    package init(wrappedValue: Value, _ help: String, _ placeholder: String? = nil) {
        self.help = help
        self.placeholder = placeholder ?? Value.placeholder
        box = ParameterBox(fallback: wrappedValue)
    }

    /// The given value, or the default.
    package var wrappedValue: Value {
        guard let value = box.value else { fatalError("an option is read before the command was parsed") }
        return value
    }

    var isFilled: Bool { box.value != nil }

    func parameter(label: String) -> CommandParameter {
        box.describe(.option, name: ParameterName.option(for: label), placeholder: placeholder, help: help)
    }
}

/// A value identified by its place: `@Positional("The queue.") var queue: QueueName`.
@propertyWrapper
package struct Positional<Value: ArgumentValue>: ParameterField {
    private let help: String
    private let box: ParameterBox<Value>

    /// A positional argument: required, unless its type is optional or an array.
    package init(_ help: String) {
        self.help = help
        box = ParameterBox(fallback: Value.absent)
    }

    /// The given value.
    package var wrappedValue: Value {
        guard let value = box.value else { fatalError("an argument is read before the command was parsed") }
        return value
    }

    var isFilled: Bool { box.value != nil }

    func parameter(label: String) -> CommandParameter {
        box.describe(.positional, name: ParameterName.positional(for: label), placeholder: "", help: help)
    }
}

/// A switch: `@Flag("Wait for the end.") var wait` is true when `--wait` is given.
@propertyWrapper
package struct Flag: ParameterField {
    private let help: String
    private let box = ParameterBox<Bool>(fallback: false)

    /// A switch that is off unless given.
    package init(_ help: String) {
        self.help = help
    }

    /// Whether the flag was given.
    package var wrappedValue: Bool { box.value ?? false }

    var isFilled: Bool { true }

    func parameter(label: String) -> CommandParameter {
        box.describe(.flag, name: ParameterName.option(for: label), placeholder: "", help: help)
    }
}
