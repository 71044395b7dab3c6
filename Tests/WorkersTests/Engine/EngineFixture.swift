import APNs
import APNsSimulator
import Cryptography
import Foundation
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@testable import Workers

/// Everything that an engine needs: a migrated database, a simulator, and queues whose credential the simulator knows.
final class EngineFixture {
    let database: TestDatabase
    let connection: PostgresConnection
    let simulator: Simulator
    let masterKeys: MasterKeys
    private let authorities: TrustStore
    /// The events that the engines reported.
    let events = EventLog()

    private init(
        database: TestDatabase, connection: PostgresConnection, simulator: Simulator, masterKeys: MasterKeys,
        authorities: TrustStore
    ) {
        self.database = database
        self.connection = connection
        self.simulator = simulator
        self.masterKeys = masterKeys
        self.authorities = authorities
    }

    /// Runs a test with a fixture whose simulator is configured by `configure`, and cleans up.
    static func run(
        configure: @escaping @Sendable (inout SimulatorConfiguration) -> Void = { _ in },
        _ body: @escaping @Sendable (isolated LoopActor, EngineFixture) async throws -> Void
    ) async throws {
        try await withDatabase { actor, database in
            let folder = FileManager.default.temporaryDirectory.appending(path: "pushq-engine-\(UUID().uuidString)")
                .path
            defer { try? FileManager.default.removeItem(atPath: folder) }
            var configuration = SimulatorConfiguration(folder: folder)
            configuration.environment = .sandbox
            configure(&configuration)
            let simulator = try await Simulator.start(configuration)
            let fixture = EngineFixture(
                database: database, connection: try await database.connect(), simulator: simulator,
                masterKeys: try .random(), authorities: try TrustStore(adding: [simulator.authority.certificate]))
            do {
                try await body(actor, fixture)
            } catch {
                await simulator.stop()
                throw error
            }
            #expect(await simulator.stop().excessStreams == 0, "no engine opens more streams than the server allows")
        }
    }

    // MARK: Queues

    /// Creates a queue with a signing key, or with a certificate, and `devices` devices. Returns its name.
    func makeQueue(
        tenant: String = "acme", app: String = "com.acme", devices: Int = 0, usesCertificate: Bool = false,
        settings: String = ""
    ) async throws -> QueueName {
        let name = QueueName(tenant: tenant, app: app, environment: .sandbox)
        try await connection.runScript("insert into pushq.tenant (name) values ('\(tenant)') on conflict do nothing")
        _ = try await connection.createApp(app, of: tenant)
        _ = try await connection.createQueue(name)
        try await addCredential(name, named: app, usesCertificate: usesCertificate)
        try await connection.runScript(
            """
            \(settings);
            insert into pushq.device (queue_id, token)
            select (select pushq.queue_id('\(name)')), '\\x00'::bytea || substring(sha256(int8send(i)) from 2)
            from generate_series(1, \(devices)) i;
            """)
        return name
    }

    /// Gives a queue another credential, which the simulator knows.
    func addCredential(_ queue: QueueName, named name: String, usesCertificate: Bool) async throws {
        try await use(named: name, for: queue) { id in
            try usesCertificate ? certificate(for: queue, id: id) : signingKey(id: id)
        }
    }

    /// Gives a queue a signing key. The simulator must know it.
    func addCredential(_ queue: QueueName, named name: String, key: PrivateKey, keyID: String, teamID: String)
        async throws
    {
        try await use(named: name, for: queue) { id in
            NewCredential(
                kind: .token(teamID: teamID, keyID: keyID), environments: ["sandbox"],
                sealed: try masterKeys.seal(Array(key.pem().utf8), for: id.secretOwner))
        }
    }

    private func use(
        named name: String, for queue: QueueName, _ make: (CredentialID) throws -> NewCredential
    ) async throws {
        guard let (id, _) = try await connection.newCredentialID(name, of: queue.tenant) else {
            preconditionFailure("the queue's tenant is there")
        }
        _ = try await connection.addCredential(try make(id), name: name, as: id)
        _ = try await connection.useCredential(name, forQueue: queue)
    }

    /// A certificate that the simulator accepts, sealed for the row `id`.
    func certificate(for queue: QueueName, id: CredentialID) throws -> NewCredential {
        let identity = try simulator.authority.clientCertificate(topic: queue.app).identity
        return NewCredential(
            kind: .certificate(
                topics: [queue.app], fingerprint: identity.certificate.sha256Fingerprint,
                notAfter: identity.certificate.notAfter),
            environments: ["sandbox"],
            sealed: try masterKeys.seal(Array(identity.pem().utf8), for: id.secretOwner))
    }

    /// A certificate that no server accepts, sealed for the row `id`.
    func strangersCertificate(for queue: QueueName, id: CredentialID) throws -> NewCredential {
        let identity = try CertificateAuthority.make(commonName: "Stranger").issueClient(.init(userID: queue.app))
        return NewCredential(
            kind: .certificate(
                topics: [queue.app], fingerprint: identity.certificate.sha256Fingerprint,
                notAfter: identity.certificate.notAfter),
            environments: ["sandbox"],
            sealed: try masterKeys.seal(Array(identity.pem().utf8), for: id.secretOwner))
    }

    /// The simulator's signing key, sealed for the row `id`.
    func signingKey(id: CredentialID) throws -> NewCredential {
        let secret = Array(try simulator.authority.signingKey.pem().utf8)
        return NewCredential(
            kind: .token(teamID: TestAuthority.teamID, keyID: TestAuthority.keyID), environments: ["sandbox"],
            sealed: try masterKeys.seal(secret, for: id.secretOwner))
    }

    /// Makes a queue use the binary interface. Its credential has to be a certificate.
    func useBinaryInterface(for queue: QueueName) async throws {
        var change = QueueChange()
        change.gateway = .binary
        try await connection.setQueue(queue, to: change)
    }

    // MARK: Engines

    /// The settings of an engine that sends to the simulator, with short times.
    var settings: EngineSettings {
        var settings = EngineSettings()
        let endpoint = { [authorities] (port: UInt16) in
            Endpoint(host: "127.0.0.1", port: port, authorities: authorities)
        }
        settings.endpoint = endpoint(simulator.port)
        settings.binaryEndpoint = simulator.binaryPort.map(endpoint)
        settings.feedbackEndpoint = simulator.feedbackPort.map(endpoint)
        settings.settingsRefresh = .milliseconds(100)
        settings.startTime = TestServer.patience
        settings.drain = .seconds(5)
        return settings
    }

    /// Starts an engine that has only the rights that workers need. Drains it when `body` returns.
    /// - Parameters:
    ///   - address: the database's address, if the engine's differs from the test's.
    ///   - admission: which queues have metrics of their own.
    func withEngine(
        over address: DatabaseAddress? = nil, admission: QueueAdmission = QueueAdmission(),
        _ adjust: (inout EngineSettings) -> Void = { _ in },
        _ body: (Engine) async throws -> Void
    ) async throws {
        var settings = settings
        adjust(&settings)
        let workerAddress = try await database.workerAddress
        let engine = Engine(
            settings: settings, database: address ?? workerAddress, masterKeys: masterKeys,
            admission: admission, report: { [events] in events.append($0) })
        let running = Task.detached { try await engine.run() }
        let result: Result<Void, any Error>
        do { result = .success(try await body(engine)) } catch { result = .failure(error) }
        await engine.drain()
        try await running.value
        engine.loop.shutDown()
        try result.get()
    }

    // MARK: Queries

    /// Runs a query that returns one number.
    func number(_ sql: String) async throws -> Int {
        let rows = try await connection.execute(
            Statement("number \(sql.hashValue)", "select (\(sql)\n)::int8 as number"))
        return Int(try rows.one().optionalInt8("number") ?? -1)
    }

    /// Runs a query that returns one text.
    func text(_ sql: String) async throws -> String {
        try await connection.execute(Statement("text \(sql.hashValue)", "select (\(sql)\n)::text as text"))
            .one().optionalText("text") ?? ""
    }

    /// Starts a campaign to all devices of a queue.
    func startCampaign(_ queue: QueueName, key: String = "k", options: String = "") async throws {
        _ = try await connection.execute(
            Statement(
                "start \(options)", #"select pushq.start_campaign($1, $2, '{"aps":{"alert":"x"}}'\#(options))"#),
            [.text(queue.description), .text(key)])
    }

    /// Makes `public.refuse`, the function of a trigger of `pushq.result`, let everything pass. To drop the trigger
    /// would take locks that the engine may hold, in another order.
    func stopRefusing() async throws {
        try await connection.runScript(
            "create or replace function public.refuse() returns trigger language plpgsql as $$ begin return new; end $$"
        )
    }

    /// Waits until all campaigns are finished.
    func waitForCampaigns(within limit: Duration = .seconds(30)) async throws {
        let sql = "select count(*) from pushq.campaign_progress where not finished"
        try await eventually("the end of all campaigns", within: limit, { try await number(sql) }, until: { $0 == 0 })
    }

    /// Waits until the queue is paused for a reason with this text.
    func waitForPause(saying part: String, within limit: Duration = .seconds(30)) async throws {
        try await eventually("the queue to pause", within: limit) {
            try await connection.queues(of: nil).first?.pausedReason?.contains(part) == true
        }
    }

    /// Waits until no job waits or is held.
    func waitForJobs() async throws {
        let sql = "select (select count(*) from pushq.job) + (select count(*) from pushq.lease)"
        try await eventually("the end of all jobs", within: .seconds(90), { try await number(sql) }, until: { $0 == 0 })
    }

    /// The columns of a campaign's progress, by name.
    func progress(key: String = "k") async throws -> [String: Int] {
        let names: [StaticString] = [
            "total", "delivered", "rejected", "failed", "suppressed", "expired", "cancelled", "unknown", "retried",
            "waiting",
        ]
        let statement = Statement("progress", "select * from pushq.campaign_progress where key = $1")
        let row = try await connection.execute(statement, [.text(key)]).one()
        return Dictionary(uniqueKeysWithValues: names.map { ("\($0)", row.count($0)) })
    }
}

/// The events, in the order in which they were reported.
final class EventLog: Sendable {
    private let events = Locked<[String]>([])

    func append(_ event: EngineEvent) { events.withLock { $0.append(event.description) } }

    var all: [String] { events.withLock { $0 } }

    func contains(_ text: String) -> Bool { all.contains { $0.contains(text) } }
}
