/// The text of `--help`, made from the declaration of a command.
struct Help {
    /// The names from the executable to the command: `["pushq-admin", "queue", "set"]`.
    let path: [String]
    let tree: CommandTree

    /// The whole text, without a newline at its end.
    var text: String {
        sections.joined(separator: "\n\n")
    }

    private var sections: [String] {
        switch tree {
        case .group(_, let summary, let children): groupSections(summary, children)
        case .command(let type): commandSections(type)
        }
    }

    private func groupSections(_ summary: String, _ children: [CommandTree]) -> [String] {
        let isRoot = path.count == 1
        return [
            TextLayout.wrap(summary),
            "\(Messages.usageTitle) \(path.joined(separator: " ")) COMMAND …",
            section(Messages.commandsTitle, children.map { ($0.name, $0.summary) }),
            section(Messages.everywhereTitle, Messages.everywhere + (isRoot ? [Messages.version] : [])),
            Messages.more(path),
        ]
    }

    private func commandSections(_ type: any Command.Type) -> [String] {
        let fields = CommandFields(of: type.init())
        let program = path[0]
        return [
            TextLayout.wrap(type.summary),
            usage(fields),
            TextLayout.wrap(type.discussion),
            TextLayout.wrap(type.users.help),
            section(Messages.argumentsTitle, fields.positionals.map { ($0.name, $0.help) }),
            section(Messages.optionsTitle, fields.options.map { ($0.usage, $0.explanation) }),
            section(Messages.everywhereTitle, Messages.everywhere),
            examples(type.examples.map { "\(program) \($0)" }),
        ].filter { !$0.isEmpty }
    }

    private func usage(_ fields: CommandFields) -> String {
        let positionals = fields.positionals.map { $0.isRepeated ? "\($0.name) …" : $0.name }
            .enumerated().map { fields.positionals[$0.offset].isRequired ? $0.element : "[\($0.element)]" }
        let required = fields.options.filter(\.isRequired).map(\.usage)
        let optional = fields.options.contains { !$0.isRequired } ? ["[OPTIONS]"] : []
        let words = path + positionals + required + optional
        return "\(Messages.usageTitle) \(words.joined(separator: " "))"
    }

    private func section(_ title: String, _ entries: [(String, String)]) -> String {
        entries.isEmpty ? "" : ([title] + entries.flatMap(TextLayout.entry)).joined(separator: "\n")
    }

    private func examples(_ lines: [String]) -> String {
        lines.isEmpty ? "" : ([Messages.examplesTitle] + lines.map { "  \($0)" }).joined(separator: "\n")
    }
}
