import Foundation
import Glibc
import LocalStack
import PostgresStore
import QueueCore
import TestSupport
import Testing

extension `Real processes with databases of their own` {
    /// Runs the commands of `docs/restore.md`.
    @Suite struct `A database that is restored` {
        private static let devices = 3000

        /// The state when the database was lost.
        private struct Loss {
            /// All recipients of the campaign.
            let campaign: Set<APNsID>
            /// The identifiers that were drawn after the time to which the database goes back.
            let forgotten: Set<Int64>
        }

        /// Sends a campaign, and calls `halfway` in the middle. Then waits until all of it is sent, and sends a few
        /// more pushes.
        private func sendAll(_ rig: Rig, halfway: () async throws -> Void) async throws -> Loss {
            let worker = try rig.startWorker()
            try await worker.says("started")
            try await rig.startCampaign(options: ", max_rate => 1500")
            try await rig.waitUntilEnded(Self.devices / 3)
            try await halfway()
            try await rig.waitUntilFinished()
            var forgotten: Set<Int64> = []
            for number in 1...10 { forgotten.insert(try await send(number, in: rig)) }
            let ended = "select count(*) from pushq.result where delivered = 1 and lane = 1"
            try await wait(
                for: "the end of ten sends", within: .seconds(60), { try await rig.number(ended) }, until: { $0 >= 10 })
            await worker.kill()
            let campaign = try await rig.number("select id from pushq.campaign")
            let arrived = try PushRecord(files: rig.recordFiles).pushes.keys.filter { $0.root == campaign }
            #expect(arrived.count == Self.devices)
            return Loss(campaign: Set(arrived), forgotten: forgotten)
        }

        private static func call(_ number: Int, _ queue: QueueName) -> String {
            """
            select pushq.send('\(queue)', '{"aps":{"alert":"single"}}',
                              tokens => array[encode(sha256(int8send(\(1_000_000 + number))), 'hex')])
            """
        }

        private func send(_ number: Int, in rig: Rig) async throws -> Int64 {
            try await rig.number(Self.call(number, rig.queue))
        }

        /// Decides about a restored database, and compares the report, the simulator's record and the outcomes.
        private func check(
            _ rig: Rig, _ server: PrivatePostgres, _ database: String, sends: Bool, backTo: Date, _ loss: Loss
        ) async throws {
            let environment = [
                "PUSHQ_DATABASE_URL": server.connectionString(database: database),
                "PUSHQ_MASTER_KEY": rig.masterKeys.first.hexadecimal,
            ]
            func admin(_ arguments: String...) async throws -> Executable.Ended {
                try await Executable.admin.run(arguments, environment: environment)
            }
            func number(_ sql: String) async throws -> Int64 {
                let text = try await server.client("psql", ["-qAtd", database, "-c", sql]).run()
                return Int64(text.split(separator: "\n").last ?? "") ?? 0
            }

            // A worker does not wait for the decision, and sends pushes that cannot have been sent before.
            let worker = try rig.startWorker(
                database: server.connectionString(database: database, user: TestServer.workerLogin))
            try await worker.says("the database was restored and knows nothing after")
            let before = try PushRecord(files: rig.recordFiles)
            let neighbour = try await number(Self.call(1, rig.neighbour))
            try await wait(for: "the neighbour's push", within: .seconds(60)) {
                try PushRecord(files: rig.recordFiles).arrivals.count > before.arrivals.count
            }
            #expect(neighbour > loss.forgotten.max()!)
            let arrived = try PushRecord(files: rig.recordFiles)
            #expect(arrived.pushes.keys.contains { $0.root == neighbour })
            #expect(arrived.arrivals.count == before.arrivals.count + 1, "nothing else was sent")

            // The report has the same figures as the simulator's record.
            let known = try await recorded(in: server, database)
            let uncertain = loss.campaign.subtracting(known)
            #expect(!uncertain.isEmpty && uncertain.count < Self.devices, "it was half sent")
            let text = try await admin("restore", "show", "--json").output
            let report = try JSONDecoder().decode(Report.self, from: Data(text.utf8))
            #expect(report.mayBeSentTwice == uncertain.count)
            #expect(report.queues.map(\.queue) == ["\(rig.queue)"])
            let found = try #require(try? Date(report.backTo, strategy: .iso8601))
            #expect(found <= backTo.addingTimeInterval(1) && found > backTo.addingTimeInterval(-60), "\(text)")
            expectFailure(
                try await admin("queue", "resume", "\(rig.queue)"), code: 1,
                saying: "restore resume \(rig.queue) --send")

            if !sends {
                expectFailure(
                    try await admin("restore", "resume", "\(rig.queue)", "--unknown"), code: 1,
                    saying: "in 1 queue as unknown for good", "nothing was changed: pass --yes")
            }
            let decision = sends ? ["--send"] : ["--unknown", "--yes"]
            let decided = try await Executable.admin.run(
                ["restore", "resume", "\(rig.queue)"] + decision, environment: environment)
            #expect(decided.code == 0, "\(decided.errors)")
            let open = "select count(*) from pushq.campaign_progress where not finished"
            try await wait(for: "the campaign's end", within: .seconds(120)) { try await number(open) == 0 }

            let after = try PushRecord(files: rig.recordFiles)
            for (what, ids) in [("recorded", loss.campaign.subtracting(uncertain)), ("uncertain", uncertain)] {
                let again = ids.reduce(0) { sum, id in
                    sum + (after.pushes[id]?.count ?? 0) - (before.pushes[id]?.count ?? 0)
                }
                #expect(again == (sends && what == "uncertain" ? ids.count : 0), "\(what), sent again")
            }
            #expect(try await number("select unknown from pushq.campaign_progress") == (sends ? 0 : uncertain.count))
            #expect(
                try await number("select delivered from pushq.campaign_progress")
                    == (sends ? Self.devices : Self.devices - uncertain.count))

            // No lost identifier is used again.
            for number in 1...20 {
                let text = try await server.client(
                    "psql", ["-qAtd", database, "-c", Self.call(100 + number, rig.queue)]
                ).run()
                let root = try #require(Int64(text.split(separator: "\n").last ?? ""))
                #expect(root > loss.forgotten.max()!)
            }
            let end = await worker.drain()
            #expect(end == .code(0))
        }

        private struct Report: Decodable {
            struct Queue: Decodable { let queue: String }

            let backTo: String
            let mayBeSentTwice: Int
            let queues: [Queue]

            enum CodingKeys: String, CodingKey {
                case backTo = "back_to"
                case mayBeSentTwice = "may_be_sent_twice"
                case queues
            }
        }

        /// The recipients for which the database has an outcome, in ended jobs and in jobs under way.
        private func recorded(in server: PrivatePostgres, _ database: String) async throws -> Set<APNsID> {
            let sql = """
                select b.root_id, b.device_ids[n + 1]
                from (
                  select body_day as day, queue_id, job_id, outcomes from pushq.result
                  union all
                  select body_day, queue_id, id, outcomes from pushq.job where outcomes is not null
                  union all
                  select body_day, queue_id, job_id, outcomes from pushq.lease) j
                join pushq.body b on b.day = j.day and b.queue_id = j.queue_id and b.job_id = j.job_id
                cross join generate_series(0, cardinality(b.device_ids) - 1) n
                where get_byte(j.outcomes, n) <> 0
                """
            let text = try await server.client("psql", ["-qAtd", database, "-c", sql]).run()
            let pairs = text.split(separator: "\n").map { $0.split(separator: "|").compactMap { Int64($0) } }
            return Set(pairs.filter { $0.count == 2 }.map { APNsID(root: $0[0], key: $0[1]) })
        }

        private func now(_ rig: Rig) async throws -> Date {
            let micros = try await rig.number("select extract(epoch from clock_timestamp()) * 1000000")
            return Date(timeIntervalSince1970: Double(micros) / 1e6)
        }

        private func settings(_ settings: inout Rig.Settings) {
            settings.devices = Self.devices
            settings.hasNeighbour = true
        }

        @Test func `from a base backup and an archive sends again only what an operator decides`() async throws {
            let page = try RestorePage()
            let reaper = try Reaper()
            // The archive is beside the data directory, in which the command runs.
            let archive = try page.settings.mapValues { $0.replacing("/backup", with: "../backup") }
            #expect(archive.count == 2)
            let usual = ["fsync": "off", "full_page_writes": "off"]
            let server = try await PrivatePostgres.start(
                ServerSettings(usual.merging(archive) { $1 }), reaper: reaper)
            let backup = ["BACKUP": "\(server.socketFolder)/backup"]
            var adjusted = Rig.Settings()
            settings(&adjusted)
            try await Rig.run(on: server, adjusted) { _, rig in
                try await server.shell(page.script("Back up", 1), backup).run()
                var moment = Date()
                let loss = try await sendAll(rig) { moment = try await now(rig) }
                let sql = "select pg_walfile_name(pg_switch_wal())"
                let last = try await server.client("psql", ["-qAtd", "postgres", "-c", sql]).run()
                try await wait(for: "the archive", within: .seconds(60)) {
                    let sql = "select last_archived_wal from pg_stat_archiver"
                    let done = try await server.client("psql", ["-qAtd", "postgres", "-c", sql]).run()
                    return done.trimmingCharacters(in: .newlines) >= last.trimmingCharacters(in: .newlines)
                }
                try await server.stop(.immediate)

                for sends in [false, true] {
                    let restored = try await PrivatePostgres.restore(ServerSettings(usual), reaper: reaper) { new in
                        // The format of PostgreSQL's parameter, which accepts no other.
                        let style = Date.ISO8601FormatStyle(
                            dateTimeSeparator: .space, includingFractionalSeconds: true)
                        let time = moment.formatted(style).replacing("Z", with: "+00")
                        try await new.shell(
                            page.script("Restore a base backup", 1), backup.merging(["BACK_TO": time]) { $1 }
                        ).run()
                    }
                    try await wait(for: "the end of recovery", within: .seconds(60)) {
                        let sql = "select pg_is_in_recovery()"
                        return try await restored.client("psql", ["-qAtd", "postgres", "-c", sql]).run().hasPrefix("f")
                    }
                    try await check(rig, restored, rig.database, sends: sends, backTo: moment, loss)
                    try await restored.stop(.immediate)
                }
            }
            await reaper.end()
        }

        @Test func `from a dump does the same, on a server of its own`() async throws {
            let page = try RestorePage()
            let reaper = try Reaper()
            let other = try await PrivatePostgres.start(
                ServerSettings(["fsync": "off", "full_page_writes": "off"]), reaper: reaper)
            try await withRig {
                settings(&$0)
            } _: { rig in
                let variables = ["BACKUP": other.socketFolder, "DATABASE": rig.database]
                var moment = Date()
                let loss = try await sendAll(rig) {
                    try await rig.postgres.shell(page.script("Back up", 2), variables).run()
                    moment = try await now(rig)
                }
                func admin(_ arguments: String...) async throws {
                    let address = other.connectionString(database: rig.database)
                    let ended = try await Executable.admin.run(arguments, environment: ["PUSHQ_DATABASE_URL": address])
                    #expect(ended.code == 0, "\(ended.errors)")
                }
                try await other.shell(page.script("Restore a dump", 1), variables).run()
                try await admin("migrate")
                try await check(rig, other, rig.database, sends: false, backTo: moment, loss)
                try await other.client("dropdb", ["--force", rig.database]).run()

                // Only the data, into tables that `migrate` has made. Rows that it has made, too, are refused.
                try await other.client("createdb", ["--template", "template0", rig.database]).run()
                try await admin("migrate")
                try await admin("worker", "grant", TestServer.workerLogin)
                try await other.shell(
                    #"! pg_restore --data-only --disable-triggers -d "$DATABASE" "$BACKUP/push.dump""#, variables
                ).run()
                try await check(rig, other, rig.database, sends: true, backTo: moment, loss)
            }
            await reaper.end()
        }
    }
}

/// The commands of `docs/restore.md`.
private struct RestorePage {
    private let text: String

    init() throws {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        text = try String(contentsOf: root.appending(path: "docs/restore.md"), encoding: .utf8)
    }

    /// The settings of the page's first block of settings, by name.
    var settings: [String: String] {
        get throws {
            let block = try #require(text.firstMatch(of: /(?s)```ini\n(.*?)```/)).output.1
            return Dictionary(
                uniqueKeysWithValues: block.split(separator: "\n").map { line in
                    let parts = line.split(separator: " = ", maxSplits: 1)
                    return (String(parts[0]), parts[1].trimmingCharacters(in: ["'"]))
                })
        }
    }

    /// A block of commands under a heading. The first block has number 1.
    func script(_ heading: String, _ number: Int) throws -> String {
        let section = try #require(text.components(separatedBy: "\n## ").first { $0.hasPrefix("\(heading)\n") })
        return String(section.matches(of: /(?s)```sh\n(.*?)```/)[number - 1].output.1)
    }
}
