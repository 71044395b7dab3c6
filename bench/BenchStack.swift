import APNsSimulator
import Cryptography
import Foundation
import LocalStack
import PostgresStore
import QueueCore
import Transport

/// A private PostgreSQL, a simulator on a thread of its own, a worker process, and queues to send through.
final class BenchStack: Sendable {
    let postgres: PrivatePostgres
    let simulator: Simulator
    let loop: EventLoop
    let address: DatabaseAddress
    private let reaper: Reaper
    private let masterKeys: MasterKeys
    private let folder: String

    /// Starts everything but workers.
    /// - Parameter streams: the maximum number of concurrent streams on a connection to the simulator.
    init(latency: Duration, streams: Int = 1000) async throws {
        reaper = try Reaper()
        postgres = try await PrivatePostgres.start(
            ServerSettings(["track_commit_timestamp": "on"]), reaper: reaper)
        try await postgres.createDatabase("bench")
        folder = FileManager.default.temporaryDirectory.appending(path: "pushq-bench-\(UUID().uuidString)").path
        reaper.register(folder: folder)
        var configuration = SimulatorConfiguration(folder: folder)
        configuration.rules.latency = latency...latency
        configuration.streamLimit = streams
        configuration.recordFile = "\(folder)/record.ndjson"
        simulator = try await Simulator.start(configuration)
        masterKeys = try .random()
        loop = EventLoop(name: "bench")
        address = try DatabaseAddress(url: postgres.connectionString(database: "bench"), environment: [:])
        try await loop.run { [address, loop] _ in
            let store = try await PostgresConnection.connect(to: address, as: "bench", on: loop)
            defer { store.close() }
            _ = try await Migrator(store).run()
        }
    }

    /// Ends all parts of the stack.
    func end() async {
        await reaper.end()
        await simulator.stop()
        loop.shutDown()
    }

    /// Makes a queue with its own tenant, `devices` devices and a certificate.
    func makeQueue(_ name: QueueName, devices: Int) async throws {
        try await makeQueues([name])
        try await withStore { store in
            try await store.runScript(
                """
                insert into pushq.device (queue_id, token)
                select (select pushq.queue_id('\(name)')), sha256(int8send(i)) from generate_series(1, \(devices)) i;
                analyze pushq.device
                """, within: .seconds(120))
        }
    }

    /// Makes queues, each with its own certificate.
    func makeQueues(_ names: [QueueName]) async throws {
        let (authority, masterKeys) = (simulator.authority, masterKeys)
        try await withStore { store in
            // Until the statistics know of a tenant's thousands of queues, making each queue takes longer than the one
            // before.
            for part in stride(from: 0, to: names.count, by: 500) {
                try await store.transaction {
                    for name in names[part..<min(part + 500, names.count)] {
                        try await Self.make(name, authority, masterKeys, in: store)
                    }
                }
                try await store.runScript("analyze pushq.app, pushq.queue, pushq.credential, pushq.tenant")
            }
            try await store.runScript("analyze")
        }
    }

    private static func make(
        _ name: QueueName, _ authority: TestAuthority, _ masterKeys: MasterKeys, in store: PostgresConnection
    ) async throws {
        _ = try await store.createTenant(name.tenant)
        _ = try await store.createApp(name.app, of: name.tenant)
        _ = try await store.createQueue(name)
        guard let place = try await store.newCredentialID(name.app, of: name.tenant) else { return }
        let identity = try authority.clientCertificate(topic: name.app).identity
        let sealed = try masterKeys.seal(Array(try identity.pem().utf8), for: place.id.secretOwner)
        let kind = NewCredential.Kind.certificate(
            topics: [name.app], fingerprint: identity.certificate.sha256Fingerprint,
            notAfter: identity.certificate.notAfter)
        let credential = NewCredential(kind: kind, environments: ["production"], sealed: sealed)
        _ = try await store.addCredential(credential, name: name.app, as: place.id)
        _ = try await store.useCredential(name.app, forQueue: name)
    }

    /// Runs `body` with its own connection.
    func withStore(_ body: @Sendable (PostgresConnection) async throws -> Void) async throws {
        try await loop.run { [address, loop] _ in
            let store = try await PostgresConnection.connect(to: address, as: "bench", on: loop)
            defer { store.close() }
            try await body(store)
        }
    }

    /// Starts a worker process.
    @discardableResult
    func startWorker(_ arguments: [String] = []) throws -> ChildProcess {
        let program = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent().appending(
            path: "pushq")
        var environment = ProcessInfo.processInfo.environment
        environment["PUSHQ_DATABASE_URL"] = postgres.connectionString(database: "bench")
        environment["PUSHQ_MASTER_KEY"] = masterKeys.first.hexadecimal
        var command = ProcessCommand(
            program.path,
            ["work", "--gateway", "127.0.0.1:\(simulator.port)", "--ca", simulator.authority.caFile]
                + arguments,
            environment: environment)
        command.errors = .file("\(folder)/worker.log")
        return try reaper.start(command)
    }

    /// Returns the path of a file of this benchmark.
    func path(_ name: String) -> String { "\(folder)/\(name)" }

    /// Starts the operators' dashboard.
    func startDashboard(at place: String, readToken: String) throws {
        let program = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent().appending(
            path: "pushq-admin")
        try Data(readToken.utf8).write(to: URL(fileURLWithPath: path("read.token")))
        var environment = ProcessInfo.processInfo.environment
        environment["PUSHQ_DATABASE_URL"] = postgres.connectionString(database: "bench")
        var command = ProcessCommand(
            program.path, ["dashboard", "--listen", place, "--read-token-file", path("read.token")],
            environment: environment)
        command.output = .discarded
        command.errors = .file("\(folder)/worker.log")
        _ = try reaper.start(command)
    }

    /// Returns the last lines of the workers' log.
    func workerLog() -> String {
        let text = (try? String(contentsOfFile: "\(folder)/worker.log", encoding: .utf8)) ?? ""
        return text.split(separator: "\n").suffix(10).joined(separator: "\n")
    }

    /// Returns when each push of a send arrived at the simulator, in microseconds since 1970.
    func arrivals() async throws -> [APNsID: Int] {
        await simulator.flushRecord()
        let text = try String(contentsOfFile: "\(folder)/record.ndjson", encoding: .utf8)
        var arrivals: [APNsID: Int] = [:]
        for line in text.split(separator: "\n") where line.contains("\"arrived\"") {
            guard let event = try? JSONDecoder().decode(Arrival.self, from: Data(line.utf8)),
                let id = APNsID(event.apnsID)
            else { continue }
            arrivals[id] = event.at
        }
        return arrivals
    }

    /// Returns when the first push of each send arrived at the simulator, by the send's root, in microseconds since
    /// 1970.
    func firstArrivals() async throws -> [Int64: Int] {
        Dictionary(try await arrivals().map { ($0.key.root, $0.value) }, uniquingKeysWith: min)
    }

    private struct Arrival: Decodable {
        let at: Int
        let apnsID: String

        enum CodingKeys: String, CodingKey {
            case at
            case apnsID = "apns_id"
        }
    }
}
