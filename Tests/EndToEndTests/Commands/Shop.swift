import Foundation
import LocalStack
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

/// A migrated database with a tenant, an app and a queue, and the environment with which the commands find it.
struct Shop: Sendable {
    static let queue = "acme/com.acme.shop/production"

    let folder: TemporaryFolder
    let environment: [String: String]

    /// Runs a test with a shop of its own.
    static func open(_ body: @Sendable @escaping (Shop) async throws -> Void) async throws {
        try await withDatabase { _, database in try await body(Shop(in: database)) }
    }

    /// Opens a shop in an empty database, for a test that also has sessions of its own.
    init(in database: TestDatabase) async throws {
        let store = try await database.connect()
        _ = try await store.createTenant("acme")
        _ = try await store.createApp("com.acme.shop", of: "acme")
        _ = try await store.createQueue(QueueName(parsing: Self.queue))
        let url = try await TestServer.shared().connectionString(database: database.name)
        environment = ["PUSHQ_DATABASE_URL": url, "PUSHQ_MASTER_KEY": String(repeating: "5c", count: 32)]
        folder = try TemporaryFolder()
    }

    private init(folder: TemporaryFolder, environment: [String: String]) {
        (self.folder, self.environment) = (folder, environment)
    }

    func admin(_ arguments: String..., input: String? = nil) async throws -> Executable.Ended {
        try await Executable.admin.run(arguments, environment: environment, input: input)
    }

    func pushq(_ arguments: String..., input: String? = nil) async throws -> Executable.Ended {
        try await Executable.pushq.run(arguments, environment: environment, input: input)
    }

    /// A shop on another database of the same server. From there, the shop's own database can be made unreachable.
    func beside() async throws -> Shop {
        let url = try await TestServer.shared().connectionString(database: "postgres")
        return Shop(folder: folder, environment: ["PUSHQ_DATABASE_URL": url])
    }

    /// Runs SQL in the shop's database.
    func run(_ sql: String) async throws {
        try await withSession { try await $0.runScript(sql) }
    }

    /// Runs `body` with a session in the shop's database.
    func withSession<Success: Sendable>(
        _ body: @escaping @Sendable (PostgresConnection) async throws -> Success
    ) async throws -> Success {
        let address = try DatabaseAddress(url: environment["PUSHQ_DATABASE_URL"])
        let loop = EventLoop(name: "shop")
        defer { loop.shutDown() }
        return try await loop.run { _ in
            let store = try await PostgresConnection.connectPatiently(to: address, as: "test", on: loop)
            defer { store.close() }
            return try await body(store)
        }
    }

    /// Gives the queue an unusable signing key.
    func addCredential() async throws {
        try await run(
            """
            with c as (
              insert into pushq.credential (tenant_id, name, kind, team_id, key_id, environments, sealed)
              select id, 'main', 'token', 'TEAM123456', 'KEY1234567', '{production}', '' from pushq.tenant
              returning id)
            update pushq.queue set credential_id = c.id from c
            """)
    }

    /// The column `text` of a query's rows.
    func texts(_ sql: String) async throws -> [String] {
        try await withSession { try await $0.execute(Statement("texts", sql)).map { $0.text("text") } }
    }

    /// The rows of a `list --json`.
    func list(_ arguments: String...) async throws -> [[String: Any]] {
        try Self.rows(await Executable.admin.run(arguments + ["--json"], environment: environment))
    }

    /// The rows that a command printed as JSON.
    static func rows(_ ended: Executable.Ended) throws -> [[String: Any]] {
        try #require(JSONSerialization.jsonObject(with: Data(ended.output.utf8)) as? [[String: Any]])
    }
}

/// Expects that a command failed with `code`, and printed nothing but one line on standard error, which contains
/// `parts`.
func expectFailure(
    _ ended: Executable.Ended, code: Int32, saying parts: String..., sourceLocation: SourceLocation = #_sourceLocation
) {
    #expect(ended.code == code, sourceLocation: sourceLocation)
    #expect(ended.output.isEmpty, sourceLocation: sourceLocation)
    #expect(ended.errors.hasSuffix("\n"), sourceLocation: sourceLocation)
    #expect(ended.errors.split(separator: "\n").count == 1, "\(ended.errors)", sourceLocation: sourceLocation)
    for part in parts {
        #expect(ended.errors.contains(part), "\(ended.errors)", sourceLocation: sourceLocation)
    }
}

extension Rig {
    /// Runs `pushq-admin queue set` for the shop's queue.
    func setQueue(_ options: [String]) async throws -> Executable.Ended {
        try await admin(["queue", "set", "\(queue)"] + options)
    }

    /// Expects that `pushq-admin queue set` refuses each of these options with the text beside it.
    func expectRefusals(
        of options: [(words: [String], said: String)], sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        for (words, said) in options {
            let ended = try await setQueue(words)
            #expect(
                ended.code != 0 && ended.errors.contains(said), "\(words): \(ended.errors)",
                sourceLocation: sourceLocation)
        }
    }
}
