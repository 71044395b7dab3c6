package import Transport

/// A server of an address that accepts writes. There may be two: an old primary may be back and not know that another
/// server has taken its place. Their timelines show which is the old one.
package struct WritableServer: Sendable {
    /// The position of the server among the hosts of the address.
    package let host: Int
    /// Where the server is, as the address names it.
    package let place: String
    /// The number that `initdb` gave its cluster.
    package let cluster: Int64
    /// The timeline of the server's write-ahead log.
    package let timeline: Int32
    /// When the server was started. Two hosts may lead to one server.
    fileprivate let start: Double

    /// How long a survey waits for one server, so that a silent server delays a start only a little.
    fileprivate static let surveyLimit = Duration.seconds(2)
}

extension DatabaseAddress {
    /// Whether the address names several servers.
    package var namesSeveralHosts: Bool { hosts.count > 1 }

    /// Looks at all servers of the address. Returns those that accept writes, each once and in the order of the
    /// address; none if the address names only one server. A server that is out of reach now is not the primary.
    /// - Parameter loop: the caller's event loop.
    package func writableServers(as applicationName: String, on loop: EventLoop) async -> [WritableServer] {
        var found: [WritableServer] = []
        for (host, address) in eachHost.enumerated() {
            guard
                let connection = try? await PostgresConnection.connect(
                    to: address, as: applicationName, on: loop, within: WritableServer.surveyLimit, needsWrites: true)
            else { continue }
            defer { connection.close() }
            connection.terms = StatementTerms()
            // A pooler may accept a session although its server is silent.
            let answer = try? await connection.execute(.timelineOfServer, within: WritableServer.surveyLimit)
            // The address itself may ask for a standby, which has none.
            guard let row = try? answer?.one(),
                let timeline = row.optionalInt4("timeline")
            else { continue }
            let server = WritableServer(
                host: host, place: hosts[host].place, cluster: row.int8("cluster"), timeline: timeline,
                start: row.float8("start"))
            if !found.contains(where: { $0.start == server.start }) { found.append(server) }
        }
        return found
    }
}

extension Statement {
    /// `pushq.current_timeline()` explains the expression.
    static let timelineOfServer = Statement(
        "timeline_of_server",
        #"""
        select case when not pg_is_in_recovery()
                 then ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::int end as timeline,
               c.system_identifier as cluster, extract(epoch from pg_postmaster_start_time())::float8 as start
        from pg_control_system() c
        """#)
}

extension [WritableServer] {
    /// The server with the newest timeline; nil if there is none.
    package var newest: WritableServer? { self.max { $0.timeline < $1.timeline } }

    /// Where the servers are, each with its timeline.
    package var summary: String {
        map { "\($0.place) (timeline \($0.timeline))" }.joined(separator: " and ")
    }
}
