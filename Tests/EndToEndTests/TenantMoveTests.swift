import Foundation
import Glibc
import LocalStack
import PostgresStore
import QueueCore
import TestSupport
import Testing

extension `Real processes of tenants that move` {
    /// Two servers, workers for both, a campaign and single sends under way, and a mover that is killed again and
    /// again.
    @Suite struct `Moving a tenant that a worker serves` {
        private static let devices = 6000

        /// The destination database.
        private struct Other {
            let server: PrivatePostgres
            let url: String

            init(beside rig: Rig) async throws {
                server = try await PrivatePostgres.start(reaper: rig.reaper)
                try await server.createDatabase("other")
                url = server.connectionString(database: "other")
                let made = try await Executable.admin.run(
                    ["migrate", "--database-number", "5"], environment: ["PUSHQ_DATABASE_URL": url])
                try #require(made.code == 0, "\(made.errors)")
            }

            func psql(_ sql: String) async throws -> String { try await Self.psql(sql, server, "other") }

            static func psql(_ sql: String, _ server: PrivatePostgres, _ database: String) async throws -> String {
                try await server.client("psql", ["-XqAtd", database, "-v", "VERBOSITY=terse", "-c", sql]).run()
                    .trimmingCharacters(in: .whitespacesAndNewlines)
            }
        }

        /// A producer that sends one push after the other, and changes the database when an error tells it to. It ends
        /// when it is cancelled.
        private actor Producer {
            private(set) var sent = 0
            /// The errors with which it was refused, without the statement.
            private(set) var refused: Set<String> = []
            private var isAtOther = false

            func run(queue: String, at first: PrivatePostgres, _ database: String, _ other: Other) async {
                while !Task.isCancelled {
                    let number = String(0xA0000 + sent, radix: 16)
                    let token = String(repeating: "0", count: 64 - number.count) + number
                    let send = """
                        select pushq.send('\(queue)', '{"aps":{"alert":"x"}}', key => 'order-\(sent)',
                                          tokens => array['\(token)'])
                        """
                    do {
                        let server = isAtOther ? other.server : first
                        _ = try await Other.psql(send, server, isAtOther ? "other" : database)
                        sent += 1
                    } catch {
                        let text = "\(error)"
                        refused.insert(text)
                        if text.contains("has moved to") { isAtOther.toggle() }
                    }
                    try? await Task.sleep(for: .milliseconds(50))
                }
            }
        }

        /// Starts a move with `--json`, and writes its output and errors to files.
        private func startMove(_ rig: Rig, _ other: Other, number: Int) throws -> ChildProcess {
            try rig.reaper.start(
                Executable.admin.command(
                    ["tenant", "move", "acme", "--to", other.url, "--json"], environment: environment(rig),
                    output: "\(rig.folder)/move-\(number).out", errors: "\(rig.folder)/move-\(number).log"))
        }

        private func environment(_ rig: Rig, at url: String? = nil) -> [String: String] {
            [
                "PUSHQ_DATABASE_URL": url ?? rig.postgres.connectionString(database: rig.database),
                "PUSHQ_MASTER_KEY": rig.masterKeys.first.hexadecimal,
            ]
        }

        /// The names of an object's members, as docs/json.md promises them.
        private func members(_ json: String) throws -> [String] {
            let object = try JSONSerialization.jsonObject(with: Data(json.utf8)) as? [String: Any]
            return (object ?? [:]).keys.sorted()
        }

        /// The state of a tenant by database number, according to `tenant where`; and the command's errors if it fails.
        private func place(
            of tenant: String = "acme", list: String
        ) async throws -> (states: [Int: String], errors: String) {
            struct Line: Decodable {
                let state: String
                let number: Int
            }
            let result = try await Executable.admin.run(
                ["tenant", "where", tenant, "--databases", list, "--json"], environment: [:])
            let lines =
                result.output.isEmpty ? [] : try JSONDecoder().decode([Line].self, from: Data(result.output.utf8))
            return (Dictionary(uniqueKeysWithValues: lines.map { ($0.number, $0.state) }), result.errors)
        }

        private func stage(_ rig: Rig) async throws -> String {
            try await Other.psql("select stage from pushq.tenant_move", rig.postgres, rig.database)
        }

        /// Starts a move that waits for a lock, kills it there, and releases the lock.
        private func kill(
            _ rig: Rig, _ other: Other, number: Int, holding sql: String, at server: PrivatePostgres,
            _ database: String,
            when isThere: () async throws -> Bool
        ) async throws {
            // The holder is idle in its transaction. A running statement would have a snapshot, and the move would wait
            // for it.
            let holder = try rig.reaper.start(
                server.client(
                    "psql",
                    [
                        "-Xqd", database, "-c", "set application_name = 'holder'", "-c", "begin", "-c", sql, "-c",
                        "\\! exec tail --pid=$PPID -f /dev/null",
                    ]))
            try await eventually("the lock is held", within: .seconds(60)) {
                try await Other.psql(
                    "select count(*) from pg_stat_activity where application_name = 'holder' and state = 'idle in transaction'",
                    server, database) == "1"
            }
            let move = try startMove(rig, other, number: number)
            try await eventually("the move is there", within: .seconds(60)) {
                if let exit = move.exit {
                    let log = try String(contentsOfFile: "\(rig.folder)/move-\(number).log", encoding: .utf8)
                    throw NeverHappened(description: "the move \(exit): \(log)")
                }
                return try await isThere()
            }
            move.signal(SIGKILL)
            _ = await move.waitForExit()
            // The move's sessions are ended, too. A session that waits for a lock would otherwise execute its statement
            // before it notices.
            for (server, database) in [(rig.postgres, rig.database), (other.server, "other")] {
                try await eventually("its sessions are gone", within: .seconds(60)) {
                    try await Other.psql(
                        """
                        select count(pg_terminate_backend(pid)) from pg_stat_activity
                        where application_name = 'pushq-admin' and datname = current_database()
                        """, server, database) == "0"
                }
            }
            holder.signal(SIGKILL)
            _ = await holder.waitForExit()
            _ = try await Other.psql(
                "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'holder'",
                server, database)
        }

        @Test func `loses nothing and repeats nothing, wherever the mover is killed`() async throws {
            let reaper = try Reaper()
            let server = try await PrivatePostgres.start(reaper: reaper)
            var settings = Rig.Settings()
            settings.devices = Self.devices
            try await Rig.run(on: server, settings) { _, rig in
                let other = try await Other(beside: rig)
                let list = "\(rig.folder)/databases"
                try "\(rig.postgres.connectionString(database: rig.database))\n\(other.url)\n".write(
                    toFile: list, atomically: true, encoding: .utf8)
                let worker = try rig.startWorker(database: "", ["--databases", list])
                try await rig.startCampaign(options: ", max_rate => 200")
                let producer = Producer()
                let (queue, first, database) = ("\(rig.queue)", rig.postgres, rig.database)
                let producing = Task { await producer.run(queue: queue, at: first, database, other) }
                try await rig.waitUntilEnded(300)

                // While the move copies, the tenant's pushes are sent.
                try await kill(
                    rig, other, number: 1, holding: "lock table pushq.device in access exclusive mode",
                    at: other.server,
                    "other"
                ) {
                    try await other.psql(
                        """
                        select count(*) from pg_locks l join pg_stat_activity a using (pid)
                        where not l.granted and a.application_name = 'pushq-admin' and a.datname = current_database()
                        """) != "0"
                }
                #expect(try await stage(rig) == "copying")
                let underWay = try await place(list: list)
                #expect(underWay.states[0]?.hasPrefix("here, moving to database other") == true, "\(underWay)")
                #expect(underWay.states[5]?.hasPrefix("arriving from database rig_") == true, "\(underWay)")
                #expect(try await place(of: "nobody", list: list).errors.contains("no database has a tenant nobody"))
                let before = try await rig.ended()
                try await rig.waitUntilEnded(before + 100)

                // The tenant is out of use, and the move waits for a producer's transaction.
                try await kill(
                    rig, other, number: 2, holding: "select pushq.queue_id('\(rig.queue)')", at: rig.postgres,
                    rig.database
                ) { try await stage(rig) == "detached" }
                #expect(try await rig.number("select count(*) from pushq.tenant where name = 'acme'") == 0)
                #expect(try await place(list: list).states[0]?.hasPrefix("stopped, moving to database other") == true)
                let undone = try await Executable.admin.run(
                    ["tenant", "move", "acme", "--to", other.url, "--abandon", "--json"], environment: environment(rig))
                #expect(undone.code == 0, "\(undone.errors)")
                #expect(try members(undone.output) == ["moved", "tenant"])
                let resumed = try await rig.ended()
                try await rig.waitUntilEnded(resumed + 100)

                // The same again, but this time the move is continued.
                try await kill(
                    rig, other, number: 3, holding: "select pushq.queue_id('\(rig.queue)')", at: rig.postgres,
                    rig.database
                ) { try await stage(rig) == "detached" }

                // The tenant has arrived, and the old database does not know it.
                try await kill(
                    rig, other, number: 4, holding: "lock table pushq.removed_queue in share mode", at: rig.postgres,
                    rig.database
                ) { try await other.psql("select count(*) from pushq.tenant_move where stage = 'arrived'") == "1" }
                #expect(try await stage(rig) == "detached")

                let last = try startMove(rig, other, number: 5)
                #expect(await last.waitForExit(within: .seconds(120)) == .code(0))
                #expect(try await stage(rig) == "moved")
                #expect(
                    try members(String(contentsOfFile: "\(rig.folder)/move-5.out", encoding: .utf8)) == [
                        "copied", "copied_while_stopped", "deleted", "from", "rows", "stopped_for", "tenant", "to",
                    ])
                let arrived = try await place(list: list)
                #expect(arrived.states == [5: "here"] && arrived.errors.isEmpty, "\(arrived)")
                let former = "\(rig.folder)/former"
                try rig.postgres.connectionString(database: rig.database).write(
                    toFile: former, atomically: true, encoding: .utf8)
                let asked = try await place(list: former)
                #expect(asked.errors.contains("name the one that it has moved to as well"), "\(asked)")
                let again = try await Executable.admin.run(
                    ["tenant", "move", "acme", "--to", other.url], environment: environment(rig))
                #expect(again.code == 1 && again.errors.contains("acme has moved to database other"), "\(again.errors)")
                try await wait(
                    for: "the campaign's end", within: .seconds(120),
                    { try await other.psql("select delivered from pushq.campaign_progress where finished") }
                ) { $0 == "\(Self.devices)" }
                producing.cancel()
                await producing.value

                let refused = await producer.refused
                #expect(
                    refused.contains { $0.contains("tenant “acme” is being moved to database other at") }, "\(refused)")
                #expect(refused.contains { $0.contains("tenant “acme” has moved to database other at") }, "\(refused)")
                // All pushes were sent once, and their outcomes are in the new database.
                let sent = await producer.sent
                try await wait(
                    for: "all outcomes", within: .seconds(60),
                    { try await other.psql("select sum(delivered) from pushq.result") }
                ) { $0 == "\(Self.devices + sent)" }
                let pushes = try PushRecord(files: rig.recordFiles).pushes
                #expect(pushes.count == Self.devices + sent)
                #expect(pushes.values.allSatisfy { $0.count == 1 })
                for table in ["device", "job", "lease", "body", "message", "result", "campaign", "queue", "tenant"] {
                    #expect(try await rig.number("select count(*) from pushq.\(table)") == 0, "\(table)")
                }
                #expect(await worker.drain() == .code(0), "\(worker.log)")
            }
            await reaper.end()
        }

        @Test func `goes to and fro under load, killed at random moments, and each push arrives once`() async throws {
            let reaper = try Reaper()
            let server = try await PrivatePostgres.start(reaper: reaper)
            var settings = Rig.Settings()
            settings.devices = Self.devices
            try await Rig.run(on: server, settings) { _, rig in
                let other = try await Other(beside: rig)
                let list = "\(rig.folder)/databases"
                let urls = [rig.postgres.connectionString(database: rig.database), other.url]
                try urls.joined(separator: "\n").write(toFile: list, atomically: true, encoding: .utf8)
                let workers = try (1...2).map { _ in try rig.startWorker(database: "", ["--databases", list]) }
                try await rig.startCampaign(options: ", max_rate => 150")
                let producer = Producer()
                let (queue, first, database) = ("\(rig.queue)", rig.postgres, rig.database)
                let producing = Task { await producer.run(queue: queue, at: first, database, other) }
                try await rig.waitUntilEnded(300)

                var kills = 0
                for round in 0..<4 {
                    let (from, to) = (urls[round % 2], urls[(round + 1) % 2])
                    var attempt = 0
                    while true {
                        let log = "\(rig.folder)/random-\(round)-\(attempt).log"
                        let move = try rig.reaper.start(
                            Executable.admin.command(
                                ["tenant", "move", "acme", "--to", to], environment: environment(rig, at: from),
                                output: "\(log).out", errors: log))
                        // The first attempt has hardly begun when it is killed. The last one runs to its end.
                        let patience =
                            switch attempt {
                            case 0: Duration.milliseconds(Int.random(in: 1...20))
                            case ..<6: Duration.milliseconds(Int.random(in: 50...800))
                            default: Duration.seconds(120)
                            }
                        if let exit = await move.waitForExit(within: patience) {
                            let errors = try String(contentsOfFile: log, encoding: .utf8)
                            // If a claim is committed after the tenant was detached, the tenant goes on in the old
                            // database.
                            if exit != .code(0), errors.contains("The tenant was not moved"), attempt < 20 {
                                attempt += 1
                                continue
                            }
                            #expect(exit == .code(0) || errors.contains("acme has moved to"), "\(errors)")
                            break
                        }
                        move.signal(SIGKILL)
                        _ = await move.waitForExit()
                        kills += 1
                        attempt += 1
                    }
                    let place = try await place(list: list)
                    #expect(place.states == [round % 2 == 0 ? 5 : 0: "here"], "\(place)")
                }
                #expect(kills > 0)

                try await wait(
                    for: "the campaign's end", within: .seconds(180),
                    {
                        try await rig.number(
                            "select coalesce(max(delivered), 0) from pushq.campaign_progress where finished")
                    }
                ) { $0 == Int64(Self.devices) }
                producing.cancel()
                await producing.value
                let sent = await producer.sent
                try await wait(
                    for: "all outcomes", within: .seconds(60),
                    { try await rig.number("select sum(delivered) from pushq.result") }
                ) { $0 == Int64(Self.devices + sent) }
                // The judge saw each push exactly once.
                let pushes = try PushRecord(files: rig.recordFiles).pushes
                #expect(pushes.count == Self.devices + sent)
                #expect(pushes.values.allSatisfy { $0.count == 1 && $0[0].status == 200 })
                let strange = await producer.refused.filter {
                    !$0.contains("is being moved to") && !$0.contains("has moved to")
                        && !$0.contains("is being moved here")
                }
                #expect(strange.isEmpty, "\(strange)")
                for worker in workers { #expect(await worker.drain() == .code(0), "\(worker.log)") }
            }
            await reaper.end()
        }
    }
}
