package import FoundationEssentials

extension Statement {
    fileprivate static let followTimeline = Statement(
        "follow_timeline", "select timeline, undecided, back_to from pushq.follow_timeline()")
}

/// Which copy of the database a session is with: the primary, a standby that took its place, or a restored backup.
package struct DatabaseCopy: Sendable {
    /// Of the server's write-ahead log: grows whenever a standby or a base backup becomes the primary.
    package let timeline: Int32
    /// Queues that are paused because the database was restored and nobody has decided about them yet.
    package let undecidedQueues: Int
    /// The last moment that the restored database knows of; nil if no queue waits for a decision.
    package let backTo: Date?
}

extension PostgresConnection {
    /// Sees to it that no identifier is drawn twice after a change of the primary or a restore
    /// (migrations/functions/timeline.sql), and that nothing is sent again after a restore before an operator has
    /// decided (migrations/functions/restore.sql). Call it before anything is inserted through a new connection,
    /// outside of a transaction.
    /// - Returns: nil where the schema is not there yet, or not for this login.
    @discardableResult
    package func followTimeline() async throws(PostgresError) -> DatabaseCopy? {
        do throws(PostgresError) {
            let row = try await execute(.followTimeline).one()
            return DatabaseCopy(
                timeline: row.int4("timeline"), undecidedQueues: row.count("undecided"),
                backTo: row.optionalTime("back_to"))
        } catch .notMigrated, .notAllowed {
            return nil
        }
    }
}
