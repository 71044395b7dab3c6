/// How much is shown of a list that is never long.
package struct RowLimit: ParameterGroup {
    @Option("Maximum number of rows; by default all.") var limit: Count?

    package init() {}

    /// The first of them, as many as are wanted.
    package func first<Row>(of rows: [Row]) -> [Row] { Array(rows.prefix(limit?.number ?? .max)) }
}
