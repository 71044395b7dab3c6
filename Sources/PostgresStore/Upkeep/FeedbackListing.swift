extension Statement {
    static let listFeedback = Statement("list_feedback", "select pushq.list_feedback($limit::int) as listed")
}

extension PostgresConnection {
    /// Lists some of the reports that producers have not been shown yet. Returns the number of reports.
    package func listFeedback(atMost limit: Int = 5000) async throws(PostgresError) -> Int {
        Int(try await execute(.listFeedback, ["limit": .int4(Int32(limit))]).one().int4("listed"))
    }
}
