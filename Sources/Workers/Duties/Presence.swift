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
    private var isDraining = false
    private var isStopping = false

    init(loop: EventLoop, store: EngineStore, settings: EngineSettings, owner: Int64) {
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
        await store.attempt {
            try await $0.showWorker(owner, name: settings.name, version: settings.version, isDraining: isDraining)
        }
    }
}
