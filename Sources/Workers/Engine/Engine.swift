import APNs
import Cryptography
package import PostgresStore
import QueueCore
package import Transport

/// A worker: everything that runs on one event loop to take jobs from PostgreSQL and hand them to APNs. A process may
/// run several engines, which share nothing but the database.
///
/// Its parts are plain objects on the actor's executor that call each other synchronously. In the order in which a push
/// meets them:
/// - `Intake` finds work, leases it, and makes campaigns fan out.
/// - `Dispatcher` hands recipients to `PushGateway`s, by lane, weight, permit and room.
/// - `PermitTaker` takes permits from the rate limits.
/// - `AnswerRules` turns answers into outcomes.
/// - `Settler` writes outcomes back and ends jobs.
/// - `Queues` and `Gateways` keep settings, credentials and connections current.
/// - `Rescuer` and `DutyRunner` do the fleet's upkeep.
package actor Engine {
    /// The event loop on which the engine runs.
    package nonisolated let loop: EventLoop

    package nonisolated var unownedExecutor: UnownedSerialExecutor {
        unsafe loop.asUnownedSerialExecutor()
    }

    /// A number that no other worker has, new at every start. Host names recur, and would make orphans look alive.
    package nonisolated let workerID: Int64

    private var settings: EngineSettings
    private let database: DatabaseAddress
    private let tokenKeeper: DatabaseAddress?
    private let masterKeys: MasterKeys?
    private let report: @Sendable (EngineEvent) -> Void
    private let admission: QueueAdmission
    private var parts: EngineParts?
    private var isDraining = false

    /// Creates an engine without starting it.
    /// - Parameters:
    ///   - tokenKeeper: the database that keeps provider tokens, if it is another one: see ``SharedToken``.
    ///   - masterKeys: opens credentials; without it, no queue has a usable credential.
    ///   - admission: decides which queues have metrics of their own; shared by the engines of a process.
    ///   - report: called on the loop for each event, in order.
    package init(
        settings: EngineSettings, database: DatabaseAddress, tokenKeeper: DatabaseAddress? = nil,
        masterKeys: MasterKeys?, admission: QueueAdmission = QueueAdmission(),
        report: @escaping @Sendable (EngineEvent) -> Void
    ) {
        self.settings = settings
        self.database = database
        self.tokenKeeper = tokenKeeper
        self.masterKeys = masterKeys
        self.admission = admission
        self.report = report
        workerID = Int64.random(in: 1...Int64.max)
        loop = EventLoop(name: "engine")
    }

    /// Works until ``drain()`` was called and is done.
    /// - Throws: `PostgresError` if PostgreSQL cannot be reached at the start; `SchemaMismatch` if this worker and the
    ///   schema do not suit each other then; neither if the settings say that the worker waits for its database.
    ///   `EngineError` if a part ended or failed before it was drained, after everything else was drained.
    package func run() async throws {
        guard !isDraining else { return report(.stopped(sent: 0)) }
        let figures = EngineFigures(admission)
        let report = { [report] (event: EngineEvent) in
            figures.note(event)
            report(event)
        }
        let postgres = EngineConnections(
            to: database, keeper: tokenKeeper, startTime: settings.startTime, on: loop, report: report)
        defer { postgres.close() }
        let context = EngineContext(
            loop: loop, settings: settings, workerID: workerID, masterKeys: masterKeys, postgres: postgres,
            figures: figures,
            report: report)
        let parts = EngineParts(context, database: database)
        self.parts = parts
        guard try await parts.start() else { return report(.stopped(sent: 0)) }
        if isDraining { parts.stopIntake() }
        try await LoopGroup.run(
            parts.loops, on: loop, { try await self.run($0) }, mayEnd: { isDraining }, endAll: { drain() })
        let left = parts.jobs.left
        if left.jobs > 0 { report(.jobsLeft(left.jobs, pushes: left.pushes)) }
        report(.stopped(sent: parts.dispatcher.sent))
    }

    /// Claims nothing more, waits for pushes in flight, gives the rest back without using an attempt, and ends
    /// ``run()``. Pushes that are in flight for longer than the settings' `drain` are uncertain.
    package func drain() {
        guard !isDraining else { return }
        isDraining = true
        parts?.stopIntake()
    }

    /// Limits the number of connections to APNs from now on. At least one is allowed.
    package func limitConnections(to limit: Int) {
        settings.maximumConnections = max(1, limit)
        parts?.gateways.limitConnections(to: settings.maximumConnections)
    }

    /// The number of requests sent so far, and of those in flight.
    package var counts: (sent: Int, inFlight: Int) {
        (parts?.dispatcher.sent ?? 0, parts?.dispatcher.inFlight ?? 0)
    }

    /// What the engine has counted, and what it does now.
    package func snapshot() -> EngineSnapshot { parts?.snapshot ?? .starting }

    private func run(_ loop: EngineParts.Loop) async throws {
        try await parts?.run(loop)
    }
}
