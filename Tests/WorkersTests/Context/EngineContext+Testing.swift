import PostgresStore
import Transport

@testable import Workers

extension EngineContext {
    /// What a part of an engine gets, for tests that make the part alone.
    static func testing(
        over address: DatabaseAddress, on loop: EventLoop, settings: EngineSettings = EngineSettings(),
        workerID: Int64 = 1,
        masterKeys: MasterKeys? = nil, report: @escaping (EngineEvent) -> Void = { _ in }
    ) -> EngineContext {
        EngineContext(
            loop: loop, settings: settings, workerID: workerID, masterKeys: masterKeys,
            stores: EngineStores(to: address, on: loop, report: report), report: report)
    }
}
