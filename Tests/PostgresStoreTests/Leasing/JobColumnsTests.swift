import Foundation
import PostgresStore
import TestSupport
import Testing

/// Checks that no insert forgets a column. A job moves between `job` and `lease`, and retries create jobs from others.
/// A forgotten column of a job would be lost; one of a message would have no effect.
@Suite(.timeLimit(.minutes(10))) struct `The columns of a job` {
    /// The columns that each insert omits on purpose, because they have the default of a new job or a new lease.
    private static let leftOut: [String: Set<String>] = [
        "migrations/functions/make_jobs.sql": ["attempt", "outcomes", "is_quiet"],
        "migrations/functions/send.sql": [
            "campaign_id", "attempt", "losses", "epoch", "outcomes", "is_quiet", "watermark",
        ],
        "migrations/functions/make_sends.sql": [
            "campaign_id", "attempt", "losses", "epoch", "outcomes", "is_quiet", "watermark",
        ],
        "migrations/functions/recipients.sql": ["outcomes", "is_quiet"],
        "migrations/functions/restore.sql": [],
        "Sources/PostgresStore/Settling/ContinuingJobs.swift": ["epoch", "watermark", "outcomes"],
        "Sources/PostgresStore/Settling/Yield.swift": ["is_quiet"],
        "Sources/PostgresStore/Settling/SetAside.swift": ["is_quiet"],
        "Sources/PostgresStore/Leasing/Rescue.swift": ["is_quiet"],
        "Sources/PostgresStore/Leasing/Claim.swift": ["flush"],
    ]

    /// The columns of a message that each insert omits on purpose.
    private static let leftOutOfMessages: [String: Set<String>] = [
        "migrations/functions/new_message.sql": ["day", "id", "is_broadcast", "created_at"],
        "migrations/functions/send_many.sql": [
            "day", "is_broadcast", "created_at", "languages", "translations", "translated_bytes", "placeholders",
        ],
        "migrations/functions/send.sql": [
            "is_broadcast", "created_at", "languages", "translations", "translated_bytes", "placeholders", "user_key",
            "replaces",
        ],
        "migrations/functions/make_sends.sql": [
            "is_broadcast", "created_at", "languages", "translations", "translated_bytes", "placeholders", "user_key",
        ],
        "migrations/functions/channels.sql": [
            "day", "id", "created_at", "languages", "translations", "translated_bytes", "placeholders", "user_key",
            "collapse_id", "at_most_once", "traceparent", "badge_increment",
        ],
    ]

    private struct Insert {
        let path: String
        let table: String
        let columns: Set<String>
    }

    /// All inserts into these tables, in SQL and Swift files.
    private func inserts(into tables: [String]) throws -> [Insert] {
        let root = URL(fileURLWithPath: #filePath)
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        return try ["migrations", "Sources/PostgresStore"].flatMap { folder in
            try FileManager.default.subpathsOfDirectory(atPath: root.appending(path: folder).path)
                .filter { $0.hasSuffix(".sql") || $0.hasSuffix(".swift") }
                .flatMap { name in
                    let path = "\(folder)/\(name)"
                    let text = try String(contentsOf: root.appending(path: path), encoding: .utf8)
                    return text.matches(of: /insert into pushq\.(job|lease|message) \(([a-z_,\s]+)\)/).map { match in
                        let columns = match.output.2.split { $0 == "," || $0.isWhitespace }.map(String.init)
                        return Insert(path: path, table: String(match.output.1), columns: Set(columns))
                    }.filter { tables.contains($0.table) }
                }
        }
    }

    private static let columns = Statement(
        "columns",
        "select attname::text from pg_attribute where attrelid = $1::text::regclass and attnum > 0 and not attisdropped"
    )

    @Test func `are all in each insert that moves or makes jobs, but for those that are left out on purpose`()
        async throws
    {
        try await expectColumns(of: inserts(into: ["job", "lease"]), toLack: Self.leftOut)
    }

    @Test func `are all in each insert that makes messages, but for those that are left out on purpose`() async throws {
        try await expectColumns(of: inserts(into: ["message"]), toLack: Self.leftOutOfMessages)
    }

    private func expectColumns(of inserts: [Insert], toLack leftOut: [String: Set<String>]) async throws {
        #expect(Set(inserts.map(\.path)) == Set(leftOut.keys), "inserts have moved")
        try await withDatabase { _, database in
            let store = try await database.connect()
            for insert in inserts {
                let rows = try await store.execute(Self.columns, [.text("pushq.\(insert.table)")])
                let missing = Set(rows.map { $0.text("attname") }).subtracting(insert.columns)
                #expect(
                    missing == leftOut[insert.path],
                    "the insert into pushq.\(insert.table) in \(insert.path) must carry a new column, or this test list it"
                )
            }
        }
    }
}
