/// Everything that `--help` says, as one Markdown text: what `docs/cli.md` holds.
struct Reference {
    let program: Program

    /// One heading for each command, in the order of help.
    ///
    /// Every example is parsed on the way: one that does not is a mistake in this program.
    var markdown: String {
        chapter(path: [program.name], tree: program.root).joined(separator: "\n\n")
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
            _ = try Parser(program: program.name, root: program.root).parse(ShellWords.split(example))
        } catch {
            preconditionFailure("the example '\(example)' does not parse: \(error)")
        }
    }
}

/// Divides an example into words as a shell would: at spaces, except between quotes.
package enum ShellWords {
    /// A word as it can be pasted into a shell.
    package static func quoted(_ word: String) -> String {
        let isPlain =
            !word.isEmpty && word.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "-_./:@%+,=".contains($0)) }
        return isPlain ? word : "'\(word.replacing("'", with: "'\\''"))'"
    }

    static func split(_ line: String) -> [String] {
        var words: [String] = []
        var word: String?
        var quote: Character?
        for character in line {
            switch character {
            case quote: quote = nil
            case "'" where quote == nil, "\"" where quote == nil: (quote, word) = (character, word ?? "")
            case " " where quote == nil:
                if let word { words.append(word) }
                word = nil
            default: word = (word ?? "") + String(character)
            }
        }
        return words + (word.map { [$0] } ?? [])
    }
}
