import LocalStack
import TestSupport
import Testing

@testable import PostgresStore

/// The value of a login, of its database and of the server lie one on the other, and a session sees only the first.
@Suite(.timeLimit(.minutes(10))) struct `A harmful setting under another` {
    @Test func `of the server is found although the doctor's own login has a good value`() async throws {
        let server = try await Self.start()
        try await withConnection(to: server) { connection in
            try await connection.setUpWorkerRole(PrivatePostgres.superuser)
            try await connection.runScript("create role operator login; alter role operator set log_statement = none")
            try await connection.runScript("alter role operator set synchronous_commit = on")
            try await connection.runScript("alter system set synchronous_commit = off")
            try await connection.runScript("select pg_reload_conf()")
        }
        try await withConnection(to: server) { connection in
            let findings = try await HealthCheck.settings.findings(in: connection)
            #expect(findings.map(\.subject) == ["synchronous_commit"] && findings.map(\.severity) == [.warning])
            try await connection.carryOut(findings)
            #expect(try await HealthCheck.settings.findings(in: connection) == [])
        }
        // This login may not read the server's files.
        try await withConnection(to: server, as: "operator") { connection in
            let findings = try await HealthCheck.settings.findings(in: connection)
            #expect(
                findings.map(\.subject) == ["log_statement, synchronous_commit"]
                    && findings.map(\.severity) == [.note])
            #expect(findings.allSatisfy { $0.evidence.hasPrefix("the server's value cannot be seen") })
        }
        // Where the database has a value, no login gets the server's.
        try await withConnection(to: server) { connection in
            try await connection.runScript("alter database postgres set synchronous_commit = on")
            try await connection.runScript("alter role all set log_statement = none")
        }
        try await withConnection(to: server, as: "operator") { connection in
            let findings = try await HealthCheck.settings.findings(in: connection)
            #expect(findings == [])
        }
        try await server.stop(.immediate)
    }

    @Test func `of the command that starts the server goes when it is removed there`() async throws {
        let harmful = ["synchronous_commit": "off", "autovacuum": "off", "log_statement": "all"]
        let server = try await PrivatePostgres.start(ServerSettings(harmful), reaper: try Reaper())
        for hasOwnValue in [false, true] {
            try await withConnection(to: server) { connection in
                let findings = try await HealthCheck.settings.findings(in: connection)
                #expect(findings.map(\.subject) == harmful.keys.sorted(), "\(findings)")
                #expect(
                    findings.map(\.remedy)
                        == harmful.keys.sorted().map {
                            .advice("remove \($0) from the command that starts the server (-c \($0)=…), and restart it")
                        })
                if !hasOwnValue { try await connection.setUpWorkerRole(PrivatePostgres.superuser) }
            }
        }
        let reaper = try Reaper()
        try await server.stop()
        let restarted = try await PrivatePostgres.restore(Self.settings, reaper: reaper) { copy in
            try await copy.shell("mkdir -m 700 $PGDATA; cp -a \(server.socketFolder)/data/. $PGDATA").run()
        }
        try await withConnection(to: restarted) { connection in
            let findings = try await HealthCheck.settings.findings(in: connection)
            #expect(findings == [])
        }
        try await restarted.stop(.immediate)
    }

    @Test func `of the doctor's own options is none of the server`() async throws {
        let server = try await Self.start()
        try await withConnection(to: server) { connection in
            try await connection.runScript("create role operator login")
        }
        let options = "-c synchronous_commit=off"
        try await withConnection(to: server, options: options) { connection in
            let findings = try await HealthCheck.settings.findings(in: connection)
            #expect(findings == [])
        }
        try await withConnection(to: server, as: "operator", options: options) { connection in
            let findings = try await HealthCheck.settings.findings(in: connection)
            #expect(findings.map(\.subject) == ["synchronous_commit"] && findings.map(\.severity) == [.note])
            #expect(findings.allSatisfy { $0.remedy.text.contains("PGOPTIONS") })
        }
        try await withConnection(to: server, options: "-c default_transaction_read_only=on") { connection in
            let findings = try await HealthCheck.readOnly.findings(in: connection)
            #expect(findings.map(\.subject) == ["session"])
            #expect(findings.allSatisfy { $0.remedy.text.contains("PGOPTIONS") })
        }
        try await server.stop(.immediate)
    }

    @Test func `that keeps a worker or a producer from writing is found, and none of those who only read`() async throws
    {
        let server = try await Self.start()
        try await withConnection(to: server) { connection in
            _ = try await Migrator(connection).run()
            try await connection.runScript(
                """
                create role sender login in role pushq_worker;
                create role shop login in role pushq_producer;
                create role reports login in role pushq_reader;
                create role dba login superuser;
                alter role sender set default_transaction_read_only = on;
                alter role shop in database postgres set default_transaction_read_only = 'true';
                alter role reports set default_transaction_read_only = on;
                alter role dba set default_transaction_read_only = on
                """)
            let findings = try await HealthCheck.readOnly.findings(in: connection)
            #expect(
                findings.map(\.subject) == [
                    "default_transaction_read_only of role sender",
                    "default_transaction_read_only of role shop in database postgres",
                ])
            #expect(findings.allSatisfy { $0.severity == .error })
            try await connection.carryOut(findings)
            #expect(try await HealthCheck.readOnly.findings(in: connection) == [])
        }
        try await server.stop(.immediate)
    }

    @Test func `goes with the harmful values beneath it`() async throws {
        let server = try await Self.start()
        try await withConnection(to: server) { connection in
            _ = try await Migrator(connection).run()
            try await connection.runScript(
                """
                create role shop login in role pushq_producer;
                alter role shop in database postgres set synchronous_commit = off;
                alter role shop set synchronous_commit = off;
                alter database postgres set synchronous_commit = off;
                alter role all set synchronous_commit = off
                """)
            try await connection.runScript("alter system set synchronous_commit = off")
            try await connection.runScript("select pg_reload_conf()")
        }
        try await withConnection(to: server) { connection in
            let findings = try await HealthCheck.settings.findings(in: connection)
            #expect(
                findings.map(\.remedy.text) == [
                    """
                    alter role shop in database postgres reset synchronous_commit;
                    alter role shop reset synchronous_commit;
                    """,
                    """
                    alter database postgres reset synchronous_commit;
                    alter role all reset synchronous_commit;
                    alter system set synchronous_commit = on;
                    select pg_reload_conf();
                    """,
                ])
            try await connection.carryOut(findings)
        }
        try await withConnection(to: server) { connection in
            let findings = try await HealthCheck.settings.findings(in: connection)
            #expect(findings == [])
        }
        try await withConnection(to: server, as: "shop") { connection in
            let value = try await connection.execute(.ownCommit).one().text("value")
            #expect(value == "on")
        }
        try await server.stop(.immediate)
    }

    /// Settings that leave the one of commits to the server's files.
    private static var settings: ServerSettings {
        var settings = ServerSettings()
        settings.parameters["synchronous_commit"] = nil
        return settings
    }

    private static func start() async throws -> PrivatePostgres {
        try await PrivatePostgres.start(settings, reaper: try Reaper())
    }
}

extension Statement {
    fileprivate static let ownCommit = Statement("own_commit", "select current_setting('synchronous_commit') as value")
}
