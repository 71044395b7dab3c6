import PostgresStore
import Transport

/// Prepares the sessions of one engine, and reports once what they lack.
///
/// Belongs to the engine's event loop.
final class SessionPreparation {
    /// How long a survey waits for one server, so that a silent server delays the start only a little.
    private static let surveyLimit = Duration.seconds(2)

    private let address: String
    private let report: (EngineEvent) -> Void
    private var hasSaid = false
    /// The newest timeline of all servers at which sessions were opened.
    private var timeline: Int32 = 0
    /// The older timeline whose refusal was reported.
    private var refusedTimeline: Int32?
    /// Whether it was reported that queues wait for a decision since the database was restored.
    private var hasSaidRestore = false

    /// - Parameter address: where the database is, for errors.
    init(at address: String, report: @escaping (EngineEvent) -> Void) {
        self.address = address
        self.report = report
    }

    /// Looks at all servers of the address before one of them is used. Two of them may accept writes: an old primary
    /// may be back and not know that it was replaced. Their timelines show which is the old one.
    /// - Parameter loop: the caller's event loop.
    func survey(_ database: DatabaseAddress, on loop: EventLoop) async {
        for host in database.eachHost {
            // A server that is out of reach now, or accepts no writes, is not the primary.
            guard
                let connection = try? await PostgresConnection.connect(
                    to: host, as: "pushq work (survey)", on: loop, within: Self.surveyLimit, needsWrites: true)
            else { continue }
            connection.terms = StatementTerms()
            if let found = try? await connection.followTimeline() { timeline = max(timeline, found.timeline) }
            connection.close()
        }
    }

    /// Prepares a connection before the engine uses it.
    /// - Throws: ``PostgresError/cannotConnect(address:reason:)`` for a server that another one has replaced. It does
    ///   not know what was sent since, so pushes would be sent again.
    func prepare(_ connection: PostgresConnection) async throws(PostgresError) {
        // This comes first because it fixes the search path.
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
