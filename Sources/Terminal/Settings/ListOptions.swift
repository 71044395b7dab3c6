package import PostgresStore

/// The options of every list of named things: the filter by name, and the maximum number of rows.
package struct ListOptions: ParameterGroup {
    @Option("List only those with this text in their names.", "TEXT") var matching: String?
    @Option("Maximum number of rows; by default all.") var limit: Count?

    package init() {}

    package var selection: ListSelection { ListSelection(matching: matching, limit: limit?.number) }

    /// Returns the rows of a short list whose names contain the text, up to the limit.
    package func selected<Row>(of rows: [Row], named name: (Row) -> String) -> [Row] {
        let matching = matching?.lowercased()
        let selected = rows.filter { row in matching.map { name(row).lowercased().contains($0) } ?? true }
        return Array(selected.prefix(limit?.number ?? .max))
    }
}
