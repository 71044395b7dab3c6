/// A command of an executable.
///
/// Its stored properties are its parameters, marked `@Positional`, `@Option` or `@Flag`. The parser makes a command
/// with `init()` and fills them; the program calls `run`.
package protocol Command: Sendable {
    /// The name of the command on the command line.
    static var name: String { get }

    /// One sentence for the list of commands.
    static var summary: String { get }

    /// The logins that may use it. There is no default, so that every command needs a decision.
    static var users: CommandUsers { get }

    /// What else a user must know. An empty line separates paragraphs.
    static var discussion: String { get }

    /// Valid command lines, without the executable's name.
    static var examples: [String] { get }

    init()

    /// Runs the command. A thrown error is shown in one line and ends the program with exit code 1, or 2 if it is a
    /// `UsageError`.
    func run(_ console: Console) async throws
}

extension Command {
    package static var discussion: String { "" }
    package static var examples: [String] { [] }
}

/// The commands of an executable, as a tree: `pushq-admin queue set` is a command in a group.
package enum CommandTree: Sendable {
    case command(any Command.Type)
    case group(name: String, summary: String, [CommandTree])

    var name: String {
        switch self {
        case .command(let type): type.name
        case .group(let name, _, _): name
        }
    }

    var summary: String {
        switch self {
        case .command(let type): type.summary
        case .group(_, let summary, _): summary
        }
    }
}

/// The fields of a command, in the order in which they are declared.
struct CommandFields {
    let fields: [(field: any ParameterField, parameter: CommandParameter)]

    init(of command: any Command) {
        fields = Self.collect(from: command)
    }

    var parameters: [CommandParameter] { fields.map(\.parameter) }
    var positionals: [CommandParameter] { parameters.filter { $0.kind == .positional } }
    var options: [CommandParameter] { parameters.filter { $0.kind != .positional } }

    /// The required parameters that were not given.
    var missing: [CommandParameter] {
        fields.filter { !$0.field.isFilled }.map(\.parameter)
    }

    private static func collect(from value: Any) -> [(field: any ParameterField, parameter: CommandParameter)] {
        Mirror(reflecting: value).children.flatMap { child in
            if let field = child.value as? any ParameterField, let label = child.label {
                return [(field, field.parameter(label: label))]
            }
            return child.value is any ParameterGroup ? collect(from: child.value) : []
        }
    }
}
