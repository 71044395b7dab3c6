extension String {
    /// This text in a form that is safe in a log line, in a table cell and in a column of PostgreSQL, whoever wrote it:
    /// without line breaks, NUL, escape sequences that a terminal obeys, and characters that change the direction of
    /// the surrounding text.
    ///
    /// Line breaks and tabs become spaces; other control characters are written out, such as `\u{1B}`. A text that is
    /// longer than `byteLimit` is cut there and ends with an ellipsis.
    package func printable(upTo byteLimit: Int = .max) -> String {
        // Nearly every text is short, plain ASCII. This check needs no Unicode decoding.
        if utf8.count <= byteLimit, utf8.allSatisfy({ (0x20..<0x7F).contains($0) }) { return self }
        var printable = ""
        for scalar in unicodeScalars {
            let part = scalar.printable
            guard printable.utf8.count + part.utf8.count <= byteLimit else { return printable + "…" }
            printable += part
        }
        return printable
    }
}

extension Unicode.Scalar {
    /// Whether the scalar controls how text is shown and is not shown itself: the control characters C0, DEL and C1,
    /// the separators of lines and paragraphs, and the controls of the bidirectional algorithm (Unicode Standard Annex
    /// 9; CVE-2021-42574).
    package var isControl: Bool {
        switch properties.generalCategory {
        case .control, .lineSeparator, .paragraphSeparator: true
        default: properties.isBidiControl
        }
    }

    fileprivate var printable: String {
        guard isControl else { return String(self) }
        // Line breaks and tabs separate words, as in a message of several lines; others are rarely meant.
        return properties.isWhitespace && isASCII ? " " : "\\u{" + String(value, radix: 16, uppercase: true) + "}"
    }
}
