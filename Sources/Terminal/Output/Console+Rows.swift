import QueueCore

extension Console {
    /// Prints rows of an export as PostgreSQL has formatted them: NDJSON if results are JSON, otherwise CSV.
    ///
    /// On a terminal, control characters in fields of a CSV are made printable; a file or another program gets the data
    /// unchanged. In JSON, PostgreSQL escapes only what RFC 8259 requires. This also escapes characters that control a
    /// terminal; a reader of the JSON gets the same text.
    package func print(rows: String) {
        if speaksJSON {
            print(Self.escaped(ndjson: rows))
        } else {
            print(writesToTerminal ? Self.printable(csv: rows) : rows)
        }
    }

    private static func printable(csv rows: String) -> String {
        var printable = String.UnicodeScalarView()
        // A line break in quotes belongs to a field. A quotation mark in a field is doubled.
        var isQuoted = false
        for scalar in rows.unicodeScalars {
            if scalar == "\"" { isQuoted.toggle() }
            if scalar.isControl, scalar != "\n" || isQuoted {
                printable += String(scalar).printable().unicodeScalars
            } else {
                printable.append(scalar)
            }
        }
        return String(printable)
    }

    /// Escapes control characters. They occur only in texts, apart from the line break behind each row.
    private static func escaped(ndjson rows: String) -> String {
        // Nearly all rows are plain ASCII, which is quick to check.
        if rows.utf8.allSatisfy({ $0 < 0x7F }) { return rows }
        var escaped = String.UnicodeScalarView()
        for scalar in rows.unicodeScalars {
            if scalar != "\n", scalar.isControl {
                escaped += JSON.escape(scalar).unicodeScalars
            } else {
                escaped.append(scalar)
            }
        }
        return String(escaped)
    }
}
