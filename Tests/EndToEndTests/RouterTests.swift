import APNsSimulator
import Foundation
import LocalStack
import PostgresStore
import QueueCore
import TestSupport
import Testing

extension `Real processes with several databases` {
    /// Two databases that require a password of every producer, and a router on a third server that has the passwords
    /// in a file.
    @Suite(.enabled("PL/Proxy is not installed: scripts/setup --tests installs it") { try await hasProxy() })
    struct `A router for producers of two databases` {
        private static let queues = (acme: "acme/com.acme/sandbox", beta: "beta/com.beta/sandbox")
        /// A login name that libpq would read as another user if it were not quoted.
        private static let oddLogin = "odd user=pushq"

        /// A server and one of its databases.
        private struct Place: Sendable {
            let server: PrivatePostgres
            let database: String

            var url: String { server.connectionString(database: database) }

            /// Runs statements in one session of a login, each in a transaction of its own.
            func psql(_ statements: String..., as login: String = TestServer.superuser) async throws -> String {
                let commands = statements.flatMap { ["-c", $0] }
                return try await server.client("psql", ["-XqAtd", database, "-U", login] + commands).run()
                    .trimmingCharacters(in: .whitespacesAndNewlines)
            }

            /// Returns the error of a statement, without the lines that give its position.
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

            /// Creates or updates the router. Returns how the command ended.
            @discardableResult
            func refresh() async throws -> Executable.Ended {
                let made = try await ask()
                if !made.output.isEmpty { try await apply(made.output) }
                return made
            }

            /// Asks the databases, and makes the script for the router.
            func ask() async throws -> Executable.Ended {
                try await Executable.admin.run([
                    "router", "--databases", list, "--passfile", "\(router.server.socketFolder)/passwords",
                ])
            }

            func apply(_ script: String) async throws {
                _ = try await router.server.shell(
                    #"printf '%s' "$SCRIPT" | psql -Xqd router -v ON_ERROR_STOP=1"#, ["SCRIPT": script]
                ).run()
            }
        }

        /// Makes the server require passwords of all logins but the superuser and workers.
        private func askForPasswords(_ server: PrivatePostgres) async throws {
            try await server.shell(
                """
                printf '%s\\n' 'local all pushq,\(TestServer.workerLogin) trust' 'local all all scram-sha-256' > "$PGDATA/pg_hba.conf"
                psql -Xqd postgres -c 'select pg_reload_conf()' -c "create role shop login password 'key of shop'" \
                  -c "create role toys login password 'key of toys'" -c 'create role "\(Self.oddLogin)" login'
                """
            ).run()
        }

        /// Runs `body` with both databases, a worker for them, and a router that is not created yet.
        private func withStage(_ body: @escaping @Sendable (Rig, Stage) async throws -> Void) async throws {
            let reaper = try Reaper()
            let server = try await PrivatePostgres.start(reaper: reaper)
            var settings = Rig.Settings()
            settings.devices = 1
            settings.hasNeighbour = true
            try await Rig.run(on: server, settings) { _, rig in
                let first = Place(server: server, database: rig.database)
                let second = Place(server: try await .start(reaper: rig.reaper), database: "second")
                let router = Place(server: try await .start(reaper: rig.reaper), database: "router")
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
                // The neighbour moves to the second database, with its devices.
                for arguments in [
                    ["tenant", "grant", "acme", "shop"], ["tenant", "grant", "beta", "toys"],
                    ["tenant", "grant", "beta", Self.oddLogin], ["tenant", "move", "beta", "--to", second.url],
                ] {
                    let ended = try await rig.admin(arguments)
                    try #require(ended.code == 0, "\(ended.errors)")
                }
                try await body(rig, stage)
            }
            await reaper.end()
        }

        /// `token` is one byte, which is repeated to make the token.
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
                // Creating the router again changes nothing: the functions keep their identity.
                let functions =
                    "select string_agg(oid::text, ' ' order by oid) from pg_proc where pronamespace = 'pushq'::regnamespace"
                let made = try await router.psql(functions)
                try #require(try await stage.refresh().code == 0)
                #expect(try await router.psql(functions) == made)
                _ = try await router.psql(#"grant pushq_producer to shop, toys, "\#(Self.oddLogin)", nobody"#)

                // Each call reaches its own database, as the identifiers show, with each type that a payload may have.
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
                // A pooler's session acts as the role that it has set.
                _ = try await router.psql("set role toys", send(queues.beta, "b3"), as: "pooler")
                try await waitForArrival(of: 0xB3, rig)

                // The cost of a router: a rollback of the caller's transaction does not undo the call.
                _ = try await router.psql("begin", send(queues.acme, "a5"), "rollback", as: "shop")
                try await waitForArrival(of: 0xA5, rig)

                // One database is away: the other's tenants notice nothing, and the router keeps what it knew.
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

                // A tenant moves. Its old database says so, and after an update of the router, calls go to the new one.
                let moved = try await rig.admin(["tenant", "move", "acme", "--to", stage.second.url])
                #expect(moved.code == 0, "\(moved.errors)")
                #expect(
                    try await router.refusal(send(queues.acme, "a7"), as: "shop").contains(
                        "has moved to database second"))
                try #require(try await stage.refresh().code == 0)
                #expect(try #require(Int64(try await router.psql(send(queues.acme, "a8"), as: "shop"))) & 1023 == 5)
                try await waitForArrival(of: 0xA8, rig)

                // The tenant moves back. The move command itself updates the router, so calls go there at once.
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

        @Test func `keeps what it was told of a move after the databases were asked`() async throws {
            try await withStage { rig, stage in
                let router = stage.router
                try #require(try await stage.refresh().code == 0)
                // A router of an earlier version.
                _ = try await router.psql("alter table pushq_router.place drop told_at")
                try #require(try await stage.refresh().code == 0)
                let asked = try await stage.ask()
                try #require(asked.code == 0, "\(asked.errors)")
                let moved = try await rig.admin([
                    "tenant", "move", "acme", "--to", stage.second.url, "--router", router.url,
                ])
                #expect(moved.code == 0 && !moved.errors.contains("was not updated"), "\(moved.errors)")
                let place = "select distinct database from pushq_router.place where tenant = 'acme'"
                // However long the command took after that.
                _ = try await router.psql("update pushq_router.place set told_at = now() where told_at is not null")
                try await stage.apply(asked.output)
                #expect(try await router.psql(place) == "5")

                // The databases decide again once the move is longer ago than their answer.
                let later = "update pushq_router.place set told_at = told_at - interval '1 hour'"
                _ = try await router.psql(later)
                try await stage.apply(asked.output)
                #expect(try await router.psql(place) == "0")
                try #require(try await stage.refresh().code == 0)
                #expect(try await router.psql(place) == "5")
            }
        }

        @Test func `keeps what it knows of tenants whose place nobody can tell, and follows the others`() async throws {
            try await withStage { rig, stage in
                let (router, queues) = (stage.router, Self.queues)
                // How a database shows names and bytes does not make it different from the other.
                for setting in ["quote_all_identifiers = on", "bytea_output = 'escape'"] {
                    _ = try await stage.first.psql("alter database \"\(stage.first.database)\" set \(setting)")
                }
                let made = try await stage.refresh()
                try #require(made.code == 0, "\(made.errors)")
                _ = try await router.psql("grant pushq_producer to shop, toys")

                // A tenant that has moved to a database that cannot be asked. Its old one knows that it has moved.
                let moved = try await rig.admin(["tenant", "move", "acme", "--to", stage.second.url])
                try #require(moved.code == 0, "\(moved.errors)")
                try await stage.second.server.stop(.immediate)
                #expect(try await stage.refresh().errors.contains("cannot be reached: database second"))
                #expect(
                    try await router.refusal(send(queues.acme, "a1"), as: "shop").contains(
                        "has moved to database second"))
                try await stage.second.server.start()
                try #require(try await stage.refresh().code == 0)
                #expect(try #require(Int64(try await router.psql(send(queues.acme, "a2"), as: "shop"))) & 1023 == 5)

                // A tenant that is in both databases, as after a restore, and a new one.
                for place in [stage.first, stage.second] {
                    for arguments in [["tenant", "create", "gamma"], ["tenant", "grant", "gamma", "toys"]] {
                        let ended = try await Executable.admin.run(
                            arguments, environment: ["PUSHQ_DATABASE_URL": place.url])
                        try #require(ended.code == 0, "\(ended.errors)")
                    }
                }
                for arguments in [
                    ["tenant", "create", "delta"], ["app", "create", "delta", "com.delta"],
                    ["queue", "create", "delta/com.delta/sandbox"], ["tenant", "grant", "delta", "shop"],
                ] {
                    let ended = try await rig.admin(arguments)
                    try #require(ended.code == 0, "\(ended.errors)")
                }
                let doubled = try await stage.refresh()
                #expect(
                    doubled.code == 1
                        && doubled.errors.contains(
                            "gamma is in database \(rig.database)")
                        && doubled.errors.contains(" and in database second"),
                    "\(doubled.errors)")
                #expect(
                    try #require(Int64(try await router.psql(send("delta/com.delta/sandbox", "d1"), as: "shop"))) & 1023
                        == 0)
                #expect(try #require(Int64(try await router.psql(send(queues.acme, "a3"), as: "shop"))) & 1023 == 5)
                #expect(try await router.psql("select count(*) from pushq_router.place where tenant = 'gamma'") == "0")
            }
        }

        /// The timer updates the router each minute, and a call may take longer.
        @Test func `is updated while a call is under way, and no other call waits for that`() async throws {
            try await withStage { _, stage in
                let (router, queues) = (stage.router, Self.queues)
                try #require(try await stage.refresh().code == 0)
                _ = try await router.psql("grant pushq_producer to shop, toys")
                let call = send(queues.acme, "a1")
                let underWay = Task {
                    try? await router.psql("begin", call, "select pg_sleep(600)", as: "shop")
                }
                let sleeping = "from pg_stat_activity where usename = 'shop' and wait_event = 'PgSleep'"
                try await wait(for: "the call", within: .seconds(60)) {
                    try await router.psql("select count(*) \(sleeping)") == "1"
                }
                #expect(try await stage.refresh().code == 0)
                #expect(Int64(try await router.psql(send(queues.acme, "a2"), as: "shop")) != nil)
                // The call was under way all the time.
                #expect(try await router.psql("select pg_terminate_backend(pid) \(sleeping)") == "t")
                _ = await underWay.value

                // Whatever another program holds, an update does not make calls wait for long.
                let lock = "lock table pushq_router.place in share mode"
                let holder = Task { try? await router.psql("begin", lock, "select pg_sleep(600)") }
                let holding = "from pg_stat_activity where query like '%pg_sleep(600)' and wait_event = 'PgSleep'"
                try await wait(for: "the lock", within: .seconds(60)) {
                    try await router.psql("select count(*) \(holding)") == "1"
                }
                await #expect(throws: (any Error).self) { try await stage.refresh() }
                #expect(try await router.psql("select pg_terminate_backend(pid) \(holding)") == "t")
                _ = await holder.value
                #expect(try await stage.refresh().code == 0)
            }
        }

        @Test func `lets nobody be anybody else`() async throws {
            try await withStage { rig, stage in
                let (router, queues) = (stage.router, Self.queues)
                try #require(try await stage.refresh().code == 0)
                _ = try await router.psql(#"grant pushq_producer to shop, toys, "\#(Self.oddLogin)", nobody"#)
                // A neighbour's queue gets the same answer as one that does not exist, wherever it is and whichever
                // login asks.
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
                    try await router.refusal("select pushq.cancel(null, 1)", as: "shop").contains("none is named"))

                // A login whose name libpq could read as another one's keeps its identity, and has no password here.
                let odd = try await router.refusal(send(queues.beta, "b1"), as: Self.oddLogin)
                #expect(odd.contains("no password supplied"), "\(odd)")
                #expect(try await stage.second.psql("select count(*) from pushq.job") == "0")

                // Producers see neither the databases nor the other logins' rights, and cannot create such functions.
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
                // Settings of the session do not change how a name is quoted.
                #expect(
                    Int64(
                        try await router.psql(
                            "set standard_conforming_strings = off", "set search_path = pg_temp",
                            "create function pg_temp.format(text, variadic text[]) returns text language sql as 'select ''user=pushq'''",
                            send(queues.acme, "a1"), as: "shop")) != nil)

                // A revoked right is gone at once, whatever the router knows.
                let revoked = try await Executable.admin.run(
                    ["tenant", "revoke", "beta", "toys"], environment: ["PUSHQ_DATABASE_URL": stage.second.url])
                try #require(revoked.code == 0)
                #expect(try await router.refusal(send(queues.beta, "b1"), as: "toys").contains("REMOTE ERROR"))
                try #require(try await stage.refresh().code == 0)
                #expect(
                    try await router.refusal(send(queues.beta, "b1"), as: "toys").contains(
                        "ERROR:  there is no queue “\(queues.beta)”"))

                // A login without pushq's roles may not call the router at all.
                _ = try await router.psql("revoke pushq_producer from nobody")
                #expect(
                    try await router.refusal(send(queues.acme, "a1"), as: "nobody").contains(
                        "permission denied for schema pushq"))
                // Only the file contains the passwords.
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
                // Functions that name a queue are passed on. The others say what to do instead.
                let passedOn = try await stage.router.psql(
                    names("p.prolang = (select l.oid from pg_language l where l.lanname = 'plproxy')"))
                #expect(
                    Set(passedOn.split(separator: " ")).intersection(ofProducers)
                        == ofProducers.filter { $0.contains(/:queue(,|$)/) })
                _ = try await stage.router.psql("grant pushq_producer to shop")
                #expect(
                    try await stage.router.refusal("select pushq.show_statistics('acme', 1)", as: "shop").contains(
                        "a router has no pushq.show_statistics, which names no queue"))
                #expect(
                    try await stage.router.refusal("select pushq.show_schedules(null, null, 1)", as: "shop").contains(
                        "a router answers calls about one queue, and none is named"))
                // Defaults that depend on something, above all the clock, are computed in the database.
                let computed = try await stage.router.psql(
                    names("pg_get_function_arguments(p.oid) like '%()%'"))
                #expect(computed == "")

                // The command refuses databases between which a call is ambiguous, and a database of pushq as the
                // router.
                let run = { (arguments: [String]) in try await Executable.admin.run(["router"] + arguments) }
                let (first, second) = (stage.first, stage.second)
                try await second.server.createDatabase("third")
                let third = Place(server: second.server, database: "third")
                let migrated = try await Executable.admin.run(
                    ["migrate"], environment: ["PUSHQ_DATABASE_URL": third.url])
                try #require(migrated.code == 0)
                let alike = try await run(["--database-url", first.url, "--database-url", third.url])
                expectFailure(alike, code: 1, saying: "both have the number 0")
                let alias = first.url.replacing("host='/", with: "host='//")
                let twice = try await run(["--database-url", first.url, "--database-url", alias])
                expectFailure(twice, code: 1, saying: ", under another address: name it once")
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
