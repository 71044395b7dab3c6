import QueueCore

extension Console {
    /// Prints rows of an export as PostgreSQL has formatted them: NDJSON if results are JSON, otherwise CSV.
    ///
    /// On a terminal, control characters in fields of a CSV are made printable; a file or another program gets the data
    /// unchanged. In JSON, characters that control a terminal are escaped; a reader of the JSON gets the same text.
    package func print(rows: String) {
        if speaksJSON {
            print(JSON.escaped(rows))
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
}
