import APNsSimulator
import Foundation
import LocalStack
import PostgresStore
import QueueCore
import TestSupport
import Testing

extension `Real processes with several databases` {
    /// Two databases that ask every producer for a password, and a router on a third server, which has them in a file.
    @Suite(.enabled("PL/Proxy is not installed: scripts/setup --tests installs it") { try await hasProxy() })
    struct `A router for producers of two databases` {
        private static let queues = (acme: "acme/com.acme/sandbox", beta: "beta/com.beta/sandbox")
        /// A name that says who somebody is, if nobody puts it between quotes.
        private static let oddLogin = "odd user=pushq"

        /// A server and one of its databases.
        private struct Place: Sendable {
            let server: PrivatePostgres
            let database: String

            var url: String { server.connectionString(database: database) }

            /// Statements of one session of a login; each is a transaction of its own.
            func psql(_ statements: String..., as login: String = TestServer.superuser) async throws -> String {
                let commands = statements.flatMap { ["-c", $0] }
                return try await server.client("psql", ["-XqAtd", database, "-U", login] + commands).run()
                    .trimmingCharacters(in: .whitespacesAndNewlines)
            }

            /// What the one statement fails with, without the lines that say where.
            func refusal(_ statement: String, as login: String = TestServer.superuser) async throws -> String {
                do {
                    let answer = try await server.client(
                        "psql", ["-XqAtd", database, "-U", login, "-v", "SHOW_CONTEXT=never", "-c", statement]
                    ).run()
                    return "nothing refused, but: \(answer)"
                } catch {
                    return "\(error)"
                }
            }
        }

        private struct Stage {
            let first: Place
            let second: Place
            let router: Place
            let list: String

            /// Makes the router, or tells it what has changed. Returns how the command ended.
            @discardableResult
            func refresh() async throws -> Executable.Ended {
                let made = try await Executable.admin.run([
                    "router", "--databases", list, "--passfile", "\(router.server.socketFolder)/passwords",
                ])
                guard !made.output.isEmpty else { return made }
                try await router.server.shell(
                    #"printf '%s' "$SCRIPT" | psql -Xqd router -v ON_ERROR_STOP=1"#, ["SCRIPT": made.output]
                ).run()
                return made
            }
        }

        /// Nobody but the superuser and workers gets in without a password.
        private func askForPasswords(_ server: PrivatePostgres) async throws {
            try await server.shell(
                """
                printf '%s\\n' 'local all pushq,\(TestServer.workerLogin) trust' 'local all all scram-sha-256' > "$PGDATA/pg_hba.conf"
                psql -Xqd postgres -c 'select pg_reload_conf()' -c "create role shop login password 'key of shop'" \
                  -c "create role toys login password 'key of toys'" -c 'create role "\(Self.oddLogin)" login'
                """
            ).run()
        }

        /// Runs `body` with both databases, a worker for them, and a router that nobody has made yet.
        private func withStage(_ body: @escaping @Sendable (Rig, Stage) async throws -> Void) async throws {
            let minder = try Minder()
            let server = try await PrivatePostgres.start(minder: minder)
            var settings = Rig.Settings()
            settings.devices = 1
            settings.hasNeighbour = true
            try await Rig.run(on: server, settings) { _, rig in
                let first = Place(server: server, database: rig.database)
                let second = Place(server: try await .start(minder: rig.minder), database: "second")
                let router = Place(server: try await .start(minder: rig.minder), database: "router")
                for place in [second, router] { try await place.server.createDatabase(place.database) }
                let list = "\(rig.folder)/databases"
                try "\(first.url)\n\(second.url)\n".write(toFile: list, atomically: true, encoding: .utf8)
                for place in [first, second] { try await askForPasswords(place.server) }
                try await router.server.shell(
                    """
                    umask 077
                    printf '%s\\n' '*:*:*:shop:key of shop' '*:*:*:toys:key of toys' > "$PGHOST/passwords"
                    psql -Xqd postgres -c 'create role shop login' -c 'create role toys login' -c 'create role pooler login' \
                      -c 'grant shop, toys to pooler' -c 'create role "\(Self.oddLogin)" login' -c 'create role nobody login'
                    """
                ).run()
                let stage = Stage(first: first, second: second, router: router, list: list)
                let made = try await Executable.admin.run(
                    ["migrate", "--database-number", "5"], environment: ["PUSHQ_DATABASE_URL": second.url])
                try #require(made.code == 0, "\(made.errors)")
                // The neighbour goes to the second one, with its devices.
                for arguments in [
                    ["tenant", "grant", "acme", "shop"], ["tenant", "grant", "beta", "toys"],
                    ["tenant", "grant", "beta", Self.oddLogin], ["tenant", "move", "beta", "--to", second.url],
                ] {
                    let ended = try await rig.admin(arguments)
                    try #require(ended.code == 0, "\(ended.errors)")
                }
                try await body(rig, stage)
            }
            await minder.end()
        }

        /// `token` is the first of its equal bytes.
        private func send(_ queue: String, _ token: String) -> String {
            #"select pushq.send('\#(queue)', '{"aps":{"alert":"x"}}', tokens => array[repeat('\#(token)', 32)])"#
        }

        /// Waits until the simulator has seen a token.
        private func waitForArrival(of token: UInt8, _ rig: Rig) async throws {
            let digest = RecordDigest.ofToken(Array(repeating: token, count: 32))
            try await wait(for: "a push to \(token)", within: .seconds(60)) {
                try SimulatorRecord(path: rig.recordFiles[0]).events.contains { $0.tokenDigest == digest }
            }
        }

        @Test func `brings each call to the tenant's database, as the one who calls`() async throws {
            try await withStage { rig, stage in
                let (router, queues) = (stage.router, Self.queues)
                try rig.startWorker(database: "", ["--databases", stage.list])
                try #require(try await stage.refresh().code == 0)
                // Again, it changes nothing: what is called stays the same function.
                let functions =
                    "select string_agg(oid::text, ' ' order by oid) from pg_proc where pronamespace = 'pushq'::regnamespace"
                let made = try await router.psql(functions)
                try #require(try await stage.refresh().code == 0)
                #expect(try await router.psql(functions) == made)
                _ = try await router.psql(#"grant pushq_producer to shop, toys, "\#(Self.oddLogin)", nobody"#)

                // Each to its own database, which the identifiers tell; with each type that a payload may have.
                let root = try await router.psql(send(queues.acme, "a1"), as: "shop")
                #expect(try #require(Int64(root)) & 1023 == 0)
                #expect(try #require(Int64(try await router.psql(send(queues.beta, "b1"), as: "toys"))) & 1023 == 5)
                for (type, token) in [("json", "a2"), ("jsonb", "a3"), ("text", "a4")] {
                    _ = try await router.psql(
                        #"select pushq.send_many('\#(queues.acme)', array['{"aps":{"alert":"x"}}'::\#(type)], tokens => array[repeat('\#(token)', 32)])"#,
                        as: "shop")
                }
                _ = try await router.psql(
                    "select pushq.register_device('\(queues.beta)', repeat('b2', 32), user_key => 'me')",
                    #"select pushq.start_campaign('\#(queues.beta)', 'sale', '{"aps":{"alert":"x"}}')"#, as: "toys")
                for token: UInt8 in [0xA1, 0xB1, 0xA2, 0xA3, 0xA4, 0xB2] { try await waitForArrival(of: token, rig) }
                try await wait(for: "its outcome", within: .seconds(60)) {
                    try await router.psql(
                        "select delivered from pushq.status('\(queues.acme)', \(root))", as: "shop") == "1"
                }
                // A pooler's session is whoever it has become.
                _ = try await router.psql("set role toys", send(queues.beta, "b3"), as: "pooler")
                try await waitForArrival(of: 0xB3, rig)

                // What it costs: the caller's transaction takes nothing back.
                _ = try await router.psql("begin", send(queues.acme, "a5"), "rollback", as: "shop")
                try await waitForArrival(of: 0xA5, rig)

                // One database away: the other's tenants notice nothing, and what the router knew stays.
                try await stage.second.server.stop(.immediate)
                let refreshed = try await stage.refresh()
                #expect(
                    refreshed.code == 1 && refreshed.errors.contains("cannot be reached: database second"),
                    "\(refreshed)"
                )
                _ = try await router.psql(send(queues.acme, "a6"), as: "shop")
                try await waitForArrival(of: 0xA6, rig)
                #expect(
                    try await router.refusal(send(queues.beta, "b4"), as: "toys").contains("pushq.send(16): [second]"))
                try await stage.second.server.start()
                _ = try await router.psql(send(queues.beta, "b5"), as: "toys")
                try await waitForArrival(of: 0xB5, rig)

                // A tenant moves: its old place says so, and once the router was told, calls go to the new one.
                let moved = try await rig.admin(["tenant", "move", "acme", "--to", stage.second.url])
                #expect(moved.code == 0, "\(moved.errors)")
                #expect(
                    try await router.refusal(send(queues.acme, "a7"), as: "shop").contains(
                        "has moved to database second"))
                try #require(try await stage.refresh().code == 0)
                #expect(try #require(Int64(try await router.psql(send(queues.acme, "a8"), as: "shop"))) & 1023 == 5)
                try await waitForArrival(of: 0xA8, rig)

                // Back, and the router is told by the command itself: calls go there at once.
                func moveBack(_ router: Place) async throws -> Executable.Ended {
                    try await Executable.admin.run(
                        ["tenant", "move", "acme", "--to", stage.first.url, "--router", router.url],
                        environment: [
                            "PUSHQ_DATABASE_URL": stage.second.url,
                            "PUSHQ_MASTER_KEY": rig.masterKeys.first.hexadecimal,
                        ])
                }
                let refused = try await moveBack(stage.first)
                #expect(refused.code == 1 && refused.errors.contains("is not a router"), "\(refused)")
                let back = try await moveBack(router)
                #expect(back.code == 0 && !back.errors.contains("was not updated"), "\(back)")
                #expect(try #require(Int64(try await router.psql(send(queues.acme, "a9"), as: "shop"))) & 1023 == 0)
                try await waitForArrival(of: 0xA9, rig)
                #expect(try #require(Int64(try await router.psql(send(queues.beta, "b9"), as: "toys"))) & 1023 == 5)
            }
        }

        @Test func `lets nobody be anybody else`() async throws {
            try await withStage { rig, stage in
                let (router, queues) = (stage.router, Self.queues)
                try #require(try await stage.refresh().code == 0)
                _ = try await router.psql(#"grant pushq_producer to shop, toys, "\#(Self.oddLogin)", nobody"#)
                // A neighbour's queue is answered like one that is nowhere, wherever it is, whoever asks.
                for (login, queue) in [
                    ("shop", queues.beta), ("toys", queues.acme), ("nobody", queues.acme), ("pooler", queues.acme),
                    (TestServer.superuser, queues.acme),
                ] {
                    for queue in [queue, "zeta/com.zeta/sandbox", "", "/", "acme"] {
                        let call = "select pushq.cancel('\(queue)', 1)"
                        let refusal = try await router.refusal(call, as: login)
                        let isOwn = login == "shop" && queue == "acme"
                        #expect(
                            refusal.contains(
                                "ERROR:  \(isOwn ? "pushq.cancel(2): [\(rig.database)] REMOTE ERROR: " : "")there is no queue “\(queue)” · HINT"
                            ),
                            "\(login): \(refusal)")
                    }
                }
                #expect(
                    try await router.refusal("select pushq.cancel(null, 1)", as: "shop").contains("there is no queue"))

                // Who has a name that libpq could read as another one's stays who he is: and has no password here.
                let odd = try await router.refusal(send(queues.beta, "b1"), as: Self.oddLogin)
                #expect(odd.contains("no password supplied"), "\(odd)")
                #expect(try await stage.second.psql("select count(*) from pushq.job") == "0")

                // Producers see neither where databases are nor who may go where, and make no such functions.
                for statement in [
                    "select * from pushq_router.database", "select * from pushq_router.place",
                    "select pushq_router.place('\(queues.acme)')",
                    "create function pg_temp.f() returns text language plproxy as $$ connect 'user=pushq'; $$",
                    "create function pushq.f() returns int language sql as 'select 1'",
                    "create user mapping for shop server plproxy",
                ] {
                    let refusal = try await router.refusal(statement, as: "shop")
                    #expect(refusal.contains("permission denied") || refusal.contains("does not exist"), "\(refusal)")
                }
                // Settings of the session do not change how a name is written.
                #expect(
                    Int64(
                        try await router.psql(
                            "set standard_conforming_strings = off", "set search_path = pg_temp",
                            "create function pg_temp.format(text, variadic text[]) returns text language sql as 'select ''user=pushq'''",
                            send(queues.acme, "a1"), as: "shop")) != nil)

                // What is revoked is revoked at once, whatever the router knows.
                let revoked = try await Executable.admin.run(
                    ["tenant", "revoke", "beta", "toys"], environment: ["PUSHQ_DATABASE_URL": stage.second.url])
                try #require(revoked.code == 0)
                #expect(try await router.refusal(send(queues.beta, "b1"), as: "toys").contains("REMOTE ERROR"))
                try #require(try await stage.refresh().code == 0)
                #expect(
                    try await router.refusal(send(queues.beta, "b1"), as: "toys").contains(
                        "ERROR:  there is no queue “\(queues.beta)”"))

                // A login that is none of pushq's may not even ask.
                _ = try await router.psql("revoke pushq_producer from nobody")
                #expect(
                    try await router.refusal(send(queues.acme, "a1"), as: "nobody").contains(
                        "permission denied for schema pushq"))
                // The secrets are in the file alone.
                #expect(
                    !(try await router.psql("select string_agg(connection, ' ') from pushq_router.database").contains(
                        "key of")))
            }
        }

        @Test func `has every function that producers have`() async throws {
            try await withStage { _, stage in
                try #require(try await stage.refresh().code == 0)
                let names = { (condition: String) in
                    """
                    select string_agg(distinct p.proname || ':' || coalesce(array_to_string(p.proargnames[1:p.pronargs], ','), ''), ' ')
                    from pg_proc p where p.pronamespace = 'pushq'::regnamespace and \(condition)
                    """
                }
                let granted = "p.prosecdef and has_function_privilege('pushq_producer', p.oid, 'execute')"
                let ofProducers = Set(try await stage.first.psql(names(granted)).split(separator: " "))
                let ofRouter = Set(try await stage.router.psql(names("true")).split(separator: " "))
                #expect(
                    ofProducers.count > 50 && ofProducers.isSubset(of: ofRouter), "\(ofProducers.subtracting(ofRouter))"
                )
                // Those that name a queue go on; the others say what to do instead.
                let passedOn = try await stage.router.psql(
                    names("p.prolang = (select l.oid from pg_language l where l.lanname = 'plproxy')"))
                #expect(
                    Set(passedOn.split(separator: " ")).intersection(ofProducers)
                        == ofProducers.filter { $0.contains(/:queue(,|$)/) })
                _ = try await stage.router.psql("grant pushq_producer to shop")
                #expect(
                    try await stage.router.refusal("select pushq.show_statistics('acme', 1)", as: "shop").contains(
                        "a router has no pushq.show_statistics, which names no queue"))
                // What a default depends on is decided in the database: the clock, above all.
                let computed = try await stage.router.psql(
                    names("pg_get_function_arguments(p.oid) like '%()%'"))
                #expect(computed == "")

                // What leaves it undecided where a call goes makes no router, and neither does a database of pushq.
                let run = { (arguments: [String]) in try await Executable.admin.run(["router"] + arguments) }
                let (first, second) = (stage.first, stage.second)
                try await second.server.createDatabase("third")
                let third = Place(server: second.server, database: "third")
                let migrated = try await Executable.admin.run(
                    ["migrate"], environment: ["PUSHQ_DATABASE_URL": third.url])
                try #require(migrated.code == 0)
                let alike = try await run(["--database-url", first.url, "--database-url", third.url])
                expectFailure(alike, code: 1, saying: "both have the number 0")
                let service = try await run(["--database-url", "service=pushq \(first.url)"])
                #expect(service.code != 0 && service.output.isEmpty, "\(service)")
                let script = try await run(["--database-url", first.url])
                let intoPushq = first.server.shell(
                    #"printf '%s' "$SCRIPT" | psql -Xqd "$DATABASE" -v ON_ERROR_STOP=1"#,
                    ["SCRIPT": script.output, "DATABASE": first.database])
                await #expect(throws: (any Error).self) { try await intoPushq.run() }
                #expect(try await first.psql("select count(*) from pg_namespace where nspname = 'pushq_router'") == "0")
            }
        }
    }
}

private func hasProxy() async throws -> Bool {
    let sql = "select count(*) from pg_available_extensions where name = 'plproxy'"
    return try await TestServer.shared().client("psql", ["-XAtd", "postgres", "-c", sql]).run().hasPrefix("1")
}
