import QueueCore

/// The style of a part of a line. Bold and reversed text are used even without colours.
package enum TextStyle: Sendable, Equatable {
    case plain, bold, dim, reversed
    /// `bad` is wrong, `doubtful` needs a look.
    case bad, doubtful, good

    /// The parameters of the sequence that turns the style on (ECMA-48, 8.3.117); nil for none.
    fileprivate func code(inColor: Bool) -> String? {
        switch self {
        case .plain: nil
        case .bold: "1"
        case .dim: inColor ? "2" : nil
        case .reversed: "7"
        case .bad: inColor ? "1;31" : "1"
        case .doubtful: inColor ? "33" : nil
        case .good: inColor ? "32" : nil
        }
    }
}

/// A line of a screen: texts with their styles, from the left. Its text cannot control the terminal.
package struct StyledLine: Sendable, Equatable, ExpressibleByStringLiteral {
    private var parts: [Part] = []

    private struct Part: Sendable, Equatable {
        var text: String
        let style: TextStyle
    }

    /// A line of one style.
    package init(_ text: String = "", _ style: TextStyle = .plain) { append(text, style) }
    package init(stringLiteral text: String) { self.init(text) }

    /// Adds a text at the right.
    package mutating func append(_ text: String, _ style: TextStyle = .plain) {
        if !text.isEmpty { parts.append(Part(text: text.printable(), style: style)) }
    }

    /// The text without styles.
    package var text: String { parts.map(\.text).joined() }

    /// The number of columns that it takes.
    package var columns: Int { text.terminalColumns }

    /// Returns the line in one style, clipped or padded to the width of the screen.
    package func highlighted(_ style: TextStyle, columns: Int) -> StyledLine {
        StyledLine(text.clipped(to: columns).padding(to: columns), style)
    }

    /// Returns the output for a terminal, at most `columns` columns wide.
    package func encoded(columns: Int, inColor: Bool) -> String {
        var room = columns
        var encoded = ""
        for part in parts where room > 0 {
            let text = part.text.clipped(to: room)
            room -= text.terminalColumns
            encoded += part.style.code(inColor: inColor).map { "\u{1B}[\($0)m\(text)\u{1B}[0m" } ?? text
        }
        return encoded
    }
}

extension String {
    /// The number of terminal columns that the text takes: two for a wide character, such as East Asian ones and emoji,
    /// one for any other.
    package var terminalColumns: Int {
        utf8.count == unicodeScalars.count ? utf8.count : reduce(0) { $0 + $1.terminalColumns }
    }

    /// Returns the text, or as much of it as fits with an ellipsis at its end.
    package func clipped(to columns: Int) -> String {
        guard terminalColumns > columns else { return self }
        guard columns > 0 else { return "" }
        var (clipped, room) = ("", columns - 1)
        for character in self {
            room -= character.terminalColumns
            guard room >= 0 else { break }
            clipped.append(character)
        }
        return clipped + "…"
    }

    /// Returns the text, or its beginning and its end with an ellipsis between them. So the environment of a queue's
    /// name stays visible.
    package func clippedInside(to columns: Int) -> String {
        guard terminalColumns > columns, columns > 4 else { return clipped(to: columns) }
        let end = String(suffix(columns / 2))
        return clipped(to: columns - end.terminalColumns) + end
    }
}

extension Character {
    /// The columns by Unicode Standard Annex 11.
    fileprivate var terminalColumns: Int {
        guard let first = unicodeScalars.first else { return 0 }
        // This variation selector makes a wide emoji of a narrow character, such as a heart (section 5 there).
        let isEmoji = unicodeScalars.dropFirst().first == "\u{FE0F}" && first.properties.isEmoji
        return isEmoji || first.isWide ? 2 : 1
    }
}

extension Unicode.Scalar {
    /// Whether a character that begins with this scalar takes two columns. Characters that are emoji by themselves do,
    /// and outside of these blocks, no others.
    fileprivate var isWide: Bool {
        value >= 0x1100 && (properties.isEmojiPresentation || Self.wide.contains { $0.contains(value) })
    }

    private static let wide: [ClosedRange<UInt32>] = [
        0x1100...0x115F, 0x2329...0x232A, 0x2E80...0x303E, 0x3040...0xA4CF, 0xA960...0xA97C, 0xAC00...0xD7A3,
        0xF900...0xFAFF, 0xFE10...0xFE19, 0xFE30...0xFE6F, 0xFF00...0xFF60, 0xFFE0...0xFFE6, 0x16FE0...0x18DFF,
        0x1AFF0...0x1B2FF, 0x1F200...0x1F265, 0x20000...0x3FFFD,
    ]
}
