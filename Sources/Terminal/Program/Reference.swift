import QueueCore

/// The help of all commands as one Markdown text, which is `docs/cli.md`.
struct Reference {
    /// The name of the executable.
    let program: String
    let root: CommandTree

    /// The text, with one heading for each command, in the order of help.
    ///
    /// It also parses every example; an example that does not parse is a fault of this program.
    var markdown: String {
        chapter(path: [program], tree: root).joined(separator: "\n\n")
    }

    private func chapter(path: [String], tree: CommandTree) -> [String] {
        let heading = String(repeating: "#", count: min(path.count + 1, 4))
        let entry = "\(heading) \(path.joined(separator: " "))\n\n```text\n\(Help(path: path, tree: tree).text)\n```"
        switch tree {
        case .group(_, _, let children):
            return [entry] + children.flatMap { chapter(path: path + [$0.name], tree: $0) }
        case .command(let type):
            type.examples.forEach(check)
            return [entry]
        }
    }

    private func check(_ example: String) {
        do {
            _ = try Parser(program: program, root: root).parse(ShellWords.split(example))
        } catch {
            fatalError("the example '\(example)' does not parse: \(error)")
        }
    }
}
