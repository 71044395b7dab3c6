import PostgresStore
import Transport

@testable import Workers

extension EngineContext {
    /// The context of an engine, for tests of a single part of an engine.
    static func testing(
        over address: DatabaseAddress, on loop: EventLoop, settings: EngineSettings = EngineSettings(),
        workerID: Int64 = 1,
        masterKeys: MasterKeys? = nil, report: @escaping (EngineEvent) -> Void = { _ in }
    ) -> EngineContext {
        EngineContext(
            loop: loop, settings: settings, workerID: workerID, masterKeys: masterKeys,
            postgres: EngineConnections(to: address, on: loop, report: report), report: report)
    }
}
