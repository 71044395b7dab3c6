package import FoundationEssentials

extension Statement {
    fileprivate static let followTimeline = Statement(
        "follow_timeline", "select cluster, timeline, undecided, back_to from pushq.follow_timeline()")
}

/// The copy of the database that a session is connected to: the primary, a standby that took its place, or a restored
/// backup.
package struct DatabaseCopy: Sendable {
    /// The number that `initdb` gave the cluster. A dump that is restored elsewhere is in another one.
    package let cluster: Int64
    /// The timeline of the server's write-ahead log. It grows whenever a standby or a base backup becomes the primary.
    package let timeline: Int32
    /// The number of queues that are paused because the database was restored, and that wait for an operator's
    /// decision.
    package let undecidedQueues: Int
    /// The last moment that the restored database contains; nil if no queue waits for a decision.
    package let backTo: Date?
}

extension PostgresConnection {
    /// Makes sure that no identifier is drawn twice after a change of the primary or a restore
    /// (migrations/functions/timeline.sql), and that nothing is sent again after a restore before an operator has
    /// decided (migrations/functions/restore.sql). Call it outside a transaction, before the first insert through a new
    /// connection.
    /// - Returns: nil if the schema does not exist yet, or this login may not use it.
    @discardableResult
    package func followTimeline() async throws(PostgresError) -> DatabaseCopy? {
        do throws(PostgresError) {
            let row = try await execute(.followTimeline).one()
            return DatabaseCopy(
                cluster: row.int8("cluster"), timeline: row.int4("timeline"), undecidedQueues: row.count("undecided"),
                backTo: row.optionalTime("back_to"))
        } catch .notMigrated, .notAllowed {
            return nil
        }
    }
}
