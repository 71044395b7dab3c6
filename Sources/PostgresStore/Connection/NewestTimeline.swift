package import Transport

/// The newest timeline that a program has seen at the servers of an address. It keeps a program that connects again
/// from using an old primary, which does not know what was written since.
///
/// Belongs to an event loop.
package final class NewestTimeline {
    private let address: String
    private(set) package var timeline: Int32 = 0

    /// - Parameter address: where the database is, for errors.
    package init(at address: String) {
        self.address = address
    }

    /// Looks at all servers of the address before one of them is used.
    /// - Parameter loop: the caller's event loop.
    /// - Returns: those that accept writes; none if the address names only one.
    @discardableResult
    package func survey(
        _ database: DatabaseAddress, as applicationName: String, on loop: EventLoop
    ) async -> [WritableServer] {
        let servers = await database.writableServers(as: applicationName, on: loop)
        timeline = max(timeline, servers.newest?.timeline ?? 0)
        return servers
    }

    /// Notes the timeline of a server before it is used.
    /// - Throws: ``PostgresError/cannotConnect(address:reason:)`` for a server that another one has replaced, so that
    ///   the next host is tried.
    package func note(_ found: Int32) throws(PostgresError) {
        guard found >= timeline else {
            throw .cannotConnect(
                address: address, reason: "its timeline \(found) is older than \(timeline), which this program has seen"
            )
        }
        timeline = found
    }
}
