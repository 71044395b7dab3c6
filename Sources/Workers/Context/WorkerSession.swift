import PostgresStore

/// Prepares the sessions of one engine, and says once what they lack.
///
/// Belongs to the engine's event loop.
final class WorkerSession {
    private let report: (EngineEvent) -> Void
    private var hasSaid = false

    init(report: @escaping (EngineEvent) -> Void) {
        self.report = report
    }

    /// Called with each connection before the engine uses it.
    func prepare(_ connection: PostgresConnection) async throws(PostgresError) {
        guard let lack = try await connection.prepareWorkerSession(), !hasSaid else { return }
        hasSaid = true
        report(.sessionLacks(lack))
    }
}
