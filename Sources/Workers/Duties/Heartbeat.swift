import PostgresStore
import Transport

/// Shows this worker to operators, and learns whether a migration has come that this worker must not outlive.
///
/// Belongs to the engine's event loop.
final class Heartbeat {
    private static let interval = Duration.seconds(5)

    private let store: EngineStore
    private let settings: EngineSettings
    private let workerID: Int64
    private let signal: Signal
    private let dispatcher: Dispatcher
    private let queues: Queues
    private var isDraining = false
    private var isStopping = false

    init(_ context: EngineContext, dispatcher: Dispatcher, queues: Queues) {
        store = context.stores.upkeep
        settings = context.settings
        workerID = context.workerID
        self.dispatcher = dispatcher
        self.queues = queues
        signal = Signal(loop: context.loop)
    }

    /// Shows that the worker takes nothing more.
    func noteDraining() {
        isDraining = true
        signal.raise()
    }

    func stop() {
        isStopping = true
        signal.raise()
    }

    /// Shows the worker until ``stop()``, then takes it off the list.
    /// - Throws: ``SchemaMismatch`` as soon as the schema does not suit this worker any more.
    func run() async throws {
        var mismatch: SchemaMismatch?
        while !isStopping, mismatch == nil {
            mismatch = await show()
            if mismatch == nil { await signal.wait(atMost: Self.interval) }
        }
        await store.attempt { try await $0.removeWorker(workerID) }
        if let mismatch { throw mismatch }
    }

    private func show() async -> SchemaMismatch? {
        var sign = WorkerSign(name: settings.name)
        sign.version = settings.version
        sign.queues = settings.queues
        sign.isDraining = isDraining
        (sign.inFlight, sign.unreachable) = (dispatcher.inFlight, queues.unreachable)
        return await store.attempt { try await $0.showWorker(workerID, sign) } ?? nil
    }
}
