import Cryptography
import FoundationEssentials
import Glibc
import LocalStack
import PostgresStore
import QueueCore
import Terminal

/// The processes of an installation on this machine, for the demo and for development, and the folder to which they
/// write.
struct Stack: Sendable {
    private let reaper: Reaper
    let folder: String
    let masterKeys: MasterKeys
    let postgres: PrivatePostgres

    /// Starts PostgreSQL, the first process, with an empty database.
    static func start(reaper: Reaper) async throws -> Stack {
        let postgres = try await PrivatePostgres.start(reaper: reaper)
        try await postgres.createDatabase(database)
        return try Stack(reaper: reaper, postgres: postgres)
    }

    private init(reaper: Reaper, postgres: PrivatePostgres) throws {
        self.postgres = postgres
        self.reaper = reaper
        folder =
            FileManager.default.temporaryDirectory.appending(path: "pushq-\(UUID().uuidString.prefix(8))").path
        try FileManager.default.createDirectory(
            atPath: folder, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
        reaper.register(folder: folder)
        masterKeys = try MasterKeys.random()
    }

    private static let database = "push"

    private static let workerLogin = "worker"

    /// The values of `PUSHQ_DATABASE_URL` for the schema's owner, and for workers.
    var databaseURL: String { postgres.connectionString(database: Self.database) }
    private var workerURL: String { postgres.connectionString(database: Self.database, user: Self.workerLogin) }

    /// The folder of the server's socket.
    var socketFolder: String { postgres.socketFolder }

    /// Writes the master key to a file that only this user may read, and returns the file's path.
    func writeMasterKey() throws -> String {
        let path = "\(folder)/master.key"
        guard
            FileManager.default.createFile(
                atPath: path, contents: Data("\(masterKeys.first.hexadecimal)\n".utf8),
                attributes: [.posixPermissions: 0o600])
        else { throw Failure("cannot write \(path); check the permissions of the temporary folder and its space") }
        return path
    }

    // MARK: The simulator

    func startSimulator(rules: String) async throws -> StackSimulator {
        let rulesFile = "\(folder)/rules.json"
        let output = "\(folder)/simulator.out"
        try Data(rules.utf8).write(to: URL(fileURLWithPath: rulesFile))
        // The simulator's address is no secret, and the simulator does not need the master key.
        let process = try start(
            ["simulate", "--json", "--port", "0", "--folder", "\(folder)/apns", "--rules", rulesFile],
            environment: ProcessCommand.inheritedEnvironment, output: .file(output),
            errors: .file("\(folder)/simulator.log"))
        return try await StackSimulator(process: process, output: output, log: "\(folder)/simulator.log")
    }

    // MARK: Setting up

    /// Prepares the empty database for workers: the schema, their login, and a queue that sends to the simulator.
    func setUp(_ queue: QueueName, sendingTo simulator: SimulatorReady, in store: PostgresConnection) async throws {
        _ = try await Migrator(store).run()
        try await addWorkerLogin(in: store)
        _ = try await store.createTenant(queue.tenant)
        _ = try await store.createApp(queue.app, of: queue.tenant)
        _ = try await store.createQueue(queue)
        try await addCredential(simulator, tenant: queue.tenant, in: store)
    }

    /// Creates the login of the workers, as `pushq-admin worker grant` does, with only the rights that they need.
    private func addWorkerLogin(in store: PostgresConnection) async throws {
        try await store.runScript("create role \(Self.workerLogin) login")
        try await store.setWorker(Self.workerLogin, isGranted: true)
    }

    /// Adds the simulator's signing key to the tenant, as `pushq-admin credential add` does.
    private func addCredential(_ simulator: SimulatorReady, tenant: String, in store: PostgresConnection) async throws {
        guard let place = try await store.newCredentialID("simulator", of: tenant) else {
            throw Failure("tenant \(tenant) is gone")
        }
        let pem = try InputFile(simulator.signingKey).contents()
        let secret = Array(try PrivateKey(signingKeyPEM: pem).pem().utf8)
        let credential = NewCredential(
            kind: .token(teamID: simulator.teamID, keyID: simulator.keyID), environments: ["production", "sandbox"],
            sealed: try masterKeys.seal(secret, for: place.id.secretOwner))
        _ = try await store.addCredential(credential, name: "simulator", as: place.id)
        _ = try await store.useCredentialWhereNone(place.id)
    }

    // MARK: Workers

    func startWorkers(_ count: Int, gateway: SimulatorReady) throws -> [ChildProcess] {
        try (0..<count).map { _ in
            try start(
                ["work", "--gateway", gateway.address, "--ca", gateway.ca, "--log-format", "text"], output: .discarded,
                errors: .file(workerLog))
        }
    }

    private var workerLog: String { "\(folder)/workers.log" }

    /// Waits until a worker ends without being told to, and throws its last output.
    func lost(_ worker: ChildProcess) async throws -> Never {
        guard let exit = await worker.waitForExit() else { throw CancellationError() }
        throw Failure("a worker \(exit) unexpectedly; \(StackLog.end(of: workerLog))")
    }

    /// Tells workers to drain, and waits until they have. Returns the problems of workers that failed.
    func drain(_ workers: [ChildProcess]) async throws -> [String] {
        for worker in workers { worker.signal(SIGTERM) }
        var failures: [String] = []
        for worker in workers {
            let exit = await worker.waitForExit(within: .seconds(30))
            if exit != .code(0) {
                let how = exit.map { "\($0)" } ?? "did not end"
                failures.append("a worker \(how) when it was told to drain; \(StackLog.end(of: workerLog))")
            }
        }
        return failures
    }

    // MARK: Processes

    /// The executable of this program.
    static func ownExecutable() throws -> String {
        try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
    }

    /// Starts this program with other arguments. The process is killed when this one ends. That is harmless, because
    /// the jobs that it holds are lost with the database.
    private func start(
        _ arguments: [String], environment: [String: String]? = nil, output: ProcessCommand.Output,
        errors: ProcessCommand.Output
    ) throws -> ChildProcess {
        var command = ProcessCommand(
            try Self.ownExecutable(), arguments, environment: environment ?? self.environment(databaseURL: workerURL))
        command.output = output
        command.errors = errors
        return try reaper.start(command)
    }

    /// The environment of the installation's processes.
    /// - Parameter databaseURL: ``databaseURL`` for operators.
    func environment(databaseURL: String) -> [String: String] {
        var environment = ProcessCommand.inheritedEnvironment
        environment["PUSHQ_DATABASE_URL"] = databaseURL
        environment["PUSHQ_MASTER_KEY"] = masterKeys.first.hexadecimal
        return environment
    }
}

/// The end of a process's output, for the text of an error.
enum StackLog {
    static func end(of path: String) -> String {
        let text = (try? String(contentsOfFile: path, encoding: .utf8)) ?? ""
        return text.split(whereSeparator: \.isNewline).suffix(3).joined(separator: " · ")
    }
}
