/// Breaks text into lines of a terminal's width.
///
/// The width is fixed, so that help is the same on every machine and in `docs/cli.md`.
package enum TextLayout {
    static let width = 80
    private static let indent = 26

    /// Returns `text` in lines of at most `width` characters; paragraphs stay separate.
    static func wrap(_ text: String) -> String {
        text.split(separator: "\n\n").map { lines(of: $0, width: width).joined(separator: "\n") }
            .joined(separator: "\n\n")
    }

    /// Returns a name and its explanation in two columns, as in help.
    static func entry(_ name: String, _ explanation: String) -> [String] {
        entry("  \(name)", explanation, indent: indent, width: width)
    }

    /// Returns a name and its explanation in two columns. The second column begins after `indent` characters.
    package static func entry(_ name: String, _ explanation: String, indent: Int, width: Int) -> [String] {
        let explained = lines(of: explanation[...], width: width - indent)
        let margin = String(repeating: " ", count: indent)
        guard name.count + 2 <= indent, let first = explained.first else {
            return [name] + explained.map { margin + $0 }
        }
        return [name.padding(to: indent) + first] + explained.dropFirst().map { margin + $0 }
    }

    private static func lines(of text: Substring, width: Int) -> [String] {
        var lines: [String] = []
        for word in text.split(whereSeparator: \.isWhitespace) {
            if let line = lines.last, line.count + 1 + word.count <= width {
                lines[lines.count - 1] = "\(line) \(word)"
            } else {
                lines.append(String(word))
            }
        }
        return lines
    }
}

extension String {
    /// The string with spaces after it up to `width` columns of a terminal.
    package func padding(to width: Int) -> String {
        self + String(repeating: " ", count: max(0, width - terminalColumns))
    }

    /// The string with spaces before it up to `width` columns of a terminal.
    package func padding(before width: Int) -> String {
        String(repeating: " ", count: max(0, width - terminalColumns)) + self
    }
}
