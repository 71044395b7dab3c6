import PostgresStore
import Transport

/// What every part of an engine gets when it is made.
///
/// Belongs to the engine's event loop.
final class EngineContext {
    /// The event loop that the engine lives on.
    let loop: EventLoop
    let settings: EngineSettings
    /// The worker that this engine is: the number under which it holds leases and duties.
    let workerID: Int64
    /// Opens credentials; nil if this worker has none.
    let masterKeys: MasterKeys?
    /// Reports what has happened to the process that runs the engine.
    let report: (EngineEvent) -> Void
    let stores: EngineStores
    /// Counts what the engine does.
    let figures: EngineFigures
    /// Raised when there may be something to claim. Only `Intake` waits for it.
    let mayHaveWork: Signal
    /// Raised when a queue has fewer permits than recipients. Only `PermitTaker` waits for it.
    let lacksPermits: Signal
    /// Raised when the engine is to drain, and then when something is over that the drain waits for: the last answer
    /// has come, intake or the audit has ended. Only the drain waits for it.
    let drainProgress: Signal

    init(
        loop: EventLoop, settings: EngineSettings, workerID: Int64, masterKeys: MasterKeys?, stores: EngineStores,
        figures: EngineFigures = EngineFigures(QueueAdmission()), report: @escaping (EngineEvent) -> Void
    ) {
        self.loop = loop
        self.settings = settings
        self.workerID = workerID
        self.masterKeys = masterKeys
        self.stores = stores
        self.figures = figures
        self.report = report
        mayHaveWork = Signal(loop: loop)
        lacksPermits = Signal(loop: loop)
        drainProgress = Signal(loop: loop)
    }
}
