import QueueCore
import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// Files are long, and most of them say each night what they said the night before.
@Suite struct `An import that changes nothing` {
    private static let header =
        "token,user_key,kind,locale,time_zone,app_version,tags,attributes,installation,first_seen_at,seen_at\n"
    private static let file =
        header
        + (0..<100).map {
            """
            aa\($0 + 1000),user \($0),alert,de-at,Europe/Vienna,4.1,b|a,"{""plan"": ""pro""}",phone \($0),\
            2026-01-01T00:00:00Z,2026-02-01T00:00:00Z

            """
        }.joined()

    /// A row that is only locked has another `xmax` afterwards.
    private static let rows = """
        select sum(hashtextextended(concat_ws(' ', r.ctid, r.xmin, r.xmax), 0) / 1000)
        from (select ctid, xmin, xmax from pushq.device union all select ctid, xmin, xmax from pushq.profile) r
        """

    @Test func `writes and locks no row`() async throws {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database)
            func add(_ file: String) async throws -> DeviceImportSummary {
                try await queue.connection.importDevices(
                    from: .text(file), inQueue: QueueFixture.name, reactivates: false
                ) { _ in }
            }
            #expect(try await add(Self.file).profiles == 100)
            let before = try await queue.number(Self.rows)
            let again = try await add(Self.file)
            #expect(again.unchanged == 100 && again.profiles == 0)
            #expect(try await queue.number("\(Self.rows) -- afterwards") == before)

            let line = try #require(Self.file.split(separator: "\n").last).replacing("4.1", with: "4.2")
            #expect(try await add("\(Self.file)\(line)\n").profiles == 1)
            let versions = "select count(*) from pushq.profile p where p.app_version = '4.2'"
            #expect(try await queue.number(versions) == 1)
        }
    }

    @Test func `reads no line for a queue that does not exist`() async throws {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database)
            let other = QueueName(tenant: "acme", app: "com.other", environment: .sandbox)
            var read = 0
            let error = await #expect(throws: PostgresError.self) {
                _ = try await queue.connection.importDevices(
                    from: .text(Self.file), inQueue: other, reactivates: false
                ) { read = $0 }
            }
            #expect("\(try #require(error))".contains("there is no queue"))
            #expect(read == 0)
        }
    }
}
