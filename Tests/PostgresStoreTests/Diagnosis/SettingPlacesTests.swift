import LocalStack
import TestSupport
import Testing

@testable import PostgresStore

/// A session's value of a setting can come from the server, from all roles, from its database, from its login, or from
/// its login in this database. Only the statement for the right place changes it.
@Suite(.timeLimit(.minutes(10))) struct `A harmful setting` {
    static let owners = ["database $database", "role $login", "role $login in database $database"]

    @Test(arguments: owners) func `goes when the remedy for its place is run`(owner: String) async throws {
        try await withDatabase { _, database in
            let owner = try await Self.named(owner, in: database)
            try await database.connect().runScript(
                "alter \(owner) set synchronous_commit = off; alter \(owner) set log_statement = 'mod'")
            let looking = try await database.connect(login: "login_\(database.name)")
            let findings = try await Self.findings(of: owner, in: looking)
            #expect(
                findings.map(\.remedy) == [
                    .sql("alter \(owner) reset log_statement;"), .sql("alter \(owner) reset synchronous_commit;"),
                ])
            for finding in findings { try await looking.runScript(finding.remedy.text) }
            let next = try await database.connect(login: "login_\(database.name)")
            #expect(try await Self.findings(of: owner, in: next) == [])
        }
    }

    @Test(arguments: owners) func `that makes sessions read-only goes when the remedy for its place is run`(
        owner: String
    ) async throws {
        try await withDatabase { _, database in
            let owner = try await Self.named(owner, in: database)
            try await database.connect().runScript("alter \(owner) set default_transaction_read_only = on")
            let looking = try await database.connect(login: "login_\(database.name)")
            let findings = try await HealthCheck.readOnly.findings(in: looking)
            #expect(
                findings.map(\.remedy) == [
                    .sql("begin read write; alter \(owner) reset default_transaction_read_only; commit;")
                ])
            // As one line of `psql -c`, which is one message to the server.
            for finding in findings { try await looking.runScript(finding.remedy.text) }
            let next = try await database.connect(login: "login_\(database.name)")
            #expect(try await HealthCheck.readOnly.findings(in: next) == [])
        }
    }

    @Test func `of the server, or of all its roles, goes when the remedy is run`() async throws {
        let server = try await PrivatePostgres.start(reaper: try Reaper())
        try await withConnection(to: server) { connection in
            for name in ["log_statement = 'all'", "client_min_messages = error", "default_transaction_read_only = on"] {
                try await connection.runScript("alter system set \(name)")
            }
            try await connection.runScript("alter role all set default_transaction_isolation = 'serializable'")
            try await connection.runScript("select pg_reload_conf()")
        }
        try await withConnection(to: server) { connection in
            let looked = try await eventually("the server has read its settings", within: .seconds(30)) {
                try await HealthCheck.settings.findings(in: connection)
                    + HealthCheck.readOnly.findings(in: connection)
            } until: {
                $0.count == 4
            }
            #expect(
                looked.map(\.subject) == [
                    "client_min_messages", "default_transaction_isolation of all roles", "log_statement",
                    "default_transaction_read_only",
                ])
            // The session is read-only, for which this one remedy is not meant.
            try await connection.carryOut(looked.filter { !$0.subject.hasSuffix("all roles") })
            try await connection.runScript(
                "begin read write; alter role all reset default_transaction_isolation; commit")
        }
        try await withConnection(to: server) { connection in
            try await eventually("all are gone", within: .seconds(30)) {
                let left = try await HealthCheck.settings.findings(in: connection)
                return try await HealthCheck.readOnly.findings(in: connection).isEmpty && left.isEmpty
            }
        }
        try await server.stop(.immediate)
    }

    @Test func `is none if the login's own value for this database replaces it, or if the login may not use pushq`()
        async throws
    {
        try await withDatabase { _, database in
            let owner = try await Self.named("role $login", in: database)
            let looking = try await database.connect()
            try await looking.runScript(
                """
                create role stranger_\(database.name) login;
                alter role stranger_\(database.name) set synchronous_commit = off;
                alter \(owner) set synchronous_commit = off;
                alter \(owner) in database \(database.name) set synchronous_commit = on
                """)
            #expect(try await Self.findings(of: "_\(database.name)", in: looking) == [])
        }
    }

    /// Creates the login, and inserts its name and the database's.
    private static func named(_ owner: String, in database: TestDatabase) async throws -> String {
        let login = "login_\(database.name)"
        try await database.connect().runScript("create role \(login) login superuser")
        return owner.replacing("$login", with: login).replacing("$database", with: database.name)
    }

    /// What the check says about this owner. The tests share the server, so that others' roles may be found, too.
    private static func findings(of owner: String, in connection: PostgresConnection) async throws -> [HealthFinding] {
        try await HealthCheck.settings.findings(in: connection).filter { $0.subject.hasSuffix(owner) }
    }
}
