extension StringProtocol {
    /// The text without white space, including line ends, at its beginning and its end.
    package func trimmed() -> String {
        let start = drop(while: \.isWhitespace)
        return String(start[..<(start.lastIndex { !$0.isWhitespace }.map(start.index(after:)) ?? start.startIndex)])
    }

    /// The text without line ends at its beginning and its end; blanks stay.
    package func trimmingLineEnds() -> String {
        let start = drop(while: \.isNewline)
        return String(start[..<(start.lastIndex { !$0.isNewline }.map(start.index(after:)) ?? start.startIndex)])
    }
}
