/// Figures in sections, all in the same two columns, so that they can be compared and added up.
package struct Ledger {
    /// The whole text, without a newline at its end.
    package let text: String

    /// Lays out `sections`. Each has a title, which may be empty, and rows. Sections without rows are left out.
    package init(sections: [(title: String, rows: [(name: String, value: Cell)])]) {
        let rows = sections.flatMap(\.rows)
        let nameWidth = rows.map(\.name.count).max() ?? 0
        let valueWidth = rows.map(\.value.text.count).max() ?? 0
        let blocks = sections.filter { !$0.rows.isEmpty }.map { section in
            let lines = section.rows.map { row in
                "  \(row.name.padding(to: nameWidth))  \(row.value.text.padding(before: valueWidth))"
            }
            return ((section.title.isEmpty ? [] : [section.title]) + lines).joined(separator: "\n")
        }
        text = blocks.joined(separator: "\n\n")
    }
}
