import PostgresStore
import TestSupport
import Testing

@Suite struct `A duty of the fleet` {
    private static let duty = [(name: "figures", longestPause: Duration.zero)]

    @Test func `that a worker took without learning it is taken again by that worker at once, and by no other`()
        async throws
    {
        try await withDatabase { _, database in
            let connection = try await database.connect()
            func take(_ workerID: Int64) async throws -> String? {
                try await connection.takeDuty(Self.duty, workerID: workerID, lease: .seconds(60))
            }
            #expect(try await take(1) == "figures")
            #expect(try await take(2) == nil)
            #expect(try await take(1) == "figures", "the answer may have been lost")
            try await connection.finishDuty("figures", workerID: 1, pause: .zero)
            #expect(try await take(2) == "figures")
            #expect(try await take(1) == nil)
        }
    }
}
