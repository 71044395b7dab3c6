import PostgresStore
import Terminal

/// What of a list is shown that may be long.
struct ListOptions: ParameterGroup {
    @Option("List only those with this text in their names.", "TEXT") var matching: String?
    @Option("Maximum number of rows; by default all.") var limit: Count?

    var selection: ListSelection { ListSelection(matching: matching, limit: limit?.number) }
}
