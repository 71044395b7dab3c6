import TestSupport
import Testing

@testable import PostgresStore

@Suite(.timeLimit(.minutes(10)))
struct `The session of a worker` {
    private static let shown = Statement("shown", "select current_setting($1)")
    private static let known = Statement("known", "select name from pg_settings")

    /// The settings of workers that the server has.
    private static func settings(in store: PostgresConnection) async throws -> [(name: String, value: String)] {
        let known = Set(try await store.execute(Self.known).map { $0.text("name") })
        return WorkerSettings.all.filter { known.contains($0.name) }
    }

    @Test func `has what its statements need, whatever the server and the role are set to, and nobody else's has`()
        async throws
    {
        try await withDatabase { _, database in
            let operatorsOwn = try await database.connect()
            try await operatorsOwn.runScript(
                """
                alter database \(database.name) set jit = on;
                alter database \(database.name) set plan_cache_mode = force_custom_plan;
                alter database \(database.name) set default_transaction_isolation = serializable;
                alter database \(database.name) set search_path = public;
                alter database \(database.name) set idle_session_timeout = '1h';
                alter database \(database.name) set statement_timeout = '30s';
                alter database \(database.name) set lock_timeout = '1s';
                alter database \(database.name) set client_min_messages = error;
                alter database \(database.name) set synchronous_commit = off
                """)
            let worker = try await database.connect()
            #expect(try await worker.prepareWorkerSession() == nil)
            for (name, value) in try await Self.settings(in: worker) {
                #expect(
                    try await worker.execute(Self.shown, [.text(name)]).one().text("current_setting") == value,
                    "\(name)")
            }
            let idle = try await worker.execute(Self.shown, [.text("idle_session_timeout")])
            #expect(try idle.one().text("current_setting") == "0", "a worker may have nothing to do for long")
            let other = try await database.connect()
            #expect(try await other.execute(Self.shown, [.text("jit")]).one().text("current_setting") == "on")
            #expect(
                try await other.execute(Self.shown, [.text("plan_cache_mode")]).one().text("current_setting")
                    == "force_custom_plan")
        }
    }

    @Test(arguments: ["local", "remote_write", "remote_apply"])
    func `keeps a way of committing that a crash of the server does not undo`(way: String) async throws {
        try await withDatabase { _, database in
            try await database.connect().runScript(
                "alter database \(database.name) set synchronous_commit = \(way)")
            let worker = try await database.connect()
            #expect(try await worker.prepareWorkerSession() == nil)
            let kept = try await worker.execute(Self.shown, [.text("synchronous_commit")])
            #expect(try kept.one().text("current_setting") == way)
        }
    }

    @Test func `of a role that was set up for it needs nothing more, and a time limit of one's own is one`()
        async throws
    {
        try await withDatabase { _, database in
            let connection = try await database.connect()
            try await connection.setUpWorkerRole(TestServer.superuser)
            let next = try await database.connect()
            for (name, value) in try await Self.settings(in: next) {
                #expect(
                    try await next.execute(Self.shown, [.text(name)]).one().text("current_setting") == value, "\(name)")
            }
            let error = await #expect(throws: PostgresError.self) {
                try await connection.setUpWorkerRole("nobody here")
            }
            #expect(error?.serverError?.message == #"role "nobody here" does not exist"#)

            let (sender, other) = ("sender_\(database.name)", "other_\(database.name)")
            try await connection.runScript("create role \(sender) login; create role \(other) login")
            let refusal = await #expect(throws: WorkerRoleRefusal.self) {
                try await database.connect(login: other).setUpWorkerRole(sender)
            }
            let statements = try #require(refusal?.description.split(separator: "in this database: ").last)
            #expect(statements.hasPrefix("alter role \(sender) in database \(database.name) set "))
            try await connection.runScript(String(statements))
            let session = try await database.connect(login: sender)
            for (name, value) in try await Self.settings(in: session) {
                #expect(
                    try await session.execute(Self.shown, [.text(name)]).one().text("current_setting") == value)
            }
        }
    }
}
