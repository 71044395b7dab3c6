import Foundation
import TestSupport
import Testing

@testable import PostgresStore

/// Tests the extension that counts the statements of all logins, installed as in docs/tuning-postgres.md.
@Suite(.timeLimit(.minutes(10))) struct `The statistics of statements` {
    /// The statements on the page that install the extension.
    private static func statements() throws -> String {
        let page = try String(
            contentsOf: URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
                .deletingLastPathComponent().deletingLastPathComponent().appending(path: "docs/tuning-postgres.md"),
            encoding: .utf8)
        let block = page.firstMatch(of: /```sql\n(create extension[^`]*)```/)?.output.1
        return String(try #require(block))
    }

    /// If the server has not loaded the library, a login with the rights gets an error that says so.
    @Test func `are for operators, and not for the logins of tenants`() async throws {
        try await withDatabase { _, database in
            let admin = try await database.connect()
            _ = try await admin.createTenant("acme")
            try await admin.runScript(
                "create role shop_\(database.name) login; create role watcher_\(database.name) login; "
                    + "grant pg_read_all_stats to watcher_\(database.name)")
            try await admin.grantTenant("acme", to: "shop_\(database.name)", isReadOnly: false)
            for _ in 1...2 { try await admin.runScript(try Self.statements()) }
            let producer = try await database.connect(login: "shop_\(database.name)")
            let watcher = try await database.connect(login: "watcher_\(database.name)")
            for source in [
                "pg_stat_statements", "pg_stat_statements_info", "pg_stat_statements(true)",
                "pg_stat_statements(false)", "pg_stat_statements_info()",
            ] {
                let statement = Statement("look", "select count(*) from \(source)")
                let refused = await #expect(throws: PostgresError.self, "\(source)") {
                    try await producer.execute(statement)
                }
                #expect(refused?.isNotAllowed == true, "\(source): \(refused as Any)")
                let missing = await #expect(throws: PostgresError.self, "\(source)") {
                    try await watcher.execute(statement)
                }
                #expect(missing?.description.contains("shared_preload_libraries") == true, "\(missing as Any)")
            }
        }
    }
}
