import Foundation
import LocalStack
import PostgresStore
import QueueCore
import TestSupport
import Testing

extension `Real processes with several databases` {
    /// Two databases on separate servers, with different tenants and one signing key.
    @Suite struct `A worker for several databases` {
        /// The second database, which an operator has set up.
        private struct Other {
            static let queue = "gamma/com.gamma/sandbox"

            let server: PrivatePostgres
            let environment: [String: String]

            init(beside rig: Rig) async throws {
                server = try await PrivatePostgres.start(reaper: rig.reaper)
                try await server.createDatabase("other")
                environment = [
                    "PUSHQ_DATABASE_URL": server.connectionString(database: "other"),
                    "PUSHQ_MASTER_KEY": rig.masterKeys.first.hexadecimal,
                ]
                let ready = rig.simulator.ready
                for command in [
                    ["migrate", "--database-number", "5"], ["tenant", "create", "gamma"],
                    ["app", "create", "gamma", "com.gamma"], ["queue", "create", Self.queue],
                    [
                        "credential", "add", "gamma", "main", "--p8", ready.signingKey, "--team-id", ready.teamID,
                        "--key-id", ready.keyID,
                    ],
                ] {
                    let ended = try await Executable.admin.run(command, environment: environment)
                    try #require(ended.code == 0, "\(command): \(ended.errors)")
                }
                for options in [[], ["--dry-run"]] {
                    let late = try await Executable.admin.run(
                        ["migrate", "--database-number", "6"] + options, environment: environment)
                    #expect(late.code == 1 && late.output == "the schema is up to date\n", "\(late)")
                    #expect(late.errors.contains("the number 5 of this database cannot be changed"), "\(late)")
                }
            }

            /// Sends to a new device, and returns the identifier of the send.
            func send(_ token: String) async throws -> Int64 { try await root(psql(Query.send(Self.queue, token))) }

            /// The stored provider tokens.
            func tokens() async throws -> String { try await psql(Query.storedTokens) }

            func psql(_ sql: String) async throws -> String {
                try await server.client("psql", ["-qAtd", "other", "-c", sql]).run()
                    .trimmingCharacters(in: .whitespacesAndNewlines)
            }

            private func root(_ text: String) throws -> Int64 { try #require(Int64(text)) }
        }

        private enum Query {
            static let storedTokens = "select string_agg(encode(sealed, 'hex'), ' ') from pushq.provider_token"

            static func send(_ queue: String, _ token: String) -> String {
                #"select pushq.send('\#(queue)', '{"aps":{"alert":"x"}}', tokens => array['\#(token)'])"#
            }
        }

        /// Runs `body` with both databases, the URL of the first, and a file for their list.
        private func withTwoDatabases(
            _ body:
                @escaping @Sendable (_ rig: Rig, _ other: Other, _ first: String, _ list: String) async throws -> Void
        ) async throws {
            let reaper = try Reaper()
            let server = try await PrivatePostgres.start(reaper: reaper)
            var settings = Rig.Settings()
            settings.devices = 1
            try await Rig.run(on: server, settings) { _, rig in
                let first = rig.postgres.connectionString(database: rig.database, user: TestServer.workerLogin)
                try await body(rig, Other(beside: rig), first, "\(rig.folder)/databases")
            }
            await reaper.end()
        }

        private func send(_ token: String, in rig: Rig) async throws -> Int64 {
            try await rig.number(Query.send("\(rig.queue)", token))
        }

        private func waitForArrival(of root: Int64, _ rig: Rig) async throws {
            try await wait(for: "the push of send \(root)", within: .seconds(90)) {
                try PushRecord(files: rig.recordFiles).pushes.keys.contains { $0.root == root }
            }
        }

        private func tokens(in rig: Rig) async throws -> String {
            let rows = try await rig.store.current().execute(
                Statement("tokens", "select (\(Query.storedTokens)) as tokens"))
            return try rows.one().optionalText("tokens") ?? ""
        }

        @Test func `serves each while another is away, with one provider token for all`() async throws {
            try await withTwoDatabases { rig, other, first, list in
                // The other database is first in the list, so it keeps the tokens.
                try "# where tenants are\n\n\(other.environment["PUSHQ_DATABASE_URL"]!)\n\(first)\n".write(
                    toFile: list, atomically: true, encoding: .utf8)
                // The state after one of them was restored to a time before a move.
                _ = try await other.psql("insert into pushq.tenant (name) values ('acme')")
                let worker = try rig.startWorker(database: "", ["--databases", list])
                try await worker.says("tenant_in_two_databases")
                let roots = (try await send("aa", in: rig), try await other.send("aa"))
                try await waitForArrival(of: roots.0, rig)
                try await waitForArrival(of: roots.1, rig)
                #expect((roots.0 & 1023, roots.1 & 1023) == (0, 5))
                let token = try await other.tokens()
                #expect(!token.isEmpty && !token.contains(" "))
                #expect(try await tokens(in: rig) == token)

                // One of the databases dies. Only its own tenants wait. Pushes without an outcome would be sent again.
                let ended = "select count(*) from pushq.result"
                try await wait(for: "the other's outcome", within: .seconds(60), { try await other.psql(ended) }) {
                    $0 == "1"
                }
                try await other.server.stop(.immediate)
                try await worker.says("database other")
                try await worker.says("PostgreSQL is out of reach")
                try await waitForArrival(of: try await send("bb", in: rig), rig)
                // A worker that starts meanwhile does not wait either.
                try await wait(for: "two outcomes", within: .seconds(60), { try await rig.number(ended) }) { $0 == 2 }
                await worker.kill()
                let next = try rig.startWorker(database: "", ["--databases", list, "--drain", "3s"])
                try await next.says("cannot be used, trying again")
                try await waitForArrival(of: try await send("cc", in: rig), rig)
                #expect(try await tokens(in: rig) == token, "the copy goes on")

                try await other.server.start()
                try await waitForArrival(of: try await other.send("dd"), rig)
                #expect(try await other.tokens() == token)
                let arrivals = try PushRecord(files: rig.recordFiles).pushes.values
                #expect(arrivals.count == 5 && arrivals.allSatisfy { $0.count == 1 })

                // The worker exits cleanly, although it cannot reach one of the databases.
                try await other.server.stop(.immediate)
                #expect(await next.drain() == .code(0), "\(next.log)")
            }
        }

        @Test func `goes on with the others where a migration in one of them stops older workers, and waits there`()
            async throws
        {
            try await withTwoDatabases { rig, other, first, list in
                try "\(first)\n\(other.environment["PUSHQ_DATABASE_URL"]!)\n".write(
                    toFile: list, atomically: true, encoding: .utf8)
                let worker = try rig.startWorker(database: "", ["--databases", list])
                try await waitForArrival(of: try await other.send("aa"), rig)
                _ = try await other.psql(
                    "insert into pushq.migration (version, name, checksum, stops_older_workers) "
                        + "values (9001, '9001_stop', sha256(''), true)")
                // With its next heartbeat, the worker learns of it.
                try await worker.says(
                    "cannot be used, trying again: this worker is older than the schema, and migration 9001_stop stops",
                    within: .seconds(60))
                let lines = worker.log.split(separator: "\n").filter { $0.contains("store_unavailable") }
                #expect(lines.allSatisfy { $0.contains("database other") }, "\(lines)")
                let waiting = try await other.send("bb")
                try await waitForArrival(of: try await send("bb", in: rig), rig)

                _ = try await other.psql("delete from pushq.migration where version = 9001")
                try await waitForArrival(of: waiting, rig)
                #expect(await worker.drain() == .code(0), "\(worker.log)")
            }
        }

        @Test func `names a database that its list has under two addresses, and no tenant in two databases`()
            async throws
        {
            try await withTwoDatabases { rig, _, _, list in
                let first = rig.postgres.connectionString(database: rig.database)
                let folder = String(try #require(first.firstMatch(of: /host='([^']+)'/)).output.1)
                let alias = "\(rig.folder)/alias"
                try FileManager.default.createSymbolicLink(atPath: alias, withDestinationPath: folder)
                let second = first.replacingOccurrences(of: folder, with: alias)
                try "\u{FEFF}\(first)\n\(second)\n".write(toFile: list, atomically: true, encoding: .utf8)
                let shown = try await Executable.admin.run(
                    ["tenant", "where", "--databases", list], environment: [:])
                #expect(shown.code == 1 && shown.output.split(separator: "\n").count == 2, "\(shown.output)")
                #expect(shown.errors.hasSuffix("under another address: name it once\n"), "\(shown.errors)")
                #expect(!shown.errors.contains("suspend"))
                let worker = try rig.startWorker(database: "", ["--databases", list])
                try await worker.says("database_named_twice")
                try await waitForArrival(of: try await send("aa", in: rig), rig)
                #expect(!worker.log.contains("tenant_in_two_databases"))
                #expect(await worker.drain() == .code(0), "\(worker.log)")
            }
        }

        @Test func `follows its list while it runs`() async throws {
            try await withTwoDatabases { rig, other, first, list in
                let second = other.environment["PUSHQ_DATABASE_URL"]!
                let write = { (lines: [String]) in
                    try lines.joined(separator: "\n").write(toFile: list, atomically: true, encoding: .utf8)
                }
                let changes = { (worker: WorkerProcess) in
                    worker.log.components(separatedBy: #""event":"databases_changed""#).count - 1
                }
                try write([first])
                let worker = try rig.startWorker(database: "", ["--databases", list, "--connections", "8"])
                try await waitForArrival(of: try await send("aa", in: rig), rig)
                let waiting = try await other.send("aa")

                // The worker may read the file half written. A list that is there only for a moment does not count.
                try write([first, second])
                try await worker.says("database other")
                try await waitForArrival(of: waiting, rig)
                #expect(changes(worker) == 1)

                // A mistake is reported once, with its line, and the worker goes on.
                try write([first, "postgres://x:s3cret@h:port:9/db?nonsense=1"])
                try await worker.says("line 2: ")
                for (count, token) in ["bb", "cc", "dd"].enumerated() {
                    worker.process.signal(SIGHUP)
                    try await waitForArrival(of: try await other.send(token), rig)
                    #expect(worker.log.components(separatedBy: "databases_refused").count == 2, "look \(count)")
                }
                #expect(!worker.log.contains("s3cret"))

                // The database is removed from the list while one push is in flight and one waits. The first is
                // answered; the other stays.
                let ended = "select count(*) from pushq.result"
                try await wait(for: "four outcomes", within: .seconds(60), { try await other.psql(ended) }) {
                    $0 == "4"
                }
                try write([first])
                worker.process.signal(SIGHUP)
                try await worker.says("is removed and drained")
                try await wait(
                    for: "its worker's row to go", within: .seconds(60),
                    { try await other.psql("select count(*) from pushq.worker") }
                ) { $0 == "0" }
                #expect(try await other.psql("select count(*) from pushq.lease") == "0")
                let kept = try await other.send("ee")
                try await waitForArrival(of: try await send("bb", in: rig), rig)
                #expect(try await other.psql("select count(*) from pushq.job") == "1", "nobody serves it")

                // The database comes back at the head of the list, and then keeps the tokens.
                try write([second, first])
                worker.process.signal(SIGHUP)
                try await waitForArrival(of: kept, rig)
                try await waitForArrival(of: try await send("cc", in: rig), rig)
                #expect(try await tokens(in: rig) == other.tokens())
                #expect(!(try await other.tokens().contains(" ")), "one signer, one token")

                // A missing list is a mistake, too.
                try FileManager.default.removeItem(atPath: list)
                worker.process.signal(SIGHUP)
                try await worker.says("there is no such file")
                try await waitForArrival(of: try await send("dd", in: rig), rig)
                let arrivals = try PushRecord(files: rig.recordFiles).pushes.values
                #expect(arrivals.count == 9 && arrivals.allSatisfy { $0.count == 1 })
                #expect(await worker.drain() == .code(0), "\(worker.log)")
            }
        }

        @Test func `warns when its list names another server that nothing verifies, and does not repeat it`()
            async throws
        {
            try await withTwoDatabases { rig, _, first, list in
                let write = { (lines: [String]) in
                    try lines.joined(separator: "\n").write(toFile: list, atomically: true, encoding: .utf8)
                }
                let count = { (event: String, worker: WorkerProcess) in
                    worker.log.components(separatedBy: "\"event\":\"\(event)\"").count - 1
                }
                try write([first])
                let worker = try rig.startWorker(database: "", ["--databases", list])
                try await waitForArrival(of: try await send("aa", in: rig), rig)
                #expect(count("server_unverified", worker) == 0)

                try write([first, "postgresql://x@no.such.host.invalid/x"])
                worker.process.signal(SIGHUP)
                try await worker.says("whoever is on the way to no.such.host.invalid can pose as the database")
                try await wait(for: "the change", within: .seconds(60)) { count("databases_changed", worker) == 1 }
                // Another database of the same server.
                try write([first, "postgresql://x@no.such.host.invalid/x", "postgresql://x@no.such.host.invalid/y"])
                worker.process.signal(SIGHUP)
                try await wait(for: "the next", within: .seconds(60)) { count("databases_changed", worker) == 2 }
                #expect(count("server_unverified", worker) == 1)
                #expect(await worker.drain() == .code(0), "\(worker.log)")
            }
        }

        @Test func `says which line of its file is wrong, and never what is in it`() async throws {
            let folder = FileManager.default.temporaryDirectory.appending(path: "pushq-\(UUID().uuidString)").path
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
            defer { try? FileManager.default.removeItem(atPath: folder) }
            for (text, problem) in [
                ("# none\n", "names no database"), ("postgres://a:99999/b", "line 1: "),
                ("postgres://a/b?sslmode=s3cret", "not valid: invalid sslmode value: \"…\""),
                ("postgres://a/b?target_session_attrs=s3cret", "target_session_attrs is none of any, read-write"),
                ("postgres://a/b # the first", "line 1: a comment"),
                ("postgres://a/b\n\npostgres://x:s3cret@h:port:9/db?nonsense=1", "line 3: "),
                ("host=a dbname=b user=u\nhost=a user=u dbname=b password=s3cret", "is named twice"),
            ] {
                let list = "\(folder)/databases"
                try text.write(toFile: list, atomically: true, encoding: .utf8)
                let ended = try await Executable.pushq.run(["work", "--databases", list], environment: [:])
                #expect(ended.code != 0 && ended.errors.contains(problem), "\(ended.errors)")
                #expect(!ended.errors.contains("s3cret"))
            }
        }
    }
}
