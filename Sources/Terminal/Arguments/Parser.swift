import QueueCore

/// Reads a command line: finds the command in the tree, fills its fields, and reports errors in the user's terms.
struct Parser {
    /// The request of a command line.
    enum Request {
        case run(any Command, json: Bool, name: String)
        case help(path: [String], CommandTree)
        case reference
        case version
    }

    let program: String
    let root: CommandTree

    /// Reads `arguments`, without the executable's own name.
    func parse(_ arguments: [String]) throws(UsageError) -> Request {
        var rest = ArraySlice(arguments)
        var path = [program]
        var json = false
        var tree = root
        while case .group(_, _, let children) = tree {
            guard let word = rest.popFirst() else {
                throw UsageError(Messages.commandMissing(path), remedy: remedy(path)).of(path)
            }
            switch word {
            case "--help", "-h": return .help(path: path, tree)
            case "--version": return .version
            case "--json": json = true
            case "help" where path.count == 1 && rest == ["--markdown"]: return .reference
            case "help" where !children.contains { $0.name == word }: rest.append("--help")
            default:
                tree = try child(word, of: children, path: path)
                path.append(tree.name)
            }
        }
        guard case .command(let type) = tree else { fatalError("a tree is a group or a command") }
        return try fill(type, from: rest, path: path, json: json)
    }

    private func child(_ word: String, of children: [CommandTree], path: [String]) throws(UsageError) -> CommandTree {
        if let child = children.first(where: { $0.name == word }) { return child }
        let names = children.map(\.name)
        guard let near = Suggestion.nearest(to: word, among: names) else {
            throw UsageError(Messages.unknownCommand(word, among: names), remedy: remedy(path)).of(path)
        }
        throw UsageError(Messages.unknownCommand(word, nearest: near), remedy: remedy(path + [near])).of(path)
    }

    private func fill(
        _ type: any Command.Type, from words: ArraySlice<String>, path: [String], json: Bool
    ) throws(UsageError) -> Request {
        let command = type.init()
        var words = CommandWords(words, fields: CommandFields(of: command), json: json)
        do throws(UsageError) {
            if try words.readAll() == .helpWanted { return .help(path: path, .command(type)) }
        } catch {
            // Suggests help and never an example: pasting an example would run a command, and some commands delete
            // data.
            throw error.suggesting(remedy(path)).of(path)
        }
        return .run(command, json: words.json, name: path.joined(separator: " "))
    }

    private func remedy(_ path: [String]) -> String {
        (path + ["--help"]).joined(separator: " ")
    }
}

/// The words that follow a command, read from left to right.
private struct CommandWords {
    enum End {
        case complete, helpWanted
    }

    private var words: ArraySlice<String>
    private let fields: CommandFields
    private var positionals: ArraySlice<CommandParameter>
    private(set) var json: Bool

    init(_ words: ArraySlice<String>, fields: CommandFields, json: Bool) {
        self.words = words
        self.fields = fields
        self.json = json
        positionals = ArraySlice(fields.positionals)
    }

    /// Reads every word into the command's fields.
    mutating func readAll() throws(UsageError) -> End {
        while let word = words.popFirst() {
            switch word {
            case "--help", "-h": return .helpWanted
            case "--json": json = true
            case "--": try readPositionals()
            case _ where word.hasPrefix("-") && word != "-": try readOption(word)
            default: try readPositional(word)
            }
        }
        if let missing = fields.missing.first { throw UsageError(Messages.missing(missing.usage)) }
        return .complete
    }

    /// After `--` every word is an argument, even if it looks like an option.
    private mutating func readPositionals() throws(UsageError) {
        while let word = words.popFirst() { try readPositional(word) }
    }

    private mutating func readPositional(_ word: String) throws(UsageError) {
        guard let parameter = positionals.first else { throw UsageError(Messages.unexpected(word)) }
        if !parameter.isRepeated { positionals.removeFirst() }
        try read(word, into: parameter)
    }

    /// Flags that every command has.
    private static let everywhere = ["--json", "--help"]

    private mutating func readOption(_ word: String) throws(UsageError) {
        let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        guard let parameter = fields.options.first(where: { $0.name == parts[0] }) else {
            if Self.everywhere.contains(parts[0]) { throw UsageError(Messages.flagWithValue(parts[0])) }
            let near = Suggestion.nearest(to: parts[0], among: fields.options.map(\.name) + Self.everywhere)
            throw UsageError(
                Messages.unknownOption(parts[0], nearest: near, mayBeArgument: !positionals.isEmpty))
        }
        if parameter.kind == .flag {
            guard parts.count == 1 else { throw UsageError(Messages.flagWithValue(parameter.name)) }
            return try read("", into: parameter)
        }
        try read(try parts.count == 2 ? parts[1] : valueAfter(parameter), into: parameter)
    }

    /// The word after an option. A word that begins with two hyphens is the next option, so the value is missing.
    private mutating func valueAfter(_ parameter: CommandParameter) throws(UsageError) -> String {
        guard let value = words.first, !value.hasPrefix("--") else {
            throw UsageError(Messages.valueMissing(parameter.usage))
        }
        words.removeFirst()
        return value
    }

    private func read(_ word: String, into parameter: CommandParameter) throws(UsageError) {
        do throws(InvalidValue) {
            try parameter.read(word)
        } catch {
            let shown = parameter.isConfidential || parameter.kind == .flag ? nil : word
            throw UsageError(Messages.invalid(parameter.name, value: shown, reason: error.reason))
        }
    }
}
