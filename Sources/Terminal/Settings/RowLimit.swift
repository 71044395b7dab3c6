/// The option that limits the rows of a short list.
package struct RowLimit: ParameterGroup {
    @Option("Maximum number of rows; by default all.") var limit: Count?

    package init() {}

    /// Returns the first rows, up to the limit.
    package func first<Row>(of rows: [Row]) -> [Row] { Array(rows.prefix(limit?.number ?? .max)) }
}
