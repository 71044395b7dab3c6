import APNs
import PostgresStore
import Transport

/// Shows this worker to operators, and learns whether a migration has made the schema unsuitable for this worker, or
/// whether the database was restored.
///
/// Belongs to the engine's event loop.
final class Heartbeat {
    private static let interval = Duration.seconds(5)
    /// The maximum number of queues whose throughput is shown, so that ten thousand busy queues do not make heartbeats
    /// expensive.
    private static let maximumQueues = 500

    private let postgres: EngineConnections
    private let store: RetryingConnection
    private let settings: EngineSettings
    private let delays: AnswerDelays
    private let workerID: Int64
    private let signal: Signal
    private let loop: EventLoop
    private let jobs: HeldJobs
    private let dispatcher: Dispatcher
    private let queues: Queues
    private let gateways: Gateways
    private let settler: Settler
    private let startedAt: ContinuousClock.Instant
    /// When the throughput of the queues was last taken.
    private var toldAt: ContinuousClock.Instant
    private var isDraining = false
    private var isStopping = false

    init(
        _ context: EngineContext, jobs: HeldJobs, dispatcher: Dispatcher, queues: Queues, gateways: Gateways,
        settler: Settler
    ) {
        postgres = context.postgres
        store = postgres.upkeep
        settings = context.settings
        delays = context.delays
        workerID = context.workerID
        loop = context.loop
        self.jobs = jobs
        self.dispatcher = dispatcher
        self.queues = queues
        self.gateways = gateways
        self.settler = settler
        startedAt = .now
        toldAt = startedAt
        signal = Signal(loop: context.loop)
    }

    /// Shows that the worker claims nothing more.
    func noteDraining() {
        isDraining = true
        signal.raise()
    }

    func stop() {
        isStopping = true
        signal.raise()
    }

    /// Shows the worker until ``stop()``, then removes it from the list.
    /// - Throws: ``SchemaMismatch`` as soon as the schema does not suit this worker any more.
    func run() async throws {
        var mismatch: SchemaMismatch?
        while !isStopping, mismatch == nil {
            mismatch = await show()
            if mismatch == nil, !isStopping {
                await postgres.lookForRestore()
                postgres.lookForNewerServers()
                await signal.wait(atMost: Self.interval)
            }
        }
        await store.attempt { try await $0.removeWorker(workerID) }
        if let mismatch { throw mismatch }
    }

    private func show() async -> SchemaMismatch? {
        var report = WorkerReport(name: settings.name)
        report.version = settings.version
        report.queues = settings.queues
        report.isDraining = isDraining
        report.inFlight = dispatcher.inFlight
        report.heldJobs = jobs.count
        report.heldRecipients = jobs.all.reduce(0) { $0 + $1.claim.deviceIDs.count }
        let connections = gateways.connectionFigures
        (report.connections, report.streams) = (connections.connections, connections.inFlight + connections.freeSlots)
        (report.unreachable, report.inOutage, report.unusable) = (queues.unreachable, queues.inOutage, queues.unusable)
        report.prevention =
            settler.prevention.map { "PostgreSQL refuses to store the ends of jobs: \($0)" } ?? delays.refusal
            ?? settler.standstill ?? delays.obstacle
        let now = loop.now
        (report.interval, toldAt) = (toldAt.duration(to: now), now)
        report.throughput = queues.takeThroughput(limit: Self.maximumQueues)
        return await store.attempt { connection -> SchemaMismatch? in
            // Not before, because the wait for the connection may have taken long.
            report.uptime = startedAt.duration(to: .now)
            do throws(PostgresError) {
                return try await connection.showWorker(workerID, report)
            } catch {
                // A migration that stops this worker may also have taken away what the heartbeat writes.
                guard error.isOfServer, let mismatch = try? await connection.stoppingMismatch() else { throw error }
                return mismatch
            }
        } ?? nil
    }
}
