import PostgresStore
import Transport

/// Shows this worker to operators. Nothing is decided by it.
///
/// Belongs to the engine's event loop.
final class Presence {
    private static let interval = Duration.seconds(5)

    private let store: EngineStore
    private let settings: EngineSettings
    private let owner: Int64
    private let signal: Signal
    /// What the worker is at: requests in flight, and queues for which APNs is out of reach.
    private let look: () -> (inFlight: Int, unreachable: [Int32])
    private var isDraining = false
    private var isStopping = false

    init(
        loop: EventLoop, store: EngineStore, settings: EngineSettings, owner: Int64,
        look: @escaping () -> (inFlight: Int, unreachable: [Int32])
    ) {
        self.look = look
        self.store = store
        self.settings = settings
        self.owner = owner
        signal = Signal(loop: loop)
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
    func run() async {
        while !isStopping {
            await show()
            await signal.wait(atMost: Self.interval)
        }
        await store.attempt { try await $0.removeWorker(owner) }
    }

    private func show() async {
        var sign = WorkerSign(name: settings.name)
        sign.version = settings.version
        sign.queues = settings.queues
        sign.isDraining = isDraining
        (sign.inFlight, sign.unreachable) = look()
        await store.attempt { try await $0.showWorker(owner, sign) }
    }
}
