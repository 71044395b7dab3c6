/// A column of a listing: its name, which is also the key in JSON, and its cell for a row.
package struct Column<Row> {
    package let name: String
    package let cell: (Row) -> Cell
    /// Whether tables omit the column, because they show its value in another way.
    let isForProgramsOnly: Bool

    /// A column called `name`, in `snake_case`; the table's head shows it with spaces.
    /// - Parameter isForProgramsOnly: tables omit the column; JSON has it.
    package init(_ name: String, isForProgramsOnly: Bool = false, _ cell: @escaping (Row) -> Cell) {
        self.name = name
        self.isForProgramsOnly = isForProgramsOnly
        self.cell = cell
    }

    func member(of row: Row) -> (String, JSON) {
        (name, cell(row).json)
    }

    static func title(of name: String) -> String {
        name.split(separator: "_").joined(separator: " ")
    }
}

/// The rows of one kind in a result with several kinds: a table, or an array in JSON.
package struct Listing {
    package let name: String
    /// Returns the table for a terminal of the given width in columns.
    let text: (Int?) -> String
    package let json: JSON

    /// - Parameter name: the key in JSON.
    package init<Row>(_ name: String, _ rows: [Row], columns: [Column<Row>]) {
        self.name = name
        text = { Table(rows, columns: columns, width: $0).text }
        json = .array(rows.map { row in .object(columns.map { $0.member(of: row) }) })
    }
}

/// Rows in aligned columns: numbers flush right, text flush left, two spaces between.
///
/// A table that is wider than the terminal breaks its titles at their spaces; if that is not enough, it shows one row
/// below the other, with a line for each value.
package struct Table {
    private static let gap = "  "

    /// The whole table, a line each, without a newline at its end.
    package let text: String

    /// Lays out `rows`.
    /// - Parameter width: columns of the terminal; nil for no limit.
    package init<Row>(_ rows: [Row], columns: [Column<Row>], width: Int? = nil) {
        let columns = columns.filter { !$0.isForProgramsOnly }
        let titles = columns.map { Column<Row>.title(of: $0.name) }
        let cells = rows.map { row in columns.map { $0.cell(row) } }
        let whole = Grid(heads: titles.map { [$0] }, cells: cells)
        let broken = Grid(heads: titles.map { $0.split(separator: " ").map(String.init) }, cells: cells)
        if whole.width <= width ?? .max {
            text = whole.text
        } else if broken.width <= width ?? .max {
            text = broken.text
        } else {
            text = rows.map { row in Self.facts(columns.map { ($0.name, $0.cell(row)) }) }.joined(separator: "\n\n")
        }
    }

    /// Names and values in two columns.
    package static func facts(_ facts: [(name: String, value: Cell)]) -> String {
        let texts = facts.map { (Column<Void>.title(of: $0.name), $0.value.text) }
        let width = texts.map(\.0.count).max() ?? 0
        return texts.map { "\($0.0.padding(to: width))\(gap)\($0.1)" }.joined(separator: "\n")
    }

    /// Cells under heads of one or several lines.
    private struct Grid {
        private let lines: [[String]]
        private let widths: [Int]
        private let right: [Bool]

        init(heads: [[String]], cells: [[Cell]]) {
            let height = heads.map(\.count).max() ?? 0
            // Shorter heads stand at the bottom.
            let padded = heads.map { [String](repeating: "", count: height - $0.count) + $0 }
            let lines = (0..<height).map { line in padded.map { $0[line] } } + cells.map { $0.map(\.text) }
            self.lines = lines
            widths = heads.indices.map { column in lines.map { $0[column].terminalColumns }.max() ?? 0 }
            right = heads.indices.map { column in cells.contains { $0[column].isNumber } }
        }

        var width: Int { widths.reduce(0, +) + gap.count * max(0, widths.count - 1) }

        var text: String { lines.map(line).joined(separator: "\n") }

        private func line(_ texts: [String]) -> String {
            let padded = texts.indices.map { column in
                right[column]
                    ? texts[column].padding(before: widths[column]) : texts[column].padding(to: widths[column])
            }
            return String(padded.joined(separator: gap).reversed().drop { $0 == " " }.reversed())
        }
    }
}
