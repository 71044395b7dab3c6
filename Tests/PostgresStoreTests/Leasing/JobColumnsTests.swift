import Foundation
import PostgresStore
import TestSupport
import Testing

/// A job moves between `job` and `lease`, and makes jobs for retries. A column that a statement forgets would be lost
/// on the way.
@Suite(.timeLimit(.minutes(10))) struct `The columns of a job` {
    /// What each insert leaves out on purpose: the column has the default of a new job, or of a new lease.
    private static let leftOut: [String: Set<String>] = [
        "migrations/functions/make_jobs.sql": ["attempt", "rescues", "outcomes", "is_quiet"],
        "migrations/functions/restore.sql": [],
        "Sources/PostgresStore/Settling/Ending.swift": ["epoch", "watermark", "outcomes"],
        "Sources/PostgresStore/Settling/Yield.swift": ["is_quiet"],
        "Sources/PostgresStore/Settling/SetAside.swift": ["is_quiet"],
        "Sources/PostgresStore/Leasing/Rescue.swift": ["is_quiet"],
        "Sources/PostgresStore/Leasing/Claim.swift": ["flush"],
    ]

    private struct Insert {
        let path: String
        let table: String
        let columns: Set<String>
    }

    /// All inserts into the two tables, in SQL and in Swift.
    private func inserts() throws -> [Insert] {
        let root = URL(fileURLWithPath: #filePath)
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        return try ["migrations", "Sources/PostgresStore"].flatMap { folder in
            try FileManager.default.subpathsOfDirectory(atPath: root.appending(path: folder).path)
                .filter { $0.hasSuffix(".sql") || $0.hasSuffix(".swift") }
                .flatMap { name in
                    let path = "\(folder)/\(name)"
                    let text = try String(contentsOf: root.appending(path: path), encoding: .utf8)
                    return text.matches(of: /insert into pushq\.(job|lease) \(([a-z_,\s]+)\)/).map { match in
                        let columns = match.output.2.split { $0 == "," || $0.isWhitespace }.map(String.init)
                        return Insert(path: path, table: String(match.output.1), columns: Set(columns))
                    }
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
        let inserts = try inserts()
        #expect(Set(inserts.map(\.path)) == Set(Self.leftOut.keys), "inserts into pushq.job and pushq.lease have moved")
        try await withDatabase { _, database in
            let store = try await database.connect()
            for insert in inserts {
                let rows = try await store.execute(Self.columns, [.text("pushq.\(insert.table)")])
                let missing = Set(rows.map { $0.text("attname") }).subtracting(insert.columns)
                #expect(
                    missing == Self.leftOut[insert.path],
                    "the insert into pushq.\(insert.table) in \(insert.path) must carry a new column, or this test list it"
                )
            }
        }
    }
}
