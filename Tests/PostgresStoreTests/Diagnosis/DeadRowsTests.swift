import LocalStack
import TestSupport
import Testing
import Transport

@testable import PostgresStore

@Suite(.timeLimit(.minutes(10))) struct `Dead rows that vacuum cannot remove` {
    private static let check = HealthCheck.deadRows(heldFor: .zero)
    private static let vacuum = "vacuum (analyze) pushq.sleeper;"

    /// Leaves 60,000 dead rows, and more transactions behind them than a standby is usually late.
    private func leaveDeadRows(in connection: PostgresConnection) async throws {
        for sql in [
            "alter table pushq.sleeper set (autovacuum_enabled = off)",
            "insert into pushq.sleeper (worker_id) select generate_series(1, 60000)",
            "delete from pushq.sleeper",
            "do $$ begin for i in 1..1100 loop perform pg_current_xact_id(); commit; end loop; end $$",
            Self.vacuum, "select pg_stat_force_next_flush()",
        ] {
            try await connection.runScript(sql)
        }
    }

    /// Waits until the check finds what `isRight` says, and returns the only finding.
    private func finding(
        in connection: PostgresConnection, _ what: String, where isRight: @escaping (HealthFinding) -> Bool
    ) async throws -> HealthFinding {
        let findings = try await eventually("\(what) is found", within: .seconds(60)) {
            try await Self.check.findings(in: connection)
        } until: {
            $0.contains(where: isRight)
        }
        #expect(findings.count == 1 && findings.first?.subject == "sleeper" && findings.first?.severity == .warning)
        return try #require(findings.first)
    }

    /// Runs `body` on an event loop, with a way to connect to servers from it.
    private func onLoop(
        _ body: @Sendable (@escaping (PrivatePostgres, String) async throws -> PostgresConnection) async throws -> Void
    ) async throws {
        let loop = EventLoop(name: "dead rows")
        defer { loop.shutDown() }
        try await loop.run { _ in
            try await body { server, login in
                let address = try DatabaseAddress(url: server.connectionString(user: login), environment: [:])
                return try await PostgresConnection.connect(to: address, as: "test", on: loop, within: .seconds(60))
            }
        }
    }

    @Test func `are kept by a report on a standby or by its slot, also when nobody reads that any more`() async throws {
        let reaper = try Reaper()
        // The standby has the settings of the primary, where these have no effect.
        let primary = try await PrivatePostgres.start(
            ServerSettings(["hot_standby_feedback": "on", "wal_receiver_status_interval": "1s"]), reaper: reaper)
        let standby = try await PrivatePostgres.startStandby(of: primary, reaper: reaper)
        try await onLoop { connect in
            let connection = try await connect(primary, PrivatePostgres.superuser)
            _ = try await Migrator(connection).run()
            try await connection.runScript("select pg_create_physical_replication_slot('reports')")
            let report = try await connect(standby, PrivatePostgres.superuser)
            try await report.runScript("begin isolation level repeatable read")
            try await report.runScript("select 1")
            let reported = Statement("reported", "select count(backend_xmin) as count from pg_stat_replication")
            try await eventually("the standby reports it", within: .seconds(60)) {
                try await connection.execute(reported).one().int8("count") == 1
            }
            try await leaveDeadRows(in: connection)
            let byStandby = try await finding(in: connection, "the standby") {
                $0.evidence.contains("; standby walreceiver keeps what died in the last ")
            }
            #expect(byStandby.evidence.hasPrefix("has 60000 dead rows and 0 live ones; vacuumed "), "\(byStandby)")
            let advice = HealthFinding.Remedy.advice(
                "end the long query on the standby, or set hot_standby_feedback = off there; then: \(Self.vacuum)")
            #expect(byStandby.remedy == advice)

            let other = try await connect(standby, PrivatePostgres.superuser)
            try await other.runScript("alter system set primary_slot_name = 'reports'")
            try await other.runScript("select pg_reload_conf()")
            let bySlot = try await finding(in: connection, "the slot") {
                $0.evidence.contains("; slot reports keeps what died in the last ")
            }
            #expect(bySlot.evidence.hasSuffix(" transactions (read by walreceiver)"), "\(bySlot)")
            #expect(bySlot.remedy == advice)

            // A standby that stops while a report runs does not take back what it has reported.
            for connection in [report, other] { connection.close() }
            try await standby.stop(.immediate)
            let left = try await finding(in: connection, "that nobody reads it") {
                $0.evidence.hasSuffix(" transactions (nobody reads it)")
            }
            let drop = "select pg_drop_replication_slot('reports'); -- or start its reader"
            #expect(left.remedy == .sql(drop, then: [Self.vacuum]))
            let slots = try await HealthCheck.walKept.findings(in: connection)
            #expect(slots.map(\.subject) == ["slot reports"])
            #expect(slots.allSatisfy { $0.evidence.contains(" and what died in the last ") }, "\(slots)")
            try await connection.carryOut([left])
            try await eventually("it is mended", within: .seconds(60)) {
                try await Self.check.findings(in: connection).isEmpty
            }
            connection.close()
        }
        try await primary.stop(.immediate)
    }

    @Test func `are kept by a session or a prepared transaction, which is named, but not while it is young`()
        async throws
    {
        let server = try await PrivatePostgres.start(
            ServerSettings(["max_prepared_transactions": "5"]), reaper: try Reaper())
        try await onLoop { connect in
            let connection = try await connect(server, PrivatePostgres.superuser)
            _ = try await Migrator(connection).run()
            try await connection.runScript("create table t (n int)")
            try await connection.runScript("begin; insert into t values (1); prepare transaction 'forgotten'")
            let report = try await connect(server, PrivatePostgres.superuser)
            try await report.runScript("begin isolation level repeatable read")
            try await report.runScript("select 'a secret'")
            try await leaveDeadRows(in: connection)
            let young = try await HealthCheck.deadRows().findings(in: connection)
            #expect(young.map(\.remedy) == [.sql(Self.vacuum)])

            let byPrepared = try await finding(in: connection, "the prepared transaction") {
                $0.evidence.contains("; prepared forgotten keeps what died in the last ")
            }
            #expect(byPrepared.remedy == .sql("rollback prepared 'forgotten';", then: [Self.vacuum]))
            try await connection.carryOut([byPrepared])

            let bySession = try await finding(in: connection, "the session") {
                $0.evidence.contains("; session \(report.backendProcessID) keeps what died in the last ")
            }
            #expect(bySession.evidence.hasSuffix("(\(PrivatePostgres.superuser), test, idle in transaction)"))
            #expect(!"\(bySession)".contains("secret"))
            let end = "select pg_terminate_backend(\(report.backendProcessID));"
            #expect(bySession.remedy == .sql(end, then: [Self.vacuum]))

            try await connection.runScript("create role blind login in role pushq_owner")
            let blind = try await connect(server, "blind")
            let unseen = try await finding(in: blind, "that it does not see the session") { _ in true }
            #expect(unseen.evidence.hasSuffix("; this login does not see what may keep them"), "\(unseen)")
            #expect(unseen.remedy == .sql(Self.vacuum))

            try await connection.carryOut([bySession])
            // The session may hold its snapshot for a moment after it was told to end.
            try await eventually("it is mended", within: .seconds(60)) {
                try await connection.runScript(Self.vacuum)
                return try await Self.check.findings(in: connection).isEmpty
            }
            for connection in [connection, report, blind] { connection.close() }
        }
        try await server.stop(.immediate)
    }
}
