package import PostgresStore

/// What of a list is shown: the filter by name that every list of named things has, and the maximum number of rows.
package struct ListOptions: ParameterGroup {
    @Option("List only those with this text in their names.", "TEXT") var matching: String?
    @Option("Maximum number of rows; by default all.") var limit: Count?

    package init() {}

    package var selection: ListSelection { ListSelection(matching: matching, limit: limit?.number) }

    /// The first of those with the text in their names, as many as are wanted, of a list that is never long.
    package func selected<Row>(of rows: [Row], named name: (Row) -> String) -> [Row] {
        let matching = matching?.lowercased()
        let selected = rows.filter { row in matching.map { name(row).lowercased().contains($0) } ?? true }
        return Array(selected.prefix(limit?.number ?? .max))
    }
}
