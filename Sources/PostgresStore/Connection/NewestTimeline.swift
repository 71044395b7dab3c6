package import Transport

/// The newest timeline that a program has seen at the servers of an address. It keeps a program that connects again
/// from using an old primary, which does not know what was written since. Timelines are compared within one cluster:
/// the database may move to another one, by a dump or `pg_upgrade`, whose timelines are counted anew.
///
/// Belongs to an event loop.
package final class NewestTimeline {
    private let address: String
    private(set) package var timeline: Int32 = 0
    /// The number that `initdb` gave the cluster of these servers; nil before the first.
    private(set) package var cluster: Int64?
    /// How often another copy of the database has taken the place of the one that the program knew. The new one may
    /// lack what was written last to the former one.
    private(set) package var changes = 0

    /// - Parameter address: where the database is, for errors.
    package init(at address: String) {
        self.address = address
    }

    /// Looks at all servers of the address before one of them is used.
    /// - Parameter loop: the caller's event loop.
    /// - Returns: those that accept writes, only of the known cluster if it has any; none if the address names only
    ///   one.
    @discardableResult
    package func survey(
        _ database: DatabaseAddress, as applicationName: String, on loop: EventLoop
    ) async -> [WritableServer] {
        let servers = await database.writableServers(as: applicationName, on: loop)
        let known = servers.filter { cluster == nil || $0.cluster == cluster }
        if let newest = known.newest {
            follow(max(timeline, newest.timeline), of: newest.cluster)
        }
        return known.isEmpty ? servers : known
    }

    /// Notes the timeline of a server before it is used.
    /// - Throws: ``PostgresError/cannotConnect(address:reason:)`` for a server that another one has replaced, so that
    ///   the next host is tried.
    package func note(_ found: Int32, ofCluster number: Int64) throws(PostgresError) {
        guard cluster != number || found >= timeline else {
            throw refusal(because: "its timeline \(found) is older than \(timeline), which this program has seen")
        }
        follow(found, of: number)
    }

    private func follow(_ found: Int32, of number: Int64) {
        if cluster != nil, cluster != number || timeline != found { changes += 1 }
        (cluster, timeline) = (number, found)
    }

    /// The error about a server that must not be used.
    package func refusal(because reason: String) -> PostgresError {
        .cannotConnect(address: address, reason: reason)
    }
}

extension PostgresConnection {
    /// Notes the timeline of the server that this session has reached; a standby has none. Any login may read it, also
    /// before the schema exists.
    package func noteTimeline(in newest: NewestTimeline) async throws(PostgresError) {
        let row = try await execute(.timelineOfServer).one()
        if let found = row.optionalInt4("timeline") { try newest.note(found, ofCluster: row.int8("cluster")) }
    }
}
