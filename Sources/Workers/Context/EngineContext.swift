import PostgresStore
import Transport

/// What every part of an engine receives when it is created.
///
/// Belongs to the engine's event loop.
final class EngineContext {
    /// The event loop on which the engine runs.
    let loop: EventLoop
    let settings: EngineSettings
    /// The ID under which this engine holds leases and duties.
    let workerID: Int64
    /// The keys that open credentials; nil if this worker has none.
    let masterKeys: MasterKeys?
    /// Reports events to the process that runs the engine.
    let report: (EngineEvent) -> Void
    let postgres: EngineConnections
    /// Counts what the engine does.
    let figures: EngineFigures
    let delays = AnswerDelays()
    /// Raised when there may be something to claim. Only `Intake` waits for it.
    let mayHaveWork: Signal
    /// Raised when a queue has fewer permits than recipients. Only `PermitTaker` waits for it.
    let lacksPermits: Signal
    /// Raised when the engine is to drain, and again when something that the drain waits for has ended: the last answer
    /// has arrived, or intake or the audit has ended. Only the drain waits for it.
    let drainProgress: Signal

    init(
        loop: EventLoop, settings: EngineSettings, workerID: Int64, masterKeys: MasterKeys?,
        postgres: EngineConnections,
        figures: EngineFigures = EngineFigures(QueueAdmission()), report: @escaping (EngineEvent) -> Void
    ) {
        self.loop = loop
        self.settings = settings
        self.workerID = workerID
        self.masterKeys = masterKeys
        self.postgres = postgres
        self.figures = figures
        self.report = report
        mayHaveWork = Signal(loop: loop)
        lacksPermits = Signal(loop: loop)
        drainProgress = Signal(loop: loop)
    }
}
