import Foundation
import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// With a transaction pooler in between, each transaction may run on another server connection, which does not know the
/// statements prepared on the previous one.
@Suite(
    .serialized, .enabled(if: PgBouncer.executable != nil, "PgBouncer is not installed (apt-get install pgbouncer)"),
    .timeLimit(.minutes(10)))
struct `Behind PgBouncer in transaction mode` {
    private static let square = Statement("square", "select $1::int8 * $1::int8 as square")

    @Test func `every statement is answered rightly, whichever server it meets`() async throws {
        try await withEmptyDatabase { actor, database in
            let pooler = try await PgBouncer()
            var clients: [PostgresConnection] = []
            for _ in 0..<6 {
                clients.append(
                    try await PostgresConnection.connectPatiently(
                        to: try pooler.address(of: database), as: "test", on: database.loop))
            }
            let tasks = (0..<240).map { (number: Int64) in
                let client = clients[Int(number) % clients.count]
                return Task {
                    _ = actor
                    // Occupies its server connection for a moment, so that other clients get another one.
                    _ = try await client.execute(Statement("hold", "select pg_sleep(0.002)"))
                    return try await client.execute(Self.square, [.int8(number)]).first?.int8("square")
                }
            }
            for (number, task) in zip(Int64(0)..., tasks) { #expect(try await task.value == number * number) }
            // The two server connections received statements that other clients had prepared, or that they did not
            // know.
            #expect(clients.contains { !$0.preparesStatements })
            for client in clients { client.close() }
            await pooler.end()
        }
    }

    @Test func `what goes ahead of a command's statement holds for it, and for nobody after it`() async throws {
        try await withEmptyDatabase { _, database in
            try await database.connect().runScript(
                "alter database \(database.name) set default_transaction_isolation = serializable")
            let pooler = try await PgBouncer(poolSize: 1)
            let address = try pooler.address(of: database)
            let command = try await PostgresConnection.connectPatiently(to: address, as: "test", on: database.loop)
            let producer = try await PostgresConnection.connectPatiently(to: address, as: "test", on: database.loop)
            let settings = Statement(
                "settings",
                """
                select concat_ws(' ', current_setting('lock_timeout'), current_setting('pushq.program', true),
                                 current_setting('transaction_isolation')) as all
                """)
            command.terms = StatementTerms(program: "Юлия")
            // A statement waits for a lock for four fifths of its own time.
            let lockTimeout = "\(TestServer.patience.components.seconds * 4 / 5)s"
            for _ in 0..<3 {
                let own = try await command.execute(settings).one().text("all")
                #expect(own == "\(lockTimeout) Юлия read committed")
                let others = try await producer.execute(settings).one().text("all")
                #expect(others.hasPrefix("0") && others.hasSuffix("serializable") && !others.contains("Юлия"))
            }
            for client in [command, producer] { client.close() }
            await pooler.end()
        }
    }

    @Test func `a worker sets nothing on a session that others use after it, and hears what its role lacks`()
        async throws
    {
        try await withDatabase { actor, database in
            let direct = try await database.connect()
            try await direct.runScript(
                """
                alter database \(database.name) set default_transaction_isolation = serializable;
                alter database \(database.name) set statement_timeout = '30s';
                alter database \(database.name) set synchronous_commit = off
                """)
            let pooler = try await PgBouncer(poolSize: 1)
            let address = try pooler.address(of: database)
            let worker = try await PostgresConnection.connectPatiently(to: address, as: "test", on: database.loop)
            let lack = try await worker.prepareWorkerSession()
            #expect(lack?.role == TestServer.superuser)
            #expect(lack?.settings.contains("plan_cache_mode = force_generic_plan") == true)
            #expect(lack?.settings.contains("default_transaction_isolation = read committed") == true)
            #expect(lack?.settings.contains("synchronous_commit = on") == true)
            #expect(lack?.settings.contains("idle_in_transaction_session_timeout = 1min") == true)
            #expect(lack?.settings.contains("statement_timeout = 0") == true)
            // The test's server has the JIT compiler off, ends no idle session, sends warnings, and limits neither the
            // time to wait for a lock nor that of a transaction.
            #expect(lack?.settings.count == WorkerSettings.all.count - 5)
            let producer = try await PostgresConnection.connectPatiently(to: address, as: "test", on: database.loop)
            #expect(try await producer.execute(Self.planMode).one().text("plan_cache_mode") == "auto")
            for client in [worker, producer] { client.close() }
            await pooler.end()

            try await direct.setUpWorkerRole(TestServer.superuser)
            let next = try await PgBouncer(poolSize: 1)
            let prepared = try await PostgresConnection.connectPatiently(
                to: try next.address(of: database), as: "test", on: database.loop)
            #expect(try await prepared.prepareWorkerSession() == nil)
            prepared.close()
            await next.end()
        }
    }

    private static let planMode = Statement("plan_mode", "select current_setting('plan_cache_mode') as plan_cache_mode")

    @Test func `each role sees its own tenant in a session that it shares with another one's`() async throws {
        let isolation = `A login of one tenant`()
        try await isolation.withNeighbours { _, database, neighbours in
            let login = "pool_\(database.name)"
            let (acme, beta) = ("producer_\(database.name)", "neighbour_\(database.name)")
            try await neighbours.admin.runScript("create role \(login) login; grant \(acme), \(beta) to \(login)")
            let pooler = try await PgBouncer(login: login, poolSize: 1)
            let address = try pooler.address(of: database)
            let clients = [
                acme: try await PostgresConnection.connectPatiently(to: address, as: "test", on: database.loop),
                beta: try await PostgresConnection.connectPatiently(to: address, as: "test", on: database.loop),
            ]
            /// Returns the error of a call in a transaction of the role's client, which is rolled back; empty if there
            /// is none.
            func refusal(_ role: String, _ query: String, sets: Bool = true) async throws -> String {
                guard let client = clients[role] else { return "no client" }
                var refusal = ""
                do {
                    try await client.runScript("begin; \(sets ? "set local role \(role); " : "")select \(query)")
                } catch {
                    refusal = "\(error)"
                }
                try await client.runScript("rollback")
                return refusal
            }
            for probe in `A login of one tenant`.probes(
                neighbours.send, neighbours.list, neighbours.job, neighbours.campaign)
            {
                for (role, own, others) in [(acme, "acme", "beta"), (beta, "beta", "acme")] {
                    func probed(_ tenant: String) async throws -> String {
                        try await refusal(
                            role, probe.query.replacing("QUEUE", with: "\(tenant)/com.\(tenant)/production"))
                    }
                    #expect(try await !probed(own).contains("there is no queue"), "\(probe.function)")
                    #expect(try await probed(others).contains("there is no queue"), "\(probe.function)")
                }
            }
            for (role, own) in [(acme, "acme"), (beta, "beta")] {
                let others = "1 / (count(*) filter (where queue like '\(own)/%') / count(*)) from pushq.my_queues"
                #expect(try await refusal(role, others) == "")
                // The session keeps nothing of a role, and membership alone gives access to no tenant.
                let list = "pushq.new_list('\(own)/com.\(own)/production')"
                #expect(try await refusal(role, list, sets: false).contains("there is no queue"))
            }
            for client in clients.values { client.close() }
            await pooler.end()
        }
    }

    @Test func `transactions and COPY stay whole, and migrations are applied once`() async throws {
        try await withEmptyDatabase { actor, database in
            let pooler = try await PgBouncer()
            let address = try pooler.address(of: database)
            var runs: [Task<[String], any Error>] = []
            for _ in 0..<3 {
                let client = try await PostgresConnection.connectPatiently(to: address, as: "test", on: database.loop)
                runs.append(
                    Task {
                        _ = actor
                        defer { client.close() }
                        return try await Migrator(client).run().applied
                    })
            }
            var applied: [String] = []
            for run in runs { applied += try await run.value }
            #expect(applied.sorted() == Migration.all.map(\.name))

            let client = try await PostgresConnection.connectPatiently(to: address, as: "test", on: database.loop)
            defer { client.close() }
            let count = try await client.transaction {
                try await client.runScript("create temp table stage (n int8) on commit drop")
                _ = try await client.copyIn(Statement("copy", "copy stage from stdin"), within: TestServer.patience) {
                    writer in
                    try await writer.write(Array("1\n2\n3\n".utf8))
                }
                return try await client.execute(Statement("count", "select count(*) from stage")).one().int8("count")
            }
            #expect(count == 3)
            await pooler.end()
        }
    }

    /// Two commands that moved a tenant once had one session. The tenant was in both databases afterwards.
    @Test func `no command moves a tenant`() async throws {
        try await withMoveWorld { _, world in
            let pooler = try await PgBouncer()
            let shared = try await PostgresConnection.connectPatiently(
                to: try pooler.address(of: world.there), as: "test", on: world.there.loop)
            let own = TenantMover.Place(try await world.here.connect(), name: "one")
            let mover = TenantMover("acme", from: own, to: .init(shared, name: "two"))
            await #expect(throws: TenantMoveError.behindPooler("two")) { _ = try await mover.run(under: world.keys) }
            await #expect(throws: TenantMoveError.behindPooler("two")) { _ = try await mover.abandon() }
            #expect(try await world.first.number("select count(*) from pushq.tenant_move") == 0)
            shared.close()
            await pooler.end()
        }
    }
}
