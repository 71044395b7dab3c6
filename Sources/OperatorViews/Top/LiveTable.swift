import Terminal

/// A column of a table that has to fit on the screen.
struct LiveColumn<Row> {
    let title: String
    let cell: (Row) -> Cell
    /// On a narrow screen, columns with higher numbers are left out first.
    let importance: Int
}

/// A table with one line for each row. On a narrow screen, it leaves out less important columns, and then shortens the
/// first one.
struct LiveTable<Row> {
    private let rows: [Row]
    private let columns: [LiveColumn<Row>]
    private let cells: [[Cell]]
    private let widths: [Int]
    private let screenColumns: Int

    /// The first column keeps at least this width while other columns can be left out.
    private static var leastFirstWidth: Int { 32 }
    private static var gap: Int { 2 }

    init(_ columns: [LiveColumn<Row>], _ rows: [Row], columns screenColumns: Int) {
        self.rows = rows
        self.screenColumns = screenColumns
        var shown = columns
        let width = { (column: LiveColumn<Row>) in
            max(column.title.terminalColumns, rows.map { column.cell($0).text.terminalColumns }.max() ?? 0)
        }
        var widths = shown.map(width)
        let sum = { widths.reduce(0, +) + Self.gap * (widths.count - 1) }
        // Width of the first column beyond its minimum is no reason to leave out another column.
        let spare = max(0, (widths.first ?? 0) - Self.leastFirstWidth)
        while sum() - spare > screenColumns, shown.count > 1 {
            let last = shown.indices.dropFirst().max { shown[$0].importance < shown[$1].importance }!
            shown.remove(at: last)
            widths.remove(at: last)
        }
        if sum() > screenColumns, !widths.isEmpty { widths[0] = max(1, widths[0] - (sum() - screenColumns)) }
        self.columns = shown
        self.widths = widths
        cells = rows.map { row in shown.map { $0.cell(row) } }
    }

    /// The header and a line for each row; nil if there are no rows.
    func lines(style: (Row) -> TextStyle) -> [StyledLine]? {
        guard !rows.isEmpty else { return nil }
        let right = columns.indices.map { column in cells.contains { $0[column].isNumber } }
        let line = { (texts: [String]) in
            texts.indices.map { column in
                let text = column == 0 ? texts[0].clippedInside(to: widths[0]) : texts[column]
                return right[column] ? text.padding(before: widths[column]) : text.padding(to: widths[column])
            }
            .joined(separator: String(repeating: " ", count: Self.gap))
        }
        let head = StyledLine(line(columns.map(\.title)), .bold)
        return [head]
            + zip(rows, cells).map { row, cells in
                let text = line(cells.map(\.text))
                let style = style(row)
                // A selected line is highlighted over the full width.
                return style == .reversed
                    ? StyledLine(text).highlighted(style, columns: screenColumns) : StyledLine(text, style)
            }
    }
}
