import PostgresStore
import QueueCore
import Transport

/// Acts on what happens to the engine's connections to PostgreSQL.
protocol EngineStoresDelegate: AnyObject {
    /// A connection for claims or leases is back, and nobody has used it yet. Others may still be away.
    func storeIsBack()
}

/// The engine's ways to PostgreSQL. Each kind of statement has a connection of its own, so that none waits for a kind
/// that takes longer.
///
/// Belongs to the engine's event loop.
final class EngineStores {
    /// Polls for work, claims it, and reads settings.
    let claims: EngineStore
    /// Renews leases and ends jobs. Nothing may delay these.
    let leases: EngineStore
    /// Fans out and audits leases: each step takes 25 ms or more.
    let fanOut: EngineStore
    /// Does duties, whose statements may wait for others.
    let upkeep: EngineStore
    /// Where provider tokens are kept, if that is another database: see ``SharedToken``.
    let tokens: EngineStore?

    weak var delegate: (any EngineStoresDelegate)?

    private let connections: [StoreConnection]
    /// Looks at all servers of the address.
    private let survey: () async -> Void
    private let report: (EngineEvent) -> Void
    /// How many of the connections for claims and leases are lost.
    private var lostConnections = 0

    /// Stores that connect when they are first asked.
    /// - Parameter keeper: the database that keeps provider tokens, if it is another one.
    init(
        to database: DatabaseAddress, keeper: DatabaseAddress? = nil, on loop: EventLoop,
        report: @escaping (EngineEvent) -> Void
    ) {
        self.report = report
        let session = WorkerSession(at: database.description, report: report)
        survey = { await session.survey(database, on: loop) }
        var connections = ["", " (leases)", " (fan-out)", " (upkeep)"].map {
            StoreConnection(to: database, as: "pushq work\($0)", on: loop, prepare: session.prepare)
        }
        if let keeper {
            // What is amiss with it, the engines of that database report.
            let session = WorkerSession(at: keeper.description) { _ in }
            connections.append(
                StoreConnection(to: keeper, as: "pushq work (tokens)", on: loop, prepare: session.prepare))
        }
        let stores = connections.map { EngineStore($0, loop: loop, report: report) }
        (claims, leases, fanOut, upkeep) = (stores[0], stores[1], stores[2], stores[3])
        tokens = keeper == nil ? nil : stores[4]
        self.connections = connections
        // An outage is reported once.
        for connection in connections[..<2] {
            connection.reconnects = true
            connection.onLost = { [unowned self] in noteLost($0) }
            connection.onStillLost = { report(.storeStillLost($0.description)) }
            connection.onBack = { [unowned self] in noteBack() }
        }
        // Without these a worker still sends, and makes no jobs of campaigns. They alone may be refused, as at the
        // limit of its login.
        for connection in connections[2..<4] {
            connection.onFirstFailure = { [unowned self] error in
                if lostConnections == 0 { report(.storeStillLost(error.description)) }
            }
        }
    }

    /// Connects for the first time and returns the names of all queues. An error of the address shows here, at once,
    /// and so does a login that may not run workers, or a schema that this worker cannot work with. A server that is
    /// starting anew at this moment has ten seconds.
    /// - Parameter onFailure: called with the reason when the first attempt to connect has failed. Others follow.
    func start(onFailure: @escaping (PostgresError) -> Void) async throws -> [String] {
        for connection in connections[..<2] { connection.onFirstFailure = onFailure }
        defer { for connection in connections[..<2] { connection.onFirstFailure = nil } }
        await survey()
        let deadline = ContinuousClock.now + .seconds(10)
        while true {
            let connection = try await connections[0].current(within: ContinuousClock.now.duration(to: deadline))
            do {
                try await connection.checkWorkerRights()
                try await connection.checkSchema()
                // A server may have room for one session and not for the next, and what cannot be recorded is sent
                // again.
                _ = try await connections[1].current(within: ContinuousClock.now.duration(to: deadline))
                return try await connection.queueNames()
            } catch let error as PostgresError
                where error.isPassing && !connection.isOpen && ContinuousClock.now < deadline
            {
                // Its session was ended, as by a restart of the server.
            }
        }
    }

    /// Whether there is a connection for claims and one for leases.
    var isConnected: Bool { lostConnections == 0 && connections[..<2].allSatisfy(\.isOpen) }

    /// Whether the connection for fan-out or the one for upkeep could not be opened when it was last tried.
    var lacksConnection: Bool { connections[2..<4].contains(where: \.isFailing) }

    /// From `deadline` on, nothing is repeated, and what could not be written is left to the end of its lease.
    func giveUp(after deadline: ContinuousClock.Instant) {
        for store in [claims, leases, fanOut, upkeep] { store.giveUp(after: deadline) }
    }

    /// Closes the connections.
    func close() {
        for connection in connections { connection.close() }
    }

    private func noteLost(_ error: PostgresError) {
        lostConnections += 1
        if lostConnections == 1 { report(.storeLost(error.description)) }
    }

    private func noteBack() {
        lostConnections -= 1
        delegate?.storeIsBack()
        if lostConnections == 0 { report(.storeBack) }
    }
}
