import PostgresStore
import Transport

/// Prepares the sessions of one engine, and reports once what they lack.
///
/// Belongs to the engine's event loop.
final class SessionPreparation {
    private let report: (EngineEvent) -> Void
    private var hasSaid = false
    /// The newest timeline of all servers at which sessions were opened.
    private let newest: NewestTimeline
    /// The older timeline whose refusal was reported.
    private var refusedTimeline: Int32?
    /// Whether it was reported that queues wait for a decision since the database was restored.
    private var hasSaidRestore = false
    /// The sessions that were prepared, and where they lead.
    private var sessions: [Session] = []

    private struct Session {
        weak var connection: PostgresConnection?
        let cluster: Int64
        let timeline: Int32
    }

    /// - Parameter address: where the database is, for errors.
    init(at address: String, report: @escaping (EngineEvent) -> Void) {
        newest = NewestTimeline(at: address)
        self.report = report
    }

    /// How often another copy of the database has taken the place of the one that the engine used.
    var changes: Int { newest.changes }

    /// Looks at all servers of the address before one of them is used, and reports an old primary.
    /// - Parameter loop: the caller's event loop.
    /// - Returns: the position of the newest primary among the hosts; nil if only one is named, or none accepts writes.
    @discardableResult
    func survey(_ database: DatabaseAddress, on loop: EventLoop) async -> Int? {
        let servers = await newest.survey(database, as: "pushq work (survey)", on: loop)
        for server in servers where server.cluster == newest.cluster && server.timeline < newest.timeline {
            noteRefused(server.timeline)
        }
        leaveOlderServers()
        return servers.newest?.host
    }

    /// Prepares a connection before the engine uses it.
    /// - Throws: ``PostgresError/cannotConnect(address:reason:)`` for a server that another one has replaced. It does
    ///   not know what was sent since, so pushes would be sent again.
    func prepare(_ connection: PostgresConnection) async throws(PostgresError) {
        // This comes first because it fixes the search path.
        let lack = try await connection.prepareWorkerSession()
        if let copy = try await connection.followTimeline() {
            let found = copy.timeline
            try await checkMove(to: copy.cluster, by: connection)
            do throws(PostgresError) {
                try newest.note(found, ofCluster: copy.cluster)
            } catch {
                noteRefused(found)
                throw error
            }
            noteRestore(of: copy)
            note(copy, of: connection)
            leaveOlderServers()
        }
        guard let lack, !hasSaid else { return }
        hasSaid = true
        report(.sessionLacks(lack))
    }

    /// Checks whether the database has moved to the cluster that a session has found.
    /// - Throws: ``PostgresError/cannotConnect(address:reason:)`` while other sessions lead to the former cluster: jobs
    ///   of both would be sent. A pooler may have led them to the new one meanwhile, and a session whose server is
    ///   frozen ends when it is asked.
    private func checkMove(to found: Int64, by connection: PostgresConnection) async throws(PostgresError) {
        guard let cluster = newest.cluster, cluster != found else { return }
        // Sessions may be added while one is asked.
        while let other = sessions.first(where: {
            $0.cluster != found && $0.connection !== connection && $0.connection?.isOpen == true
        })?.connection {
            let copy = try? await other.followTimeline()
            guard other.isOpen else { continue }
            guard let copy, copy.cluster == found else {
                throw newest.refusal(because: "it is another cluster than the one where this program has sessions")
            }
            note(copy, of: other)
        }
        refusedTimeline = nil
    }

    /// Notes where a session leads.
    private func note(_ copy: DatabaseCopy, of connection: PostgresConnection) {
        sessions.removeAll { $0.connection === connection }
        sessions.append(Session(connection: connection, cluster: copy.cluster, timeline: copy.timeline))
    }

    /// Ends the sessions at servers that another one has replaced. Such a server may still take writes. A worker that
    /// used both would lease jobs at one, and record at the other what became of them: it would send them again and
    /// again.
    private func leaveOlderServers() {
        let older = sessions.filter { $0.timeline < newest.timeline }
        sessions.removeAll { $0.timeline < newest.timeline || $0.connection?.isOpen != true }
        for session in older where session.connection?.isOpen == true {
            noteRefused(session.timeline)
            session.connection?.lose("its timeline \(session.timeline) is older than \(newest.timeline)")
        }
    }

    private func noteRefused(_ timeline: Int32) {
        guard refusedTimeline != timeline else { return }
        refusedTimeline = timeline
        report(.oldPrimary(timeline: Int(timeline), newest: Int(newest.timeline)))
    }

    /// Reports if the database was restored while its sessions stayed open.
    func lookForRestore(_ connection: PostgresConnection) async throws(PostgresError) {
        if let copy = try await connection.followTimeline() { noteRestore(of: copy) }
    }

    private func noteRestore(of copy: DatabaseCopy) {
        if let backTo = copy.backTo, !hasSaidRestore {
            report(.databaseRestored(queues: copy.undecidedQueues, backTo: backTo))
        }
        hasSaidRestore = copy.backTo != nil
    }
}
