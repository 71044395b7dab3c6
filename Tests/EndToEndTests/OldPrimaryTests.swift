import Foundation
import LocalStack
import PostgresStore
import QueueCore
import TestSupport
import Testing

extension `Real processes with databases of their own` {
    /// A standby is promoted. The old primary goes on for a worker and a producer that reach only that server.
    @Suite struct `An old primary that goes on` {
        private static let devices = 3000
        private static let payload = #"{"aps":{"alert":"single"}}"#

        private struct Report: Decodable {
            let delivered: Int
            let unknown: Int
            let mayBeSentTwice: Int
            let waiting: Int
            let sends: [Total]

            struct Total: Decodable { let campaign: String? }

            enum CodingKeys: String, CodingKey {
                case delivered, unknown, waiting, sends
                case mayBeSentTwice = "may_be_sent_twice"
            }
        }

        /// The names that docs/json.md promises, in order.
        private static func members(of json: String) throws -> [String] {
            let object = try JSONSerialization.jsonObject(with: Data(json.utf8)) as? [String: Any]
            return try #require(object).keys.sorted()
        }

        @Test func `is not used by a command whose address names it first, and both are named`() async throws {
            let reaper = try Reaper()
            let old = try await PrivatePostgres.start(reaper: reaper)
            func admin(at url: String, _ arguments: String...) async throws -> Executable.Ended {
                try await Executable.admin.run(arguments, environment: ["PUSHQ_DATABASE_URL": url])
            }
            #expect(try await admin(at: old.connectionString(), "migrate").code == 0)
            let new = try await PrivatePostgres.startStandby(of: old, reaper: reaper)
            let both = old.connectionString(orAt: new)
            let alone = try await admin(at: both, "doctor", "--json")
            #expect(!alone.output.contains("accept writes") && alone.errors.isEmpty, "a standby accepts none")
            let replica = try await admin(at: "\(both) target_session_attrs=standby", "stats")
            #expect(replica.code == 0 && replica.errors.isEmpty, "\(replica.errors)")
            let ofStandby = try await admin(at: new.connectionString(), "doctor")
            #expect(ofStandby.output.contains("error: server: is a standby, which takes no writes\n"))
            #expect(!ofStandby.output.contains("recovery"), "\(ofStandby.output)")
            for words in [["worker", "list"], ["tenant", "create", "acme"], ["migrate"]] {
                let ended = try await Executable.admin.run(
                    words, environment: ["PUSHQ_DATABASE_URL": new.connectionString()])
                #expect(ended.code == 1 && ended.errors.contains("is a standby, or "), "\(words): \(ended.errors)")
            }
            try await new.promote()

            let servers = "\(old.socketFolder) (timeline 1) and \(new.socketFolder) (timeline 2)"
            let ended = try await admin(at: both, "tenant", "create", "acme")
            #expect(ended.code == 0)
            #expect(
                ended.errors.hasSuffix(
                    "several servers accept writes: \(servers). This command uses \(new.socketFolder); let nobody write "
                        + "to the other, and see: pushq-admin doctor\n"), "\(ended.errors)")
            for (server, tenants) in [(old, "0\n"), (new, "1\n")] {
                let count = ["-qAtd", "postgres", "-c", "select count(*) from pushq.tenant"]
                #expect(try await server.client("psql", count).run() == tenants)
            }
            let doctor = try await admin(at: both, "doctor")
            #expect(doctor.code == 1)
            #expect(doctor.output.contains("error: servers: several accept writes: \(servers)\n"), "\(doctor.output)")

            // The same with an address that names them in a service file.
            let folder = try TemporaryFolder()
            let hosts = "\(old.socketFolder),\(new.socketFolder)"
            try "[both]\nhost=\(hosts)\nport=5432\ndbname=postgres\nuser=\(PrivatePostgres.superuser)\n".write(
                toFile: folder.path("services"), atomically: true, encoding: .utf8)
            let named = try await Executable.admin.run(
                ["doctor", "--database-url", "service=both"], environment: ["PGSERVICEFILE": folder.path("services")])
            #expect(named.output.contains("error: servers: several accept writes: \(servers)\n"), "\(named.output)")
            await reaper.end()
        }

        @Test func `is found to have sent what the simulator counted`() async throws {
            let reaper = try Reaper()
            let postgres = try await PrivatePostgres.start(reaper: reaper)
            var settings = Rig.Settings()
            settings.devices = Self.devices
            settings.standby = .asynchronous
            try await Rig.run(on: postgres, settings) { _, rig in
                let standby = try #require(rig.standby)
                func url(_ server: PrivatePostgres, orAt other: PrivatePostgres? = nil) -> String {
                    server.connectionString(database: rig.database, orAt: other)
                }
                func old(_ sql: String) async throws -> String {
                    try await postgres.client("psql", ["-qAtd", rig.database, "-c", sql]).run()
                        .trimmingCharacters(in: .newlines)
                }
                func diverged(
                    from old: PrivatePostgres? = nil, _ options: String...
                ) async throws -> Executable.Ended {
                    try await Executable.admin.run(
                        ["restore", "diverged", "--old", url(old ?? postgres)] + options,
                        environment: ["PUSHQ_DATABASE_URL": url(postgres, orAt: standby)])
                }
                let worker = try rig.startWorker(
                    database: postgres.connectionString(database: rig.database, user: TestServer.workerLogin))
                try await worker.says("started")
                try await rig.startCampaign(key: "before")
                try await rig.waitUntilFinished()
                // Both servers know this campaign, and none of it is sent before the servers diverge.
                try await rig.run(
                    """
                    begin;
                    select pushq.start_campaign('\(rig.queue)', 'campaign', '{"aps":{"alert":"campaign"}}');
                    select pushq.pause_campaign('\(rig.queue)', 'campaign');
                    commit
                    """)
                let position = try await old("select pg_current_wal_lsn()")
                try await eventually("the standby has it all", within: .seconds(60)) {
                    let sql = "select coalesce(min(replay_lsn), '0/0') >= '\(position)' from pg_stat_replication"
                    return try await old(sql) == "t"
                }
                expectFailure(try await diverged(), code: 1, saying: "it is not an old primary")
                expectFailure(try await diverged(from: standby), code: 1, saying: "given by --old is a standby")
                try await standby.promote()
                let before = Set(try PushRecord(files: rig.recordFiles).pushes.keys)

                _ = try await old("select pushq.resume_campaign('\(rig.queue)', 'campaign')")
                for number in 1...10 {
                    let token = "encode(sha256(int8send(\(1_000_000 + number))), 'hex')"
                    _ = try await old(
                        "select pushq.send('\(rig.queue)', '\(Self.payload)', tokens => array[\(token)])")
                }
                _ = try await old(
                    """
                    select pushq.send('\(rig.queue)', '\(Self.payload)', tokens => array['aa', 'bb'],
                                      run_at => now() + interval '1 hour')
                    """)
                try await eventually("all of it is sent", within: .seconds(60)) {
                    let sql = "select count(*) from pushq.job where run_at < now() + interval '1 minute'"
                    let open = "select count(*) from pushq.campaign_progress where not finished"
                    return try await old("select (\(sql)) + (\(open)) + (select count(*) from pushq.lease)") == "0"
                }
                #expect(await worker.drain() == .code(0))
                // As a worker gives a job back that it has begun: one recipient has got the push, and one waits.
                _ = try await old(
                    """
                    update pushq.job set outcomes = decode('0100', 'hex'), watermark = 1
                    where recipient_count = 2 and run_at > now() + interval '1 minute'
                    """)
                // A campaign that reaches only the old server, where no worker runs any more, to these devices and the
                // 12 that the sends have added.
                _ = try await old("select pushq.start_campaign('\(rig.queue)', 'unsent', '\(Self.payload)')")

                let after = try PushRecord(files: rig.recordFiles).pushes.keys.filter { !before.contains($0) }
                #expect(before.count == Self.devices && after.count == Self.devices + 10)
                let shown = try await diverged("--json")
                #expect(shown.code == 0, "\(shown.errors)")
                let report = try JSONDecoder().decode(Report.self, from: Data(shown.output.utf8))
                #expect(report.delivered == after.count && report.unknown == 0, "\(shown.output)")
                #expect(
                    report.mayBeSentTwice == after.count - 10 && report.waiting == Self.devices + 13, "\(shown.output)")
                #expect(report.sends.map(\.campaign) == ["campaign", "unsent", nil])
                #expect(
                    try Self.members(of: shown.output) == [
                        "delivered", "may_be_sent_twice", "rejected", "replaced_at", "sends", "unknown", "waiting",
                    ])
                let pushes = try await diverged("--apns-ids")
                #expect(Set(pushes.output.split(separator: "\n").compactMap { APNsID(String($0)) }) == Set(after))
                let lines = try await diverged("--apns-ids", "--json").output.split(separator: "\n")
                #expect(lines.count == after.count)
                #expect(
                    try Self.members(of: String(lines[0])) == [
                        "apns_id", "campaign", "ended_at", "outcome", "queue", "send",
                    ])

                // The new primary knows the campaign, and its worker sends the rest.
                let successor = try rig.startWorker(
                    database: standby.connectionString(database: rig.database, user: TestServer.workerLogin))
                try await standby.client(
                    "psql", ["-qd", rig.database, "-c", "select pushq.resume_campaign('\(rig.queue)', 'campaign')"]
                ).run()
                try await eventually("its end there", within: .seconds(60)) {
                    let sql = "select count(*) from pushq.campaign_progress where not finished"
                    return try await standby.client("psql", ["-qAtd", rig.database, "-c", sql]).run() == "0\n"
                }
                #expect(await successor.drain() == .code(0))
                let record = try PushRecord(files: rig.recordFiles)
                #expect(record.pushes.keys.reduce(0) { $0 + record.repeats(of: $1) } == report.mayBeSentTwice)
            }
            await reaper.end()
        }
    }
}
