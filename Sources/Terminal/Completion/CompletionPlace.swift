/// A place on a command line, behind the name of a group or a command, and the words that are possible there.
struct CompletionPlace {
    /// A possible word: the name of a command or an option.
    struct Word {
        let name: String
        /// The first sentence of its help.
        let help: String
        /// The completion of its value; nil for a name without a value.
        let value: ValueCompletion?
    }

    /// The names of groups and command, each with a blank before it: ` queue set`. Empty behind the program's name.
    let path: String
    /// Commands of a group; none behind a command.
    let commands: [Word]
    let options: [Word]
    /// The completions of its positional arguments.
    let arguments: [ValueCompletion]

    /// Every place of a program, the outermost first.
    static func all(of root: CommandTree) -> [CompletionPlace] { places(of: root, at: "") }

    private static func places(of tree: CommandTree, at path: String) -> [CompletionPlace] {
        switch tree {
        case .group(_, _, let children):
            let commands = children.map { Word(name: $0.name, help: sentence($0.summary), value: nil) }
            let everywhere = Messages.everywhere + (path.isEmpty ? [Messages.version] : [])
            let place = CompletionPlace(
                path: path, commands: commands, options: everywhere.map(option), arguments: [])
            return [place] + children.flatMap { places(of: $0, at: "\(path) \($0.name)") }
        case .command(let type):
            let fields = CommandFields(of: type.init())
            let options = fields.options.map { parameter in
                Word(
                    name: parameter.name, help: sentence(parameter.help),
                    value: parameter.kind == .flag ? nil : parameter.completion)
            }
            return [
                CompletionPlace(
                    path: path, commands: [], options: options + Messages.everywhere.map(option),
                    arguments: fields.positionals.map(\.completion))
            ]
        }
    }

    private static func option(_ entry: (name: String, help: String)) -> Word {
        Word(name: entry.name, help: sentence(entry.help), value: nil)
    }

    private static func sentence(_ text: String) -> String {
        let end = text.firstRange(of: ". ")?.lowerBound ?? text.endIndex
        return String(text[..<end]).trimmingSuffix(".")
    }

    /// Whether any of its arguments is a file.
    var takesFiles: Bool { arguments.contains(.files) }

    /// The words that its arguments may be.
    var argumentWords: [String] {
        arguments.flatMap { if case .words(let words) = $0 { words } else { [String]() } }
    }
}

extension String {
    fileprivate func trimmingSuffix(_ suffix: String) -> String {
        hasSuffix(suffix) ? String(dropLast(suffix.count)) : self
    }

    /// The text as one word of any of the three shells, between single quotes.
    var singleQuoted: String { "'\(replacing("'", with: "'\\''"))'" }
}
