extension Statement {
    fileprivate static let retryRefusedQueues = Statement(
        "retry_refused_queues", "select pushq.retry_refused_queues() as resumed")
}

extension PostgresConnection {
    /// Resumes queues that are paused because APNs refuses their credential, when it is time to try again: after 15
    /// minutes, then after twice the time each, up to 6 hours. Resumes up to 100 of them.
    /// - Returns: the number of queues. If it is 0, none is left.
    package func retryRefusedQueues() async throws(PostgresError) -> Int {
        try await execute(.retryRefusedQueues).one().count("resumed")
    }
}
