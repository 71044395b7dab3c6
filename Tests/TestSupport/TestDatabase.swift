import LocalStack
package import PostgresStore
import Synchronization
package import Testing
package import Transport

/// The database of one test, and the loop on which the test runs.
package final class TestDatabase {
    package let name: String
    package let address: DatabaseAddress
    package let loop: EventLoop
    private var connections: [PostgresConnection] = []
    /// A connection that no test has asked for yet.
    private var spare: PostgresConnection?

    package init(name: String, address: DatabaseAddress, loop: EventLoop) {
        self.name = name
        self.address = address
        self.loop = loop
    }

    /// A connection of its own for each caller, closed when the test ends.
    package func connect(as applicationName: String = "test") async throws -> PostgresConnection {
        if applicationName == "test", let connection = spare.take() { return connection }
        let connection = try await PostgresConnection.connectPatiently(to: address, as: applicationName, on: loop)
        connections.append(connection)
        return connection
    }

    /// A new connection with another login than the superuser, closed when the test ends.
    package func connect(login: String) async throws -> PostgresConnection {
        let address = try DatabaseAddress(
            url: await TestServer.shared().connectionString(database: name, user: login), environment: [:])
        let connection = try await PostgresConnection.connectPatiently(to: address, as: "test", on: loop)
        connections.append(connection)
        return connection
    }

    /// The address of the database for a login that is a member of `pushq_worker` and has no other rights.
    package var workerAddress: DatabaseAddress {
        get async throws {
            try DatabaseAddress(
                url: await TestServer.shared().connectionString(database: name, user: TestServer.workerLogin),
                environment: [:])
        }
    }

    /// Waits until a statement of any session in this database waits for a lock. All tests share the server; sessions
    /// of other databases are ignored.
    /// - Parameters:
    ///   - what: the waiting session, as a failed test names it.
    ///   - pattern: only a statement whose text matches this.
    ///   - connection: only a statement of this connection.
    package func waitUntilBlocked(
        _ what: String, running pattern: String = "", on connection: PostgresConnection? = nil,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        let blocked = Statement(
            "blocked",
            """
            select from pg_stat_activity
            where datname = current_database() and wait_event_type = 'Lock' and query ~ $1
              and ($2 = '' or pid::text = $2)
            """)
        let (watcher, process) = (try await connect(), connection.map { "\($0.backendProcessID)" } ?? "")
        try await eventually(what, sourceLocation: sourceLocation) {
            try await watcher.execute(blocked, [.text(pattern), .text(process)]).count > 0
        }
    }

    /// Notes that the database is a copy, like a restored database. It has no recipients yet, so none are undecided.
    fileprivate func followTimeline() async throws {
        let connection = try await connect()
        try await connection.followTimeline()
        spare = connection
    }

    package func closeConnections() {
        for connection in connections { connection.close() }
    }
}

/// Runs a test on a loop of its own with an empty database of its own, and removes both afterwards.
/// - Parameter options: options of `create database`, such as an encoding.
package func withEmptyDatabase<Success: Sendable>(
    _ options: String = "", _ body: @Sendable @escaping (isolated LoopActor, TestDatabase) async throws -> Success
) async throws -> Success {
    try await withDatabase(from: "template0 \(options)", body)
}

/// Runs a test on a loop of its own with a migrated database of its own, and removes both afterwards.
package func withDatabase<Success: Sendable>(
    _ body: @Sendable @escaping (isolated LoopActor, TestDatabase) async throws -> Success
) async throws -> Success {
    try await withDatabase(from: nil, body)
}

/// Runs `body` with two new migrated databases, whose connections share a loop.
package func withTwoDatabases<Success: Sendable>(
    _ body: @Sendable @escaping (isolated LoopActor, TestDatabase, TestDatabase) async throws -> Success
) async throws -> Success {
    try await withDatabase { _, one in
        let (name, address) = (one.name, one.address)
        return try await withDatabase { actor, other in
            let one = TestDatabase(name: name, address: address, loop: actor.loop)
            defer { one.closeConnections() }
            return try await body(actor, one, other)
        }
    }
}

/// The migrated template, created once in a test process. Copying it takes milliseconds.
private let migratedTemplate = Task {
    let name = "migrated"
    try await administer("create database \(name) template template0")
    let address = try await TestServer.address(database: name)
    let loop = EventLoop(name: name)
    defer { loop.shutDown() }
    try await loop.run { actor in
        let connection = try await PostgresConnection.connectPatiently(to: address, as: "tests", on: actor.loop)
        defer { connection.close() }
        _ = try await Migrator(connection).run()
        try await connection.makeWorkerLogin()
    }
    return name
}

extension TestServer {
    /// Creates a migrated database on the tests' server, as a copy of the template.
    static func createMigratedDatabase(_ name: String) async throws {
        // Copying files is faster than writing pages to the log. The copy also contains what a first session has looked
        // up.
        try await administer("create database \(name) template \(try await migratedTemplate.value) strategy file_copy")
    }
}

/// Limits the tests that run at the same time, because the test runner starts all of them at once. With a hundred
/// databases in use on two cores, time limits would mean nothing.
private let databases = Semaphore(limit: 6)

/// Creates a database as a copy of another, and drops it when `body` has returned.
/// - Parameter template: nil: the migrated one.
private func withDatabase<Success: Sendable>(
    from template: String?, _ body: @Sendable @escaping (isolated LoopActor, TestDatabase) async throws -> Success
) async throws -> Success {
    try await databases.run { try await withNewDatabase(from: template, body) }
}

private func withNewDatabase<Success: Sendable>(
    from template: String?, _ body: @Sendable @escaping (isolated LoopActor, TestDatabase) async throws -> Success
) async throws -> Success {
    let name = "test_\(databaseCount.add(1, ordering: .relaxed).newValue)"
    let isMigrated = template == nil
    if let template {
        try await administer("create database \(name) template \(template)")
    } else {
        try await TestServer.createMigratedDatabase(name)
    }
    let address = try await TestServer.address(database: name)
    let loop = EventLoop(name: name)
    defer { loop.shutDown() }
    let result = await Result {
        try await loop.run { actor in
            let database = TestDatabase(name: name, address: address, loop: actor.loop)
            defer { database.closeConnections() }
            if isMigrated { try await database.followTimeline() }
            return try await body(actor, database)
        }
    }
    try await administer("drop database \(name) with (force)")
    return try result.get()
}

private let databaseCount = Atomic(0)

/// Runs a statement as superuser, outside of any test's database.
private func administer(_ sql: String) async throws { try await administrator.run(sql) }

private let administrator = Administrator()

/// The superuser's sessions outside of any test's database. They are kept for other tests: a session costs the server
/// some milliseconds, and each test needs two.
private actor Administrator {
    private let loop = EventLoop(name: "administer")
    private var idle: [PostgresConnection] = []

    @safe nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    func run(_ sql: String) async throws {
        let connection = try await session()
        do {
            try await connection.runScript(sql)
            idle.append(connection)
        } catch {
            connection.close()
            throw error
        }
    }

    private func session() async throws -> PostgresConnection {
        if let connection = idle.popLast() { return connection }
        return try await PostgresConnection.connectPatiently(
            to: TestServer.address(database: "postgres"), as: "tests", on: loop)
    }
}

extension PostgresConnection {
    /// Connects like a program, but with the patience of a test, for the connection and for its statements.
    package static func connectPatiently(
        to address: DatabaseAddress, as applicationName: String, on loop: EventLoop
    ) async throws -> PostgresConnection {
        let connection = try await connect(to: address, as: applicationName, on: loop, within: TestServer.patience)
        connection.patience = TestServer.patience
        return connection
    }

    /// Creates ``TestServer/workerLogin`` unless the server has it, and grants it the rights of a worker.
    package func makeWorkerLogin() async throws {
        try await runScript(
            """
            do $$ begin
              create role \(TestServer.workerLogin) login;
            exception when duplicate_object or unique_violation then null;
            end $$
            """)
        try await setWorker(TestServer.workerLogin, isGranted: true)
    }
}

extension TestServer {
    /// The login of workers, which has only the rights that they need.
    package static let workerLogin = "only_worker"

    /// The address of one of the server's databases.
    package static func address(database: String) async throws -> DatabaseAddress {
        try DatabaseAddress(url: await shared().connectionString(database: database), environment: [:])
    }
}

extension Result where Failure == any Error {
    /// Stores what `body` returns or throws, so that the caller can clean up before it continues.
    fileprivate init(_ body: () async throws -> Success) async {
        do { self = .success(try await body()) } catch { self = .failure(error) }
    }
}
