import LocalStack
import PostgresStore
import TestSupport
import Testing
import Transport

@testable import Workers

@Suite(.timeLimit(.minutes(10)))
struct `The sessions of an engine` {
    private static let command = "pushq-admin migrate --worker-role \(TestServer.superuser)"

    @Test(.enabled(if: PgBouncer.executable != nil, "PgBouncer is not installed (apt-get install pgbouncer)"))
    func `behind a pooler, what they lack is said once, with the command that sets it`() async throws {
        try await EngineFixture.run { _, fixture in
            let pooler = try await PgBouncer(poolSize: 4)
            let queue = try await fixture.makeQueue(devices: 3)
            try await fixture.withEngine(over: try pooler.address(of: fixture.database)) { _ in
                try await fixture.startCampaign(queue)
                try await fixture.waitForCampaigns()
            }
            let lines = fixture.events.all.filter { $0.contains("plan_cache_mode = force_generic_plan") }
            #expect(lines.count == 1)
            #expect(lines.first?.hasSuffix(Self.command) == true)
            await pooler.end()
        }
    }

    @Test func `need nothing of their role`() async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 3)
            try await fixture.connection.runScript("alter database \(fixture.database.name) set jit = on")
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(queue)
                try await fixture.waitForCampaigns()
            }
            #expect(!fixture.events.contains("plan_cache_mode"))
        }
    }

    /// A worker that runs during `pg_restore` has opened its sessions before the restored rows were there.
    @Test func `that were open before the database was restored tell of that, too, and once`() async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 3)
            try await fixture.withEngine { _ in
                try await eventually("all sessions") { try await fixture.connection.workers().count == 1 }
                // A restore leaves the name of another copy (`RestoresTests`), and here a campaign that is in doubt.
                try await fixture.connection.runScript(
                    #"""
                    begin;
                    select pushq.start_campaign('\#(queue)', 'k', '{"aps":{"alert":"x"}}');
                    update pushq.lineage set name = '1/2/3/4';
                    commit
                    """#)
                let said = "the database was restored and knows nothing after"
                try await eventually("it to be said", within: .seconds(30)) { fixture.events.contains(said) }
                try await eventually("two more heartbeats", within: .seconds(30)) {
                    let sql = "select extract(epoch from max(seen_at) - max(found_at)) from pushq.worker, pushq.lineage"
                    return try await fixture.number(sql) > 10
                }
                #expect(fixture.events.all.count { $0.contains(said) } == 1)
            }
        }
    }
}

@Suite(.timeLimit(.minutes(10))) struct `A server whose place another one has taken` {
    /// Runs `body` with a primary, and with its standby, which was promoted meanwhile: both accept writes.
    private func withBoth(
        _ body: @escaping @Sendable (PrivatePostgres, PrivatePostgres, EventLoop) async throws -> Void
    )
        async throws
    {
        try await withStandby { old, new, loop in
            try await new.promote()
            try await body(old, new, loop)
        }
    }

    /// Runs `body` with a primary and its standby.
    private func withStandby(
        _ body: @escaping @Sendable (PrivatePostgres, PrivatePostgres, EventLoop) async throws -> Void
    )
        async throws
    {
        let reaper = try Reaper()
        let loop = EventLoop(name: "session")
        defer { loop.shutDown() }
        let old = try await PrivatePostgres.start(reaper: reaper)
        try await loop.run { actor in
            let address = try DatabaseAddress(url: old.connectionString(), environment: [:])
            let connection = try await PostgresConnection.connectPatiently(to: address, as: "test", on: actor.loop)
            _ = try await Migrator(connection).run()
            connection.close()
        }
        let new = try await PrivatePostgres.startStandby(of: old, reaper: reaper)
        try await body(old, new, loop)
        await reaper.end()
    }

    /// Sets by hand what a server reports about its timeline. `DatabaseCopyTests` test real reports.
    private func claim(_ timeline: Int, at connection: PostgresConnection) async throws {
        try await connection.runScript(
            """
            create or replace function pushq.current_timeline() returns int
            language plpgsql stable as 'begin return \(timeline); end'
            """)
    }

    /// Reports another cluster than the real one.
    private static let otherCluster = """
        create or replace function pushq.current_cluster() returns bigint language sql stable as 'select 4711::bigint'
        """

    /// Runs `body` with sessions in two databases. The second one stands for one in another cluster.
    private func withMovedDatabase(
        from timeline: Int, to other: Int,
        _ body:
            @escaping @Sendable (
                isolated LoopActor, SessionPreparation, PostgresConnection, PostgresConnection
            ) async throws -> Void
    ) async throws {
        try await withTwoDatabases { actor, former, moved in
            let (first, second) = (try await former.connect(), try await moved.connect())
            try await claim(timeline, at: first)
            try await claim(other, at: second)
            try await second.runScript(Self.otherCluster)
            let session = SessionPreparation(at: "db") { Issue.record("\($0)") }
            try await body(actor, session, first, second)
        }
    }

    @Test(arguments: [(5, 1), (1, 1), (1, 5)])
    func `is followed into another cluster when no session is left in the former one`(from: Int, to: Int) async throws {
        try await withMovedDatabase(from: from, to: to) { _, session, first, second in
            try await session.prepare(first)
            let error = await #expect(throws: PostgresError.self) { try await session.prepare(second) }
            #expect(
                error?.description
                    == "cannot connect to db: it is another cluster than the one where this program has sessions")
            first.close()
            try await session.prepare(second)
        }
    }

    /// A pooler keeps its clients' sessions, and leads them elsewhere.
    @Test(arguments: [(5, 1), (1, 1), (1, 5)])
    func `is followed into another cluster where open sessions are led there, too`(from: Int, to: Int) async throws {
        try await withMovedDatabase(from: from, to: to) { _, session, first, second in
            try await session.prepare(first)
            try await claim(to, at: first)
            try await first.runScript(Self.otherCluster)
            try await session.prepare(second)
            #expect(first.isOpen && second.isOpen)
        }
    }

    @Test func `is recognised in the new cluster, too`() async throws {
        try await withDatabase { _, database in
            let (first, second) = (try await database.connect(), try await database.connect())
            var events: [String] = []
            let session = SessionPreparation(at: "db") { events.append("\($0)") }
            try await claim(5, at: first)
            try await session.prepare(first)
            first.close()
            try await second.runScript(Self.otherCluster)
            try await claim(2, at: second)
            try await session.prepare(second)
            #expect(events == [])
            try await claim(1, at: second)
            await #expect(throws: PostgresError.self) { try await session.prepare(second) }
            #expect(events.count == 1)
        }
    }

    @Test func `is not used by a worker that has seen the newer one, and this is said once`() async throws {
        try await withDatabase { _, database in
            let connection = try await database.connect()
            var events: [String] = []
            let figures = EngineFigures(QueueAdmission())
            let session = SessionPreparation(at: "db1,db2") { event in
                events.append("\(event)")
                figures.note(event)
            }
            try await claim(2, at: connection)
            try await session.prepare(connection)
            #expect(session.changes == 0, "there was none before")
            try await claim(3, at: connection)
            try await session.prepare(connection)
            try await session.prepare(connection)
            #expect(session.changes == 1)
            #expect(events == [])

            try await claim(2, at: connection)
            for _ in 0..<3 {
                let error = await #expect(throws: PostgresError.self) { try await session.prepare(connection) }
                #expect(error?.isTransient == true, "it is tried again, at the next host")
                #expect(
                    error?.description
                        == "cannot connect to db1,db2: its timeline 2 is older than 3, which this program has seen")
            }
            #expect(events.count == 1 && figures.counts.oldPrimaries == 1)
            #expect(events[0].contains("timeline 2, but another one already had 3"))

            try await claim(3, at: connection)
            try await session.prepare(connection)
            try await SessionPreparation(at: "db1,db2") { _ in }.prepare(connection)
        }
    }

    @Test func `is not used by a worker that starts while both take writes, in either order`() async throws {
        try await withBoth { old, new, loop in
            try await loop.run { actor in
                for url in [old.connectionString(orAt: new), new.connectionString(orAt: old)] {
                    let address = try DatabaseAddress(url: url, environment: [:])
                    let session = SessionPreparation(at: "db1,db2") { _ in }
                    await session.survey(address, on: actor.loop)
                    let store = ReconnectingConnection(
                        to: address, as: "test", on: actor.loop, prepare: session.prepare)
                    let name = try await store.current().execute(
                        Statement("name", "select left(pg_walfile_name(pg_current_wal_lsn()), 8) as timeline"))
                    #expect(try name.one().text("timeline") == "00000002")
                    store.close()
                }
            }
        }
    }

    /// The number of a server's sessions with such a name.
    private func sessions(_ server: PrivatePostgres, _ name: String) async throws -> String {
        let sql = "select count(*) from pg_stat_activity where application_name like '\(name)'"
        return try await server.client("psql", ["-qAtd", "postgres", "-c", sql]).run()
    }

    /// A worker that leased at one server and recorded at the other would send again and again.
    @Test func `loses all sessions of a worker as soon as one of them sees the newer one`() async throws {
        try await withStandby { old, new, loop in
            try await loop.run { actor in
                var events: [String] = []
                let session = SessionPreparation(at: "db1,db2") { events.append("\($0)") }
                func open(_ servers: String) throws -> ReconnectingConnection {
                    ReconnectingConnection(
                        to: try DatabaseAddress(url: servers, environment: [:]), as: "test", on: actor.loop,
                        prepare: session.prepare)
                }
                func timeline(_ store: ReconnectingConnection) async throws -> Int32? {
                    let copy = try await store.current().followTimeline()
                    return copy?.timeline
                }
                let both = old.connectionString(orAt: new)
                let (one, other) = (try open(both), try open(both))
                for store in [one, other] { #expect(try await timeline(store) == 1) }
                try await new.promote()
                for store in [one, other] { #expect(try await timeline(store) == 1, "they do not know it") }
                let next = try open(new.connectionString(orAt: old))
                #expect(try await timeline(next) == 2)
                #expect(!one.isOpen && !other.isOpen)
                for store in [one, other] { #expect(try await timeline(store) == 2) }
                #expect(events.count == 1 && events[0].contains("timeline 1, but another one already had 2"))
                for store in [one, other, next] { store.close() }
            }
        }
    }

    @Test func `is left by a worker that lost no session, and by the session for tokens`() async throws {
        try await withStandby { old, new, loop in
            try await loop.run { actor in
                let address = try DatabaseAddress(url: old.connectionString(orAt: new), environment: [:])
                let stores = EngineConnections(
                    to: address, keeper: address, surveyInterval: .milliseconds(100), on: actor.loop,
                    report: { _ in })
                let tokens = try #require(stores.tokens)
                for store in [stores.claims, stores.leases, stores.fanOut, stores.upkeep, tokens] {
                    _ = try await store.connection()
                }
                #expect(try await sessions(old, "pushq work%") == "5\n")
                try await new.promote()
                try await eventually("all to be at the new primary", within: .seconds(60)) {
                    stores.lookForNewerServers()
                    for store in [stores.claims, stores.leases, stores.fanOut, stores.upkeep, tokens] {
                        _ = try? await store.connection()
                    }
                    let names = "pushq work%' and application_name not like '%survey%"
                    let (here, there) = (try await sessions(new, names), try await sessions(old, names))
                    return here == "5\n" && there == "0\n"
                }
                stores.close()
            }
        }
    }

    @Test func `gets no session for tokens when a worker starts`() async throws {
        try await withBoth { old, new, loop in
            try await loop.run { actor in
                let address = try DatabaseAddress(url: old.connectionString(orAt: new), environment: [:])
                let stores = EngineConnections(to: address, keeper: address, on: actor.loop, report: { _ in })
                _ = try await stores.start { _ in }
                #expect(try await stores.tokens?.connection().followTimeline()?.timeline == 2)
                stores.close()
            }
        }
    }

    @Test func `gets no session of a worker, not even the one for notifications`() async throws {
        try await withBoth { old, new, _ in
            let events = EventLog()
            let address = try DatabaseAddress(url: old.connectionString(orAt: new), environment: [:])
            let engine = Engine(
                settings: EngineSettings(), database: address, masterKeys: nil, report: { events.append($0) })
            let running = Task.detached { try await engine.run() }
            try await eventually("its notifications come from the new primary", within: .seconds(30)) {
                try await sessions(new, "pushq work (notifications)") == "1\n"
            }
            #expect(try await sessions(old, "pushq work%") == "0\n")
            #expect(events.contains("it is an old primary"))
            await engine.drain()
            try await running.value
            engine.loop.shutDown()
        }
    }
}
