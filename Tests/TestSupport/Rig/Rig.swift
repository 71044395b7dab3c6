import APNs
import Cryptography
import Foundation
package import LocalStack
package import PostgresStore
package import QueueCore
package import Transport

/// A queue in a database of its own, a simulator, and workers. They are real processes that a test may kill, stop and
/// cut off. At the end, an ``Audit`` compares what the simulator saw with what the database says, recipient by
/// recipient.
///
/// A rig belongs to the loop on which it was created.
package final class Rig {
    /// The part of a commit that the standby has when the client is told of the commit.
    package enum Standby: Sendable {
        /// The whole commit: the server waits for the standby.
        case synchronous
        /// Perhaps nothing yet.
        case asynchronous
    }

    /// The configuration of a rig.
    package struct Settings: Sendable {
        /// The number of devices of the queue. A campaign goes to all of them.
        package var devices = 4000
        /// The workers' `--lease`.
        package var lease = Duration.seconds(3)
        /// The simulator's rules, as JSON, and further arguments of `pushq simulate`.
        package var rules = #"{"latency_ms": 40}"#
        package var simulatorArguments: [String] = []
        /// Whether the queue uses the binary interface, with a certificate.
        package var isBinary = false
        /// Whether the simulator writes a record, which an audit needs.
        package var isRecorded = true
        /// Whether another tenant has a queue with a device.
        package var hasNeighbour = false
        /// The server's standby, if it has one. No other test may use the server.
        package var standby: Standby?
        /// Whether a test can cut off the primary. If so, all clients reach the primary through a proxy.
        package var canCutOffPrimary = false
        /// Whether the database is a copy of the migrated one of ``TestServer``, on which the rig runs. Migrating an
        /// empty one takes a second.
        package var isCopied = false
        /// SQL to run after the queue was created; `$queue` stands for the queue's ID.
        package var sql = ""

        package init() {}

        /// - Parameter ready: the previous run, whose ports are reused.
        fileprivate func allSimulatorArguments(app: String, after ready: SimulatorProcess.Ready? = nil) -> [String] {
            let ports = [
                "--binary-port", "\(ready?.binaryPort ?? 0)", "--feedback-port", "\(ready?.feedbackPort ?? 0)",
                "--client-certificate", app,
            ]
            return (isBinary ? ports : []) + simulatorArguments
        }
    }

    package let settings: Settings
    package let postgres: PrivatePostgres
    package let standby: PrivatePostgres?
    package let folder: String
    package let reaper: Reaper
    package let simulator: SimulatorProcess
    package let store: ReconnectingConnection
    package let queue = QueueName(tenant: "acme", app: "com.acme", environment: .sandbox)
    /// The queue of another tenant, if the settings ask for one.
    package let neighbour = QueueName(tenant: "beta", app: "com.beta", environment: .sandbox)
    package let database: String
    package private(set) var workers: [WorkerProcess] = []
    /// The master keys that seal the queues' credentials.
    package let masterKeys: MasterKeys
    private let address: DatabaseAddress
    private let proxy: DatabaseProxy?
    private let isPrimaryCutOff = Locked(false)
    private let loop: EventLoop

    /// Runs `body` with a rig on a loop of its own, and removes the rig afterwards.
    package static func run<Success: Sendable>(
        on postgres: PrivatePostgres, _ settings: Settings = Settings(),
        _ body: @escaping @Sendable (isolated LoopActor, Rig) async throws -> Success
    ) async throws -> Success {
        let loop = EventLoop(name: "rig")
        defer { loop.shutDown() }
        return try await loop.run { actor in
            let rig = try await Rig(on: postgres, settings, loop: actor.loop)
            do {
                let result = try await body(actor, rig)
                await rig.end()
                return result
            } catch {
                await rig.end()
                throw error
            }
        }
    }

    private init(on postgres: PrivatePostgres, _ settings: Settings, loop: EventLoop) async throws {
        self.postgres = postgres
        self.settings = settings
        self.loop = loop
        reaper = try Reaper()
        folder = FileManager.default.temporaryDirectory.appending(path: "pushq-rig-\(UUID().uuidString.prefix(8))").path
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
        reaper.register(folder: folder)
        database = "rig_\(UInt32.random(in: 0 ... .max))"
        if settings.isCopied {
            try await TestServer.createMigratedDatabase(database)
        } else {
            try await postgres.createDatabase(database)
        }
        masterKeys = try MasterKeys.random()
        standby =
            settings.standby == nil ? nil : try await PrivatePostgres.startStandby(of: postgres, reaper: reaper)
        proxy =
            settings.canCutOffPrimary
            ? try await DatabaseProxy(to: postgres) { [isPrimaryCutOff] _ in
                isPrimaryCutOff.withLock { $0 } ? .drop : .pass
            } : nil
        address = try DatabaseAddress(
            url: proxy?.connectionString(database: database, orAt: standby)
                ?? postgres.connectionString(database: database, orAt: standby), environment: [:])
        store = ReconnectingConnection(to: address, as: "rig", on: loop)
        simulator = try await SimulatorProcess(
            folder: folder, rules: settings.rules, arguments: settings.allSimulatorArguments(app: queue.app),
            reaper: reaper, isRecorded: settings.isRecorded)
        try await setUp()
    }

    private func end() async {
        store.close()
        proxy?.close()
        await reaper.end()
    }

    // MARK: The queue

    /// Does what an operator does with `pushq-admin`.
    private func setUp() async throws {
        let connection = try await store.current()
        if settings.standby == .synchronous {
            // After the standby was created: otherwise its own settings would contain this line.
            try await connection.runScript("alter system set synchronous_standby_names = '*'")
            try await connection.runScript("select pg_reload_conf()")
        }
        if settings.isCopied {
            // Before there is anything that a restored database would hold back.
            try await connection.followTimeline()
        } else {
            _ = try await Migrator(connection).run()
            try await connection.makeWorkerLogin()
        }
        try await create(queue, in: connection)
        if settings.hasNeighbour { try await create(neighbour, in: connection) }
        try await connection.runScript(LapsedLease.trigger)
        try await connection.runScript(
            """
            insert into pushq.device (queue_id, token)
            select (select pushq.queue_id('\(queue)')), '\\x00'::bytea || substring(sha256(int8send(i)) from 2)
            from generate_series(1, \(settings.devices)) i;
            \(settings.sql.replacing("$queue", with: "(select pushq.queue_id('\(queue)'))"));
            """, within: .seconds(60))
    }

    /// Creates a tenant with an app, a queue and the simulator's credential, in the rig's database or another one.
    package func create(_ queue: QueueName, in connection: PostgresConnection) async throws {
        _ = try await connection.createTenant(queue.tenant)
        _ = try await connection.createApp(queue.app, of: queue.tenant)
        _ = try await connection.createQueue(queue)
        try await addCredential(for: queue, in: connection)
    }

    private func addCredential(for queue: QueueName, in connection: PostgresConnection) async throws {
        guard let (id, _) = try await connection.newCredentialID("simulator", of: queue.tenant) else {
            throw NeverHappened(description: "the tenant that was just made is gone")
        }
        let (kind, secret) = try secret()
        let credential = NewCredential(
            kind: kind, environments: ["sandbox"], sealed: try masterKeys.seal(Array(secret.utf8), for: id.secretOwner))
        _ = try await connection.addCredential(credential, name: "simulator", as: id)
        _ = try await connection.useCredentialWhereNone(id)
        guard settings.isBinary else { return }
        var change = QueueChange()
        change.gateway = .binary
        try await connection.setQueue(queue, to: change)
    }

    /// The credential by which the simulator identifies the queue.
    private func secret() throws -> (kind: NewCredential.Kind, pem: String) {
        let ready = simulator.ready
        let file = { (path: String) in [UInt8](try Data(contentsOf: URL(fileURLWithPath: path))) }
        guard let certificate = ready.clientCertificate else {
            return (
                .token(teamID: ready.teamID, keyID: ready.keyID),
                try PrivateKey(signingKeyPEM: file(ready.signingKey)).pem()
            )
        }
        let identity = try TLSIdentity(pem: file(certificate))
        return (
            .certificate(
                topics: [queue.app], fingerprint: identity.certificate.sha256Fingerprint, notAfter: .distantFuture),
            try identity.pem()
        )
    }

    /// Restarts the simulator at the same port, with other rules or the same.
    package func restartSimulator(rules: String? = nil) async throws {
        await simulator.stop()
        try await simulator.start(
            rules: rules ?? settings.rules,
            arguments: settings.allSimulatorArguments(app: queue.app, after: simulator.ready))
    }

    // MARK: The standby

    /// Promotes the standby, after the old primary was ended or stopped. Returns when the rig has a session with it.
    package func promoteStandby() async throws {
        guard let standby else { throw NeverHappened(description: "there is no standby") }
        try await standby.promote()
        // The name of a WAL file begins with its timeline, in hexadecimal. The last checkpoint may still have the old
        // timeline.
        let timeline = "('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int"
        try await wait(for: "a session with the new primary", within: .seconds(60)) {
            // The first attempts may reach a server that does not answer.
            (try? await number(timeline)) ?? 0 > 1
        }
    }

    /// Cuts off the standby, and returns when it receives nothing more.
    package func cutOffStandby() async throws {
        guard let standby else { throw NeverHappened(description: "there is no standby") }
        for command in ["alter system set primary_conninfo = ''", "select pg_reload_conf()"] {
            try await standby.client("psql", ["-qd", "postgres", "-c", command]).run()
        }
        let receivers = "select count(*) from pg_stat_replication"
        try await wait(
            for: "the standby to be cut off", within: .seconds(30), { try await number(receivers) }, until: { $0 == 0 })
    }

    /// Drops everything between the primary and all other processes from now on. No connection is closed, and new ones
    /// get no answer.
    package func cutOffPrimary() { isPrimaryCutOff.withLock { $0 = true } }

    /// The database URL for workers, with the standby before the primary.
    package var urlWithStandbyFirst: String {
        (standby ?? postgres).connectionString(database: database, user: TestServer.workerLogin, orAt: postgres)
    }

    // MARK: Workers

    /// The URL of the database for a login that has only the rights that workers need.
    private var workerURL: String {
        proxy?.connectionString(database: database, user: TestServer.workerLogin, orAt: standby)
            ?? postgres.connectionString(database: database, user: TestServer.workerLogin, orAt: standby)
    }

    /// Starts a worker. A test can give it another URL for the database or for APNs, such as a proxy's, or other master
    /// keys.
    @discardableResult
    package func startWorker(
        database url: String? = nil, masterKeys keys: String? = nil, gateway: String? = nil,
        binaryGateway: String? = nil, environment: [String: String] = [:], _ arguments: [String] = []
    ) throws -> WorkerProcess {
        let name = "worker-\(workers.count + 1)"
        let log = "\(folder)/\(name).log"
        let command = Executable.pushq.command(
            [
                "work", "--gateway", gateway ?? simulator.ready.address, "--ca", simulator.ready.ca, "--name", name,
                "--lease", "\(settings.lease.components.seconds)s",
            ] + ((binaryGateway ?? simulator.ready.binary).map { ["--binary-gateway", $0] } ?? [])
                + (simulator.ready.feedback.map { ["--feedback-service", $0] } ?? []) + arguments,
            environment: [
                "PUSHQ_DATABASE_URL": url ?? workerURL,
                "PUSHQ_MASTER_KEY": keys ?? masterKeys.first.hexadecimal,
            ].merging(environment) { $1 }, output: "\(folder)/\(name).out", errors: log)
        let worker = WorkerProcess(name: name, process: try reaper.start(command), logFile: log)
        workers.append(worker)
        return worker
    }

    /// The ID under which a worker holds leases. Waits until the database has it.
    package func workerID(of worker: WorkerProcess) async throws -> Int64 {
        let sql = "select max(id) from pushq.worker where name = '\(worker.name)'"
        return try await wait(
            for: "the row of \(worker.name)", within: .seconds(30), { try await number(sql) }, until: { $0 > 0 })
    }

    /// Runs a command of `pushq-admin`.
    package func admin(_ arguments: [String], masterKeys keys: String? = nil) async throws -> Executable.Ended {
        try await Executable.admin.run(
            arguments,
            environment: [
                "PUSHQ_DATABASE_URL": postgres.connectionString(database: database),
                "PUSHQ_MASTER_KEY": keys ?? masterKeys.first.hexadecimal,
            ])
    }

    /// Runs a command of `pushq`.
    package func pushq(_ arguments: [String], input: String? = nil) async throws -> Executable.Ended {
        try await Executable.pushq.run(
            arguments, environment: ["PUSHQ_DATABASE_URL": postgres.connectionString(database: database)], input: input)
    }

    // MARK: The database

    /// Runs a query that returns one number; null counts as 0.
    package func number(_ sql: String) async throws -> Int64 {
        let rows = try await store.current().execute(Statement("number", "select (\(sql)\n)::int8 as number"))
        return try rows.one().optionalInt8("number") ?? 0
    }

    /// Runs a script.
    package func run(_ sql: String) async throws {
        try await store.current().runScript(sql, within: .seconds(60))
    }

    /// Opens another session, in which a script may leave a transaction open.
    package func session() async throws -> PostgresConnection {
        try await .connectPatiently(to: address, as: "neighbour", on: loop)
    }

    /// Starts a campaign to all devices.
    package func startCampaign(key: String = "campaign", options: String = "") async throws {
        try await run(#"select pushq.start_campaign('\#(queue)', '\#(key)', '{"aps":{"alert":"\#(key)"}}'\#(options))"#)
    }

    /// The number of recipients of all campaigns with an outcome.
    package func ended() async throws -> Int {
        Int(try await number("select sum(total - waiting) from pushq.campaign_progress"))
    }

    /// Waits until `count` recipients have an outcome.
    package func waitUntilEnded(_ count: Int, within limit: Duration = .seconds(60)) async throws {
        try await wait(for: "\(count) outcomes", within: limit, { try await ended() }, until: { $0 >= count })
    }

    /// Waits until every campaign is finished.
    package func waitUntilFinished(within limit: Duration = .seconds(120)) async throws {
        let sql = "select count(*) from pushq.campaign_progress where not finished"
        try await wait(for: "the end of all campaigns", within: limit, { try await number(sql) }, until: { $0 == 0 })
    }

    /// The record of each run of the simulator.
    package var recordFiles: [String] { simulator.records }

    /// The number of requests in the simulator's record so far. The simulator records a request before it answers.
    package func arrivalCount() throws -> Int { try PushRecord(files: recordFiles).arrivals.count }

    /// Stops the simulator, so that its record is complete, and compares the record with the database.
    /// - Parameter others: databases of other tenants that the workers also serve.
    package func audit(
        _ expectation: Audit.Expectation = .init(), beside others: [PostgresConnection] = []
    ) async throws -> Audit {
        if settings.isBinary { try await simulator.untilAllIsRead() }
        await simulator.stop()
        let store = try await store.current()
        let names = settings.isBinary ? try await BinaryNames(from: store) : nil
        // Reading half a million lines would block the loop's timers for too long.
        let record = try await Task.detached { [files = simulator.records] in
            try PushRecord(files: files, names: names?.all() ?? [:])
        }.value
        var outcomes = try await RecordedOutcomes(from: store)
        var messages = try await SentMessages(from: store)
        var leases = try await LapsedLease.all(in: store)
        for other in others {
            outcomes.add(try await RecordedOutcomes(from: other))
            messages.add(try await SentMessages(from: other))
            leases += try await LapsedLease.all(in: other)
        }
        return Audit(
            record: record, outcomes: outcomes, messages: messages, leases: leases, lease: settings.lease,
            grace: settings.isBinary ? BinarySettings().grace : nil, expectation: expectation)
    }
}
