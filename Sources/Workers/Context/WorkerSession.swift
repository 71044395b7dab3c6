import PostgresStore
import Transport

/// Prepares the sessions of one engine, and says once what they lack.
///
/// Belongs to the engine's event loop.
final class WorkerSession {
    /// How long a server may take that is looked at, so that one that says nothing holds up no start.
    private static let surveyLimit = Duration.seconds(2)

    private let address: String
    private let report: (EngineEvent) -> Void
    private var hasSaid = false
    /// The newest timeline of a server that sessions were opened at.
    private var timeline: Int32 = 0
    /// The older one of which was said that it is refused.
    private var refusedTimeline: Int32?
    /// Whether it was said that queues wait for a decision since the database was restored.
    private var hasSaidRestore = false

    /// - Parameter address: where the database is, for errors.
    init(at address: String, report: @escaping (EngineEvent) -> Void) {
        self.address = address
        self.report = report
    }

    /// Looks at all servers of the address before one of them is used. Two may take writes: the old primary is back,
    /// and does not know that it was replaced. Which one it is, their timelines tell.
    /// - Parameter loop: the caller's.
    func survey(_ database: DatabaseAddress, on loop: EventLoop) async {
        for host in database.eachHost {
            // A server that cannot be reached now, or takes no writes, is not the one.
            guard
                let connection = try? await PostgresConnection.connect(
                    to: host, as: "pushq work (survey)", on: loop, within: Self.surveyLimit, needsWrites: true)
            else { continue }
            connection.terms = StatementTerms()
            if let found = try? await connection.followTimeline() { timeline = max(timeline, found.timeline) }
            connection.close()
        }
    }

    /// Called with each connection before the engine uses it.
    /// - Throws: ``PostgresError/cannotConnect(address:reason:)`` at a server whose place another one has taken: it
    ///   does not know what was sent since, and would have it sent again.
    func prepare(_ connection: PostgresConnection) async throws(PostgresError) {
        // First of all, because it fixes the search path.
        let lack = try await connection.prepareWorkerSession()
        if let copy = try await connection.followTimeline() {
            let found = copy.timeline
            guard found >= timeline else {
                if refusedTimeline != found { report(.oldPrimary(timeline: Int(found), newest: Int(timeline))) }
                refusedTimeline = found
                throw .cannotConnect(
                    address: address,
                    reason: "its timeline \(found) is older than \(timeline), which this worker has seen")
            }
            (timeline, refusedTimeline) = (found, nil)
            if let backTo = copy.backTo, !hasSaidRestore {
                report(.databaseRestored(queues: copy.undecidedQueues, backTo: backTo))
            }
            hasSaidRestore = copy.backTo != nil
        }
        guard let lack, !hasSaid else { return }
        hasSaid = true
        report(.sessionLacks(lack))
    }
}
