import LocalStack
import QueueCore
import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// A primary is lost with its last commits, and its asynchronous standby takes its place.
@Suite(.timeLimit(.minutes(10))) struct `Identifiers` {
    private static let send = Statement(
        "send",
        """
        select pushq.send('\(QueueFixture.name)', '{"aps":{"alert":"x"}}', tokens => array[$1]) as root
        """)
    private static let drawn = Statement(
        "drawn",
        "select id from pushq.device union select job_id from pushq.body union select id from pushq.message")

    /// Calls that only read.
    private static let reads = Statement(
        "reads",
        """
        select (select s.kind from pushq.status('\(QueueFixture.name)', $1::bigint) s) as kind,
               (select count(*) from pushq.trace('\(QueueFixture.name)', send => $1::bigint)) as events,
               (select count(*) from pushq.feedback_after('\(QueueFixture.name)', 0)) as reports
        """)

    private func roots(_ count: Int, of prefix: String, _ connection: PostgresConnection) async throws -> [Int64] {
        var roots: [Int64] = []
        for number in 0..<count {
            let token = "\(prefix)\(String(number + 0x1000, radix: 16))"
            roots.append(try await connection.execute(Self.send, [.text(token)]).one().int8("root"))
        }
        return roots
    }

    @Test func `that were drawn in lost commits are not drawn again by producers at the new primary`() async throws {
        let reaper = try Reaper()
        let loop = EventLoop(name: "timeline")
        defer { loop.shutDown() }
        let primary = try await PrivatePostgres.start(reaper: reaper)
        let standby = try await PrivatePostgres.startStandby(of: primary, reaper: reaper)
        try await loop.run { actor in
            func connect(to server: PrivatePostgres) async throws -> PostgresConnection {
                let address = try DatabaseAddress(url: server.connectionString(), environment: [:])
                return try await PostgresConnection.connectPatiently(to: address, as: "test", on: actor.loop)
            }
            let before = try await connect(to: primary)
            _ = try await Migrator(before).run()
            _ = try await before.createTenant("acme")
            _ = try await before.createApp("com.acme", of: "acme")
            _ = try await before.createQueue(QueueFixture.name)
            let kept = try await roots(10, of: "aa", before)
            let replica = try await connect(to: standby)
            let sends = Statement("sends", "select count(distinct root_id) as sends from pushq.body")
            try await eventually("the standby has them") {
                (try? await replica.execute(sends).one().int8("sends")) == 10
            }
            let row = try await replica.execute(Self.reads, [.int8(kept[0])]).one()
            #expect(row.text("kind") == "send" && row.int8("events") > 0 && row.int8("reports") == 0)

            // From here on, nothing reaches the standby.
            try await replica.runScript("alter system set primary_conninfo = ''")
            try await replica.runScript("select pg_reload_conf()")
            let receivers = Statement("receivers", "select count(*) as receivers from pg_stat_wal_receiver")
            try await eventually("it receives nothing") {
                try await replica.execute(receivers).one().int8("receivers") == 0
            }
            let lost = try await roots(200, of: "bb", before)
            let allBefore = Set(try await before.execute(Self.drawn).map { $0.int8("id") } + kept + lost)
            try await primary.stop(.immediate)
            try await standby.promote()

            // This session was open while the server was a standby.
            let first = try await roots(1, of: "cc", replica)
            #expect(try await replica.execute(sends).one().int8("sends") == 11, "the others are lost")
            #expect(try await replica.followTimeline()?.undecidedQueues == 0, "this is no backup: nothing is paused")
            // All sessions start at once, and one of them is in a long transaction.
            let sessions = (0..<4).map { session in
                Task {
                    _ = actor
                    let connection = try await connect(to: standby)
                    if session == 0 { try await connection.runScript("begin") }
                    return try await roots(60, of: "d\(session)", connection)
                }
            }
            var several: [Int64] = []
            for session in sessions { several += try await session.value }
            let after = first + several
            #expect(Set(after).count == 241)
            #expect(allBefore.isDisjoint(with: after), "sends")
            let known = Set(try await replica.execute(Self.drawn).map { $0.int8("id") })
            let stillThere = Set(
                try await replica.execute(
                    Statement(
                        "older", "select unnest($1::bigint[]) as id intersect select id from pushq.device"),
                    [.int8Array(Array(allBefore))]
                ).map { $0.int8("id") })
            #expect(stillThere.count == 10, "devices of the sends that the standby had")
            #expect(known.count == 573, "without those of the transaction that lasts")
            #expect(known.filter { allBefore.contains($0) }.count == 30, "device, job and message of these")
            #expect(after.max()! - after.min()! < 10_000 * 1024, "numbers are skipped once")
            for connection in [before, replica] { connection.close() }
        }
        await reaper.end()
    }
}
