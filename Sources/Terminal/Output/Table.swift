/// One column of a listing: its name, which is also the key in JSON, and what stands in it for a row.
package struct Column<Row> {
    package let name: String
    package let cell: (Row) -> Cell

    /// A column called `name`, in `snake_case`; the table's head shows it with spaces.
    package init(_ name: String, _ cell: @escaping (Row) -> Cell) {
        self.name = name
        self.cell = cell
    }

    func member(of row: Row) -> (String, JSON) {
        (name, cell(row).json)
    }

    static func title(of name: String) -> String {
        name.split(separator: "_").joined(separator: " ")
    }
}

/// Rows in aligned columns: numbers flush right, text flush left, two spaces between.
package struct Table {
    /// The whole table, a line each, without a newline at its end.
    package let text: String

    /// Lays out `rows`.
    package init<Row>(_ rows: [Row], columns: [Column<Row>]) {
        let titles = columns.map { Column<Row>.title(of: $0.name) }
        let cells = rows.map { row in columns.map { $0.cell(row) } }
        let texts = cells.map { $0.map(\.text) }
        let widths = columns.indices.map { column in
            texts.map { $0[column].count }.reduce(titles[column].count, max)
        }
        let right = columns.indices.map { column in cells.contains { $0[column].isNumber } }
        text = ([titles] + texts).map { Self.line($0, widths: widths, right: right) }.joined(separator: "\n")
    }

    private static func line(_ texts: [String], widths: [Int], right: [Bool]) -> String {
        let padded = texts.indices.map { column in
            right[column]
                ? texts[column].padding(before: widths[column]) : texts[column].padding(to: widths[column])
        }
        return String(padded.joined(separator: "  ").reversed().drop { $0 == " " }.reversed())
    }
}
