import LocalStack
import QueueCore
import TestSupport
import Testing
import Transport

@testable import PostgresStore

@Suite(.timeLimit(.minutes(10)))
struct `A database with several hosts` {
    private static let isStandby = Statement("is_standby", "select pg_is_in_recovery()")
    private static let write = Statement("write", "insert into note default values")
    private static let soon = Backoff(base: .milliseconds(5), cap: .milliseconds(50))

    /// Runs a test with a primary that has a table, its standby, and an address with both hosts.
    private func withPair(
        _ body:
            @escaping @Sendable (
                isolated LoopActor, _ primary: PrivatePostgres, _ standby: PrivatePostgres, DatabaseAddress
            ) async throws -> Void
    ) async throws {
        let reaper = try Reaper()
        let loop = EventLoop(name: "failover")
        defer { loop.shutDown() }
        let primary = try await PrivatePostgres.start(reaper: reaper)
        try await primary.client("psql", ["-qd", "postgres", "-c", "create table note ()"]).run()
        let standby = try await PrivatePostgres.startStandby(of: primary, reaper: reaper)
        let address = try DatabaseAddress(url: primary.connectionString(orAt: standby), environment: [:])
        try await loop.run { actor in try await body(actor, primary, standby, address) }
        await reaper.end()
    }

    @Test func `is the one that takes writes, wherever it stands in the list`() async throws {
        try await withPair { actor, primary, standby, _ in
            for url in [standby.connectionString(orAt: primary), primary.connectionString(orAt: standby)] {
                let address = try DatabaseAddress(url: url, environment: [:])
                let connection = try await PostgresConnection.connect(to: address, as: "test", on: actor.loop)
                #expect(try await connection.execute(Self.isStandby).one().bool("pg_is_in_recovery") == false)
                connection.close()
            }
        }
    }

    @Test func `may be a standby alone for who only reads, and not for who writes`() async throws {
        try await withPair { actor, _, standby, _ in
            let address = try DatabaseAddress(url: standby.connectionString(), environment: [:])
            let connection = try await PostgresConnection.connect(to: address, as: "test", on: actor.loop)
            #expect(try await connection.execute(Self.isStandby).one().bool("pg_is_in_recovery"))
            connection.close()
            let error = await #expect(throws: PostgresError.self) {
                try await PostgresConnection.connect(to: address, as: "test", on: actor.loop, needsWrites: true).close()
            }
            #expect(error?.isTransient == true)
            #expect(error?.description.hasSuffix("session is read-only") == true, "\(error?.description ?? "")")
        }
    }

    @Test func `goes on at the standby when the primary dies and the standby is promoted`() async throws {
        try await withPair { actor, primary, standby, address in
            let store = ReconnectingConnection(to: address, as: "test", on: actor.loop, backoff: Self.soon)
            defer { store.close() }
            var (losses, returns) = (0, 0)
            store.onLost = { _, _ in losses += 1 }
            store.onBack = { returns += 1 }
            _ = try await store.current().execute(Self.write)
            try await primary.stop(.immediate)
            try await eventually("the loss") { losses == 1 }
            await #expect(throws: PostgresError.self) { _ = try await store.current(within: .milliseconds(300)) }
            try await standby.promote()
            _ = try await store.current(within: .seconds(60)).execute(Self.write)
            #expect(returns == 1)
        }
    }

    /// The old primary still answers on its open connections, but refuses writes.
    @Test func `is left for the new primary when the old one takes no writes any more`() async throws {
        try await withPair { actor, primary, standby, address in
            let store = ReconnectingConnection(to: address, as: "test", on: actor.loop, backoff: Self.soon)
            defer { store.close() }
            let before = try await store.current()
            for sql in ["alter system set default_transaction_read_only = on", "select pg_reload_conf()"] {
                try await primary.client("psql", ["-qd", "postgres", "-c", sql]).run()
            }
            let setting = Statement("setting", "select current_setting('transaction_read_only') as is_read_only")
            try await eventually("the setting") {
                try await before.execute(setting).one().text("is_read_only") == "on"
            }
            let error = await #expect(throws: PostgresError.self) { _ = try await before.execute(Self.write) }
            #expect(error?.isTransient == true)
            #expect(!before.isOpen)
            try await standby.promote()
            let after = try await store.current(within: .seconds(60))
            #expect(after.host == 1)
            _ = try await after.execute(Self.write)
        }
    }

    /// Who commits. The last three work also where the server is set to say nothing of warnings.
    enum Committer: CaseIterable {
        case script, statement, worker, command, transaction
    }

    /// PostgreSQL reports such a commit as done, but a standby that takes over does not have it.
    @Test(arguments: Committer.allCases)
    func `has not done what it stopped waiting for a standby for`(committer: Committer) async throws {
        try await withPair { actor, primary, _, _ in
            let here = try DatabaseAddress(url: primary.connectionString(), environment: [:])
            let observer = try await PostgresConnection.connect(to: here, as: "observer", on: actor.loop)
            defer { observer.close() }
            let messages = [.script, .statement].contains(committer) ? "warning" : "error"
            for sql in [
                "alter system set client_min_messages = \(messages)",
                "alter system set synchronous_standby_names = 'nobody'", "select pg_reload_conf()",
            ] {
                try await primary.client("psql", ["-qd", "postgres", "-c", sql]).run()
            }
            let setting = Statement("setting", "select current_setting('synchronous_standby_names') as names")
            try await eventually("the setting") {
                try await observer.execute(setting).one().text("names") == "nobody"
            }
            let connection = try await PostgresConnection.connect(to: here, as: "test", on: actor.loop)
            switch committer {
            case .script, .statement, .transaction: break
            case .worker: _ = try await connection.prepareWorkerSession()
            case .command: connection.terms = StatementTerms()
            }
            let write = Statement("write_note", "insert into public.note default values")
            // The process that makes commits wait reads the setting only some time later.
            try await eventually("that commits wait") {
                let probe = try await PostgresConnection.connect(to: here, as: "probe", on: actor.loop)
                defer { probe.close() }
                try await probe.runScript("set statement_timeout = '200ms'")
                do {
                    try await probe.runScript("begin; insert into note default values; commit")
                    return false
                } catch {
                    return true
                }
            }
            let cancel = Statement(
                "cancel",
                """
                select count(pg_cancel_backend(pid)) as cancelled from pg_stat_activity
                where pid = \(connection.backendProcessID) and wait_event = 'SyncRep'
                """)
            async let outcome = #expect(throws: PostgresError.self) {
                switch committer {
                case .script: try await connection.runScript("begin; insert into note default values; commit")
                case .statement, .worker, .command: _ = try await connection.execute(write)
                case .transaction: try await connection.transaction { _ = try await connection.execute(write) }
                }
            }
            try await eventually("the wait for a standby") {
                try await observer.execute(cancel).one().int8("cancelled") == 1
            }
            guard case .connectionLost(_, let reason, .unknown) = try #require(await outcome) else {
                Issue.record("not in doubt: \(String(describing: await outcome))")
                return
            }
            #expect(reason == "the wait for the synchronous standby was cancelled")
            #expect(!connection.isOpen)
        }
    }

    @Test func `is the next one when the first accepts and says nothing`() async throws {
        let silent = try await DatabaseProxy { $0.isFromClient ? .drop : .pass }
        defer { silent.close() }
        try await withEmptyDatabase { _, database in
            let folder = try await TestServer.shared().socketFolder
            let url = silent.connectionString(database: database.name)
                .replacing(" user=", with: ",\(folder) user=")
            let connection = try await PostgresConnection.connect(
                to: DatabaseAddress(url: url, environment: [:]), as: "test", on: database.loop, within: .seconds(4))
            #expect(connection.host == 1)
            connection.close()
        }
    }

    @Test func `is the next one when the first falls silent behind an open connection`() async throws {
        let isSilent = Locked(false)
        let first = try await DatabaseProxy { $0.isFromClient && isSilent.withLock { $0 } ? .drop : .pass }
        defer { first.close() }
        try await withEmptyDatabase { _, database in
            let folder = try await TestServer.shared().socketFolder
            let url = first.connectionString(database: database.name).replacing(" user=", with: ",\(folder) user=")
            let store = ReconnectingConnection(
                to: try DatabaseAddress(url: url, environment: [:]), as: "test", on: database.loop, backoff: Self.soon)
            defer { store.close() }
            let connection = try await store.current()
            #expect(connection.host == 0)
            isSilent.withLock { $0 = true }
            await #expect(throws: PostgresError.self) {
                _ = try await connection.execute(Self.isStandby, within: .milliseconds(200))
            }
            // Faster than the first host's share of the time for connecting.
            let next = try await store.current(within: .seconds(2))
            #expect(next.host == 1)
        }
    }

    @Test func `says of each host why it is not the one`() async throws {
        try await withEmptyDatabase { _, database in
            let address = try DatabaseAddress(
                url: "host=/nowhere,127.0.0.1 port=5432,1 user=x dbname=y", environment: [:])
            let error = await #expect(throws: PostgresError.self) {
                try await PostgresConnection.connect(to: address, as: "test", on: database.loop).close()
            }
            let text = error?.description ?? ""
            #expect(text.hasPrefix("cannot connect to database y at /nowhere,127.0.0.1:1 as x: "), "\(text)")
            #expect(text.contains("/nowhere/.s.PGSQL.5432") && text.contains("127.0.0.1\", port 1"), "\(text)")
        }
    }

    @Test(arguments: [
        ("host=a,b port=1,2", ["a:1", "b:2"]), ("host=a,b port=7", ["a:7", "b:7"]), ("host=a,b", ["a:5432", "b:5432"]),
        ("hostaddr=127.0.0.1,::1 port=1,2", ["127.0.0.1:1", "::1:2"]),
        ("host=a,b hostaddr=127.0.0.1,127.0.0.2", ["a:5432", "b:5432"]), ("user=x", []),
        ("postgresql://x@a:1,b:2/y", ["a:1", "b:2"]),
    ])
    func `is read from its address`(url: String, hosts: [String]) throws {
        #expect(try DatabaseAddress(url: url, environment: [:]).hosts.map { "\($0.name):\($0.port)" } == hosts)
    }
}
