import Cryptography
import Foundation
import LocalStack
import PostgresStore
import Terminal

/// The processes that the demo starts, and the folder in which they keep what they write.
struct DemoStack: Sendable {
    private let minder: Minder
    private let folder: String
    private let masterKeys: MasterKeys
    let postgres: PrivatePostgres

    /// Starts PostgreSQL, the first of them, with an empty database.
    static func start(minder: Minder) async throws -> DemoStack {
        let postgres = try await PrivatePostgres.start(minder: minder)
        try await postgres.createDatabase(database)
        return try DemoStack(minder: minder, postgres: postgres)
    }

    private init(minder: Minder, postgres: PrivatePostgres) throws {
        self.postgres = postgres
        self.minder = minder
        folder =
            FileManager.default.temporaryDirectory.appending(path: "pushq-demo-\(UUID().uuidString.prefix(8))").path
        try FileManager.default.createDirectory(
            atPath: folder, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
        minder.mind(folder: folder)
        masterKeys = try MasterKeys.random()
    }

    private static let database = "demo"

    private static let workerLogin = "worker"

    /// For `PUSHQ_DATABASE_URL`: of the schema's owner, and of workers.
    var databaseURL: String { postgres.connectionString(database: Self.database) }
    private var workerURL: String { postgres.connectionString(database: Self.database, user: Self.workerLogin) }

    /// Where the server's socket is.
    var socketFolder: String { postgres.socketFolder }

    // MARK: The simulator

    func startSimulator(rules: String) async throws -> DemoSimulator {
        let rulesFile = "\(folder)/rules.json"
        let output = "\(folder)/simulator.out"
        try Data(rules.utf8).write(to: URL(fileURLWithPath: rulesFile))
        let process = try start(
            ["simulate", "--json", "--port", "0", "--folder", "\(folder)/apns", "--rules", rulesFile],
            output: .file(output), errors: .file("\(folder)/simulator.log"))
        return try await DemoSimulator(process: process, output: output, log: "\(folder)/simulator.log")
    }

    /// The simulator's signing key, given to the tenant as `pushq-admin credential add` does.
    func addCredential(_ simulator: SimulatorReady, tenant: String, in store: PostgresConnection) async throws {
        guard let place = try await store.newCredentialID("simulator", of: tenant) else {
            throw Failure("tenant \(tenant) is gone")
        }
        let pem = [UInt8](try InputFile(simulator.signingKey).contents())
        let secret = Array(try PrivateKey(signingKeyPEM: pem).pem().utf8)
        let credential = NewCredential(
            kind: .token(teamID: simulator.teamID, keyID: simulator.keyID), environments: ["production", "sandbox"],
            sealed: try masterKeys.seal(secret, for: place.id.secretOwner))
        _ = try await store.addCredential(credential, name: "simulator", as: place.id)
        _ = try await store.useCredentialWhereNone(place.id)
    }

    // MARK: Workers

    /// Makes the login of the workers, as `pushq-admin worker grant` does: it may do no more than they need.
    func addWorkerLogin(in store: PostgresConnection) async throws {
        try await store.runScript("create role \(Self.workerLogin) login")
        try await store.setWorker(Self.workerLogin, isGranted: true)
    }

    func startWorkers(_ count: Int, gateway: SimulatorReady) throws -> [ChildProcess] {
        try (0..<count).map { _ in
            try start(
                ["work", "--gateway", gateway.address, "--ca", gateway.ca, "--log-format", "text"], output: .discarded,
                errors: .file(workerLog))
        }
    }

    private var workerLog: String { "\(folder)/workers.log" }

    /// Waits for a worker that ends without being told to, and throws what it said.
    func lost(_ worker: ChildProcess) async throws -> Never {
        guard let exit = await worker.waitForExit() else { throw CancellationError() }
        throw Failure("a worker \(exit) before the campaign was over; \(DemoLog.end(of: workerLog))")
    }

    /// Tells workers to drain, and waits until they have. Returns what was wrong with those that failed.
    func drain(_ workers: [ChildProcess]) async throws -> [String] {
        for worker in workers { worker.signal(SIGTERM) }
        var failures: [String] = []
        for worker in workers {
            let exit = await worker.waitForExit(within: .seconds(30))
            if exit != .code(0) {
                let how = exit.map { "\($0)" } ?? "did not end"
                failures.append("a worker \(how) when it was told to drain; \(DemoLog.end(of: workerLog))")
            }
        }
        return failures
    }

    // MARK: Processes

    /// This very program, with other arguments. It is killed when the demo is: what it holds goes with the database.
    private func start(
        _ arguments: [String], output: ProcessCommand.Output, errors: ProcessCommand.Output
    ) throws -> ChildProcess {
        let executable = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        var environment = ProcessCommand.inheritedEnvironment
        environment["PUSHQ_DATABASE_URL"] = workerURL
        environment["PUSHQ_MASTER_KEY"] = masterKeys.first.hexadecimal
        var command = ProcessCommand(executable, arguments, environment: environment)
        command.output = output
        command.errors = errors
        return try minder.start(command)
    }
}

/// The end of what a process has written, for an error's text.
enum DemoLog {
    static func end(of path: String) -> String {
        let text = (try? String(contentsOfFile: path, encoding: .utf8)) ?? ""
        return text.split(whereSeparator: \.isNewline).suffix(3).joined(separator: " · ")
    }
}
