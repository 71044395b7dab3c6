import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// A login that may connect to the database can take and keep each advisory lock whose key it sees in `pg_locks`.
@Suite(.timeLimit(.minutes(10))) struct `A stranger who holds locks` {
    /// A key that is visible in `pg_locks`, as arguments of the function that takes the lock.
    private static let keysSeen = """
        select case l.objsubid when 1 then (l.classid::bigint << 32 | l.objid::bigint)::text
                               else format('%s, %s', l.classid::int, l.objid::int) end
        from pg_locks l where l.locktype = 'advisory'
        """
    /// Keys that one call locks and unlocks again.
    private static let keysUnseen = ["hashtextextended('pushq timeline', 0)"]

    @Test func `stops nothing that locks something by name`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            let admin = queue.connection
            _ = try await queue.startCampaign()
            try await queue.run("create role stranger_\(database.name) login")
            let stranger = try await database.connect(login: "stranger_\(database.name)")
            let register = "pushq.register_device('\(QueueFixture.name)', '%', 'anna', installation => 'phone')"
            func paths(_ round: Int) -> [(connection: PostgresConnection, call: String)] {
                [
                    (queue.worker, "pushq.fan_out_step(\(queue.id), 2, null, 500, 1, 50000) is not null"),
                    (admin, register.replacing("%", with: "aa0\(round)") + " is not null"),
                    (admin, "pushq.judge_lineage(true)::text = ''"),
                    (admin, "pushq.begin_arriving('gamma', gen_random_uuid(), 'there', '{}', null, null) is not null"),
                    (admin, "setval('pushq.known_start', 1) = 1 and \(register.replacing("%", with: "bb")) > 0"),
                ]
            }
            func isDone(_ path: (connection: PostgresConnection, call: String)) async throws -> Bool {
                try await path.connection.execute(Statement("path", "select \(path.call) as is_done")).one().bool(
                    "is_done")
            }

            var keys = Self.keysUnseen
            for path in paths(1) {
                try await path.connection.runScript("begin")
                #expect(try await isDone(path), "\(path.call)")
                keys += try await queue.texts(Self.keysSeen)
                try await path.connection.runScript("rollback")
            }
            #expect(try await admin.lockMove(of: "acme"))
            keys += try await queue.texts(Self.keysSeen)
            try await admin.unlockMove(of: "acme")
            keys.append("hashtextextended('pushq migration', 0)")

            for key in keys { try await stranger.runScript("select pg_advisory_lock(\(key))") }
            for connection in [admin, queue.worker] { try await connection.runScript("set lock_timeout = '2s'") }
            for path in paths(2) { #expect(try await isDone(path), "\(path.call)") }
            #expect(try await admin.lockMove(of: "acme"))
            #expect(try await Migrator(admin).run(within: .seconds(20)).isUpToDate)
        }
    }

    @Test func `is named to whoever migrates an empty database`() async throws {
        try await withEmptyDatabase { _, database in
            let stranger = try await database.connect()
            try await stranger.runScript("select pg_advisory_lock(hashtextextended('pushq migration', 0))")
            let process = try await stranger.execute(Statement("pid", "select pg_backend_pid() as pid")).one().int4(
                "pid")
            let migrator = Migrator(try await database.connect())
            let error = await #expect(throws: MigrationError.self) { try await migrator.run(within: .seconds(1)) }
            #expect(error?.description.contains("process \(process) of login ") == true, "\(String(describing: error))")
        }
    }
}
