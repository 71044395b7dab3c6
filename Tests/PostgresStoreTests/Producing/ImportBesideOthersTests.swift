import QueueCore
import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// Imports while transactions of other sessions are open.
@Suite(.timeLimit(.minutes(5))) struct `An import beside sends and registrations` {
    private static let name = QueueFixture.name

    private static func register(_ token: String, _ user: String, _ installation: String? = nil) -> String {
        let rest = installation.map { ", installation => '\($0)'" } ?? ""
        return "select pushq.register_device('\(name)', '\(token)', '\(user)'\(rest));"
    }

    private static func add(
        _ text: String, _ store: PostgresConnection, patience: Duration = .seconds(120)
    ) async throws -> DeviceImportSummary {
        try await store.importDevices(
            from: .text(text), inQueue: name, reactivates: false, patience: patience
        ) { _ in }
    }

    /// Runs `open` in a transaction and imports `file`. As soon as the import blocks, runs `then` in that transaction
    /// and commits it.
    private func add(
        _ file: String, to queue: QueueFixture, _ database: TestDatabase, on actor: isolated LoopActor, open: String,
        then: String = "", meanwhile: (_ third: PostgresConnection) async throws -> Void = { _ in }
    ) async throws -> DeviceImportSummary {
        let (importer, third) = (try await database.connect(), try await database.connect())
        importer.terms = StatementTerms()
        try await queue.run("begin; \(open)")
        let importing = Task {
            _ = actor  // where the connection lives
            return try await Self.add(file, importer)
        }
        try await database.waitUntilBlocked("the import waits", on: importer)
        if !then.isEmpty { try await queue.run(then) }
        try await meanwhile(third)
        try await queue.run("commit")
        return try await importing.value
    }

    private func devices(_ queue: QueueFixture) async throws -> [String] {
        try await queue.texts(
            """
            select concat_ws(' ', encode(d.token, 'hex'), coalesce(d.user_key, '-'), coalesce(d.kind, '-'), d.active,
                             nullif(array_to_string(p.tags, ','), ''))
            from pushq.device d
            left join pushq.profile p on p.queue_id = d.queue_id and p.device_id = d.id
            order by 1
            """)
    }

    @Test func `tells of tokens that a send adds at the same moment whose they are, and which are inactive`()
        async throws
    {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database, devices: 0)
            let summary = try await add(
                "token,user_key,active,kind,tags\na1,anna,true,alert,x\na2,bert,false,,\na3,carl,true,,\n", to: queue,
                database, on: actor,
                open: "select pushq.send('\(Self.name)', '{\"aps\":{\"alert\":\"hi\"}}', array['a1', 'a2'])")
            #expect(try await devices(queue) == ["a1 anna alert t x", "a2 bert - f", "a3 carl - t"])
            #expect((summary.new, summary.changed, summary.unchanged, summary.keptActive) == (1, 2, 0, 0))
        }
    }

    @Test func `leaves those with their users that apps register at the same moment, and counts them`() async throws {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database, devices: 0)
            let summary = try await add(
                "token,user_key,active,tags\na1,anna,false,x\na3,carl,true,y\n", to: queue, database, on: actor,
                open: Self.register("a1", "ben"))
            #expect(try await devices(queue) == ["a1 ben - t", "a3 carl - t y"])
            #expect((summary.new, summary.changed) == (1, 0))
            #expect((summary.keptByApp, summary.keptActive) == (1, 1))
        }
    }

    /// A registration locks the device first, and then its profile.
    @Test func `changes users and profiles in the order of registrations`() async throws {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database, devices: 0)
            _ = try await Self.add("token,user_key,tags\na1,anna,x\n", queue.connection)
            let summary = try await add(
                "token,user_key,tags\na1,bert,y\n", to: queue, database, on: actor,
                open: "select from pushq.device where token = '\\xa1' for no key update",
                then: "update pushq.profile set locale = 'de'")
            #expect(summary.changed == 1)
            #expect(try await devices(queue) == ["a1 bert - t y"])
        }
    }

    /// The profiles are written in the order of devices. While the import waits for the first of them, the other device
    /// goes from the user of its line to somebody else.
    @Test(arguments: [
        ("select pushq.register_device('\(name)', 'a2', 'ben')", "a2 ben - t"),
        ("select pushq.unregister_device('\(name)', 'a2')", "a2 - - f"),
    ])
    func `gives nobody the tags of the user who leaves the device at the same moment`(leaving: String, then: String)
        async throws
    {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database, devices: 0)
            try await queue.run(Self.register("a1", "carl") + Self.register("a2", "anna"))
            _ = try await add(
                "token,user_key,tags,attributes\na1,carl,x,\na2,anna,vip,\"{\"\"name\"\": \"\"Anna\"\"}\"\n", to: queue,
                database, on: actor,
                open: """
                    select from pushq.profile p join pushq.device d on d.id = p.device_id where d.token = '\\xa1'
                    for update of p
                    """
            ) { third in
                // Far less than the import's time limit.
                try await third.runScript("set lock_timeout = '30s'; \(leaving)", within: .seconds(60))
            }
            #expect(try await devices(queue) == ["a1 carl - t x", then])
            #expect(try await queue.number("select count(*) from pushq.profile where attributes <> '{}'") == 0)
        }
    }

    /// A registration locks the installation's older token first, and then adds the newer one.
    @Test func `adds newer tokens of installations in the order of registrations`() async throws {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database, devices: 0)
            let header = "token,user_key,installation\n"
            _ = try await Self.add(header + "a1,anna,I\n", queue.connection)
            let summary = try await add(
                header + "a2,anna,I\nb2,bert,J\n", to: queue, database, on: actor,
                open: "select from pushq.device where token = '\\xa1' for no key update",
                then: Self.register("a2", "anna", "I"))
            #expect(summary.new == 1)
            #expect(try await devices(queue) == ["a1 - - f", "a2 anna - t", "b2 bert - t"])
        }
    }

    @Test func `holds no registrations of other devices up while it waits for one`() async throws {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database, devices: 0)
            let header = "token,user_key\n"
            _ = try await Self.add(header + "a1,anna\na2,bert\na3,carl\n", queue.connection)
            let summary = try await add(
                header + "a1,anna\na2,ben\na3,cid\n", to: queue, database, on: actor, open: Self.register("a3", "carl")
            ) { third in
                // Far less than the import's time limit.
                try await third.runScript(
                    "set lock_timeout = '30s'; \(Self.register("a2", "bea"))", within: .seconds(60))
            }
            #expect((summary.changed, summary.keptByApp) == (0, 2))
            #expect(try await devices(queue) == ["a1 anna - t", "a2 bea - t", "a3 carl - t"])
        }
    }

    /// It used to wait for 48 minutes, and to end as if nothing had been imported.
    @Test func `says when the file is imported and a registration keeps an installation from having one token`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 0)
            let importer = try await database.connect()
            importer.terms = StatementTerms()
            try await queue.run("begin; \(Self.register("b1", "bert", "J"))")
            let file = "token,user_key,installation,seen_at\nb2,bert,J,2020-01-01\n"
            let heldUp = await #expect(throws: InstallationsHeldUp.self) {
                try await Self.add(file, importer, patience: .zero)
            }
            #expect(heldUp?.description.hasPrefix("the file was imported, but 1 of its installations") == true)
            try await queue.run("commit")
            #expect(try await devices(queue) == ["b1 bert - t", "b2 bert - t"])
            _ = try await Self.add(file, importer, patience: .zero)
            #expect(try await devices(queue).filter { $0.contains(" t") } == ["b1 bert - t"])
        }
    }

    @Test func `gives up when others stay in its way, and says so`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 0)
            let importer = try await database.connect()
            importer.terms = StatementTerms()
            try await queue.run("begin; \(Self.register("a1", "anna"))")
            let heldUp = await #expect(throws: ImportHeldUp.self) {
                try await Self.add("token,user_key\na1,bert\na2,carl\n", importer, patience: .zero)
            }
            #expect(heldUp?.description.hasPrefix("nothing was imported, because other transactions held") == true)
            try await queue.run("rollback")
            #expect(try await devices(queue) == [])
            #expect(try await Self.add("token,user_key\na1,bert\na2,carl\n", importer).new == 2)
        }
    }
}
