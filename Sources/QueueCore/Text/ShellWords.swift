/// Quotes words for a shell, and splits an example into words as a shell would: at spaces, except between quotes.
package enum ShellWords {
    /// Returns a word in a form that can be pasted into a shell.
    package static func quoted(_ word: String) -> String {
        let isPlain =
            !word.isEmpty && word.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "-_./:@%+,=".contains($0)) }
        return isPlain ? word : "'\(word.replacing(scalar: "'", with: "'\\''"))'"
    }

    /// Returns the last argument of a command. If it begins with a hyphen, it stands behind `--`, or the command would
    /// read it as an option. So options go before it.
    package static func argument(_ word: String) -> String {
        (word.hasPrefix("-") ? "-- " : "") + quoted(word)
    }

    package static func split(_ line: String) -> [String] {
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
