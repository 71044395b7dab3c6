extension Statement {
    fileprivate static let followTimeline = Statement("follow_timeline", "select pushq.follow_timeline() as timeline")
}

extension PostgresConnection {
    /// Sees to it that no identifier is drawn twice after a change of the primary (migrations/functions/timeline.sql).
    /// Call it before anything is inserted through a new connection, outside of a transaction.
    /// - Returns: the timeline of the server's write-ahead log, which grows whenever a standby or a backup becomes the
    ///   primary; nil where the schema is not there yet, or not for this login.
    @discardableResult
    package func followTimeline() async throws(PostgresError) -> Int32? {
        do throws(PostgresError) {
            return try await execute(.followTimeline).one().int4("timeline")
        } catch .notMigrated, .notAllowed {
            return nil
        }
    }
}
