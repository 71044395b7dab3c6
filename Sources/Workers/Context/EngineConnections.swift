import PostgresStore
import QueueCore
import Transport

/// Is told when the engine's connections to PostgreSQL come back.
protocol EngineConnectionsDelegate: AnyObject {
    /// A connection for claims or leases is back and has not been used yet. Another one may still be lost.
    func storeIsBack()
}

/// The engine's connections to PostgreSQL. Each kind of statement has a connection of its own, so that none waits for a
/// kind that takes longer.
///
/// Belongs to the engine's event loop.
final class EngineConnections {
    /// For polling, claiming, and reading settings.
    let claims: RetryingConnection
    /// For renewing leases and ending jobs, which nothing may delay. While PostgreSQL has no session for it, such as at
    /// the login's limit, that for claims is used: what was sent and is not recorded would be sent again.
    let leases: RetryingConnection
    /// For fan-out and lease audits, whose steps take 25 ms or more.
    let fanOut: RetryingConnection
    /// For duties and heartbeats. Unless the way leads through a pooler, no statement waits for other sessions for
    /// longer than a second, because all the others wait behind it.
    let upkeep: RetryingConnection
    /// The database that keeps provider tokens, if it is another one: see ``SharedToken``.
    let tokens: RetryingConnection?
    /// For notifications. Its user hears when it is lost.
    let notifications: ReconnectingConnection

    weak var delegate: (any EngineConnectionsDelegate)?

    private let forClaims: ReconnectingConnection
    private let forLeases: ReconnectingConnection
    /// The two without which a worker sends nothing. Only these report an outage, and only once.
    private var vital: [ReconnectingConnection] { [forClaims, forLeases] }
    /// The connections for fan-out and for upkeep. Without these, a worker still sends, but creates no jobs of
    /// campaigns. PostgreSQL may refuse them alone, for example at the login's connection limit.
    private let secondary: [ReconnectingConnection]
    private let forTokens: ReconnectingConnection?
    /// The connections to the database that this engine serves.
    private var own: [ReconnectingConnection] { vital + secondary + [notifications] }
    private let database: DatabaseAddress
    private let session: SessionPreparation
    /// The database that keeps provider tokens, if it is another one, and how its sessions are prepared.
    private let ofTokens: (database: DatabaseAddress, session: SessionPreparation)?
    private let startTime: Duration
    private let surveyInterval: Duration
    /// When the servers were last looked at; nil while that is under way.
    private var surveyedAt: ContinuousClock.Instant? = .now
    private let loop: EventLoop
    private let report: (EngineEvent) -> Void
    /// The number of connections for claims and leases that are lost.
    private var lostConnections = 0
    /// Whether it was reported that a session for fan-out or upkeep is missing, and not yet that this is over.
    private var hasReportedMissing = false

    /// Creates connections that open when they are first used.
    /// - Parameters:
    ///   - keeper: the database that keeps provider tokens, if it is another one.
    ///   - startTime: how long ``start(onFailure:)`` waits for a server that is restarting.
    ///   - surveyInterval: how often to look at all servers of an address that names several.
    init(
        to database: DatabaseAddress, keeper: DatabaseAddress? = nil, startTime: Duration = .seconds(10),
        surveyInterval: Duration = .seconds(30), on loop: EventLoop, report: @escaping (EngineEvent) -> Void
    ) {
        self.report = report
        self.startTime = startTime
        self.surveyInterval = surveyInterval
        let session = SessionPreparation(at: database.description, report: report)
        (self.database, self.session, self.loop) = (database, session, loop)
        func make(
            _ suffix: String,
            prepare: @escaping (PostgresConnection) async throws(PostgresError) -> Void = session.prepare
        ) -> ReconnectingConnection {
            ReconnectingConnection(to: database, as: "pushq work\(suffix)", on: loop, prepare: prepare)
        }
        func retry(_ one: ReconnectingConnection, orElse other: ReconnectingConnection? = nil) -> RetryingConnection {
            RetryingConnection(one, orElse: other, loop: loop, report: report)
        }
        forClaims = make("")
        forLeases = make(" (leases)")
        let forFanOut = make(" (fan-out)")
        let forUpkeep = make(" (upkeep)") { connection throws(PostgresError) in
            try await session.prepare(connection)
            try await connection.limitLockWaits()
        }
        // The engines of that database report its problems.
        ofTokens = keeper.map { ($0, SessionPreparation(at: $0.description) { _ in }) }
        forTokens = ofTokens.map { keeper, session in
            ReconnectingConnection(to: keeper, as: "pushq work (tokens)", on: loop, prepare: session.prepare)
        }
        notifications = make(" (notifications)")
        (claims, leases) = (retry(forClaims), retry(forLeases, orElse: forClaims))
        (fanOut, upkeep) = (retry(forFanOut), retry(forUpkeep))
        tokens = forTokens.map { retry($0) }
        secondary = [forFanOut, forUpkeep]
        // Parts of the engine keep connections that they use, so a connection may outlive this object.
        for connection in vital {
            connection.reconnects = true
            connection.onLost = { [weak self] in self?.noteLost($0, isSilent: $1) }
            connection.onStillLost = { report(.storeStillLost($0.description)) }
            connection.onBack = { [weak self] in self?.noteBack() }
        }
        for connection in secondary {
            // A session for fan-out is asked for only while a campaign needs it. If nobody asked again, it would be
            // said to be missing for hours after there is room for it.
            connection.triesOn = true
            connection.onFirstFailure = { [weak self] in self?.noteMissing($0) }
            connection.onStillLost = { [weak self] in self?.noteMissing($0) }
            connection.onOpen = { [weak self] in self?.noteOpen() }
        }
    }

    /// Connects for the first time and returns the names of all queues. Throws at once if the address is wrong, if the
    /// login may not run workers, or if this worker cannot work with the schema. Waits ``startTime`` for a server that
    /// is restarting.
    /// - Parameter onFailure: called with the reason when the first attempt to connect has failed. More attempts
    ///   follow.
    func start(onFailure: @escaping (PostgresError) -> Void) async throws -> [String] {
        for connection in vital { connection.onFirstFailure = onFailure }
        defer { for connection in vital { connection.onFirstFailure = nil } }
        if let host = await session.survey(database, on: loop) {
            for connection in own { connection.begin(withHost: host) }
        }
        if let ofTokens, let host = await ofTokens.session.survey(ofTokens.database, on: loop) {
            forTokens?.begin(withHost: host)
        }
        let deadline = ContinuousClock.now + startTime
        while true {
            let connection = try await forClaims.current(within: ContinuousClock.now.duration(to: deadline))
            do {
                try await connection.checkWorkerRights()
                try await connection.checkSchema()
                // A server may have room for one session but not for a second one, and pushes that cannot be recorded
                // are sent again.
                _ = try await forLeases.current(within: ContinuousClock.now.duration(to: deadline))
                return try await connection.queueNames()
            } catch let error as PostgresError
                where error.isTransient && !connection.isOpen && ContinuousClock.now < deadline
            {
                // The server ended the session, for example because it restarts.
            }
        }
    }

    /// Whether the connection for claims and the one for leases are open.
    var isConnected: Bool { lostConnections == 0 && vital.allSatisfy(\.isOpen) }

    /// How often another copy of the database has taken the place of the one that the engine used. Such a copy, a
    /// standby without synchronous replication or a backup, may lack what was written last.
    var changesOfDatabase: Int { session.changes }

    /// Whether the connection for fan-out or the one for upkeep could not be opened at the last attempt.
    var lacksConnection: Bool { secondary.contains(where: \.isFailing) }

    /// Reports if the database was restored while the worker ran: `pg_restore` does not end its sessions.
    func lookForRestore() async { await upkeep.attempt { try await session.lookForRestore($0) } }

    /// Looks now and then whether another server has taken the place of the one in use. That one may go on and take
    /// writes: then no session is lost, and nothing else would tell. Does not wait for the servers.
    func lookForNewerServers() {
        guard let surveyedAt, ContinuousClock.now >= surveyedAt + surveyInterval else { return }
        self.surveyedAt = nil
        loop.startTask { [self] in
            await session.survey(database, on: loop)
            if let ofTokens { await ofTokens.session.survey(ofTokens.database, on: loop) }
            self.surveyedAt = .now
        }
    }

    /// After `deadline`, no write is repeated: leases whose writes failed expire.
    func giveUp(after deadline: ContinuousClock.Instant) {
        for store in [claims, leases, fanOut, upkeep] { store.giveUp(after: deadline) }
    }

    /// Closes the connections.
    func close() {
        for connection in own { connection.close() }
        forTokens?.close()
    }

    /// An outage is reported by the other connections.
    private func noteMissing(_ error: PostgresError) {
        guard lostConnections == 0, !hasReportedMissing else { return }
        hasReportedMissing = true
        report(.sessionMissing(error.description))
    }

    private func noteOpen() {
        guard hasReportedMissing, !lacksConnection else { return }
        hasReportedMissing = false
        report(.sessionsBack)
    }

    private func noteLost(_ error: PostgresError, isSilent: Bool) {
        lostConnections += 1
        guard lostConnections == 1 else { return }
        report(isSilent ? .storeSilent(error.description) : .storeLost(error.description))
    }

    private func noteBack() {
        lostConnections -= 1
        delegate?.storeIsBack()
        if lostConnections == 0 { report(.storeBack) }
    }
}
