import Foundation
import PostgresStore
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `The takeovers by standbys` {
    @Test func `are those of 30 days since the last restore, and the first server took over from nobody`() async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            func upTo() async throws -> [Double] {
                try await queue.connection.takeovers().map(\.upTo.timeIntervalSince1970)
            }
            func copy(isRestore: Bool, backTo: String, age: String = "1 minute") async throws {
                try await queue.run(
                    """
                    insert into pushq.lineage (name, is_restore, back_to, found_at, old_id)
                    values ('1/2/3/4', \(isRestore), '\(backTo)', now() - interval '\(age)', 0)
                    """)
            }
            #expect(try await upTo() == [])
            try await copy(isRestore: false, backTo: "1970-01-01T00:00:06Z", age: "31 days")
            #expect(try await upTo() == [])
            try await copy(isRestore: false, backTo: "1970-01-01T00:00:07Z", age: "29 days")
            try await copy(isRestore: false, backTo: "1970-01-01T00:00:08Z")
            #expect(try await upTo() == [7, 8], "changes were lost at each of them")
            try await copy(isRestore: true, backTo: "1970-01-01T00:00:09Z")
            #expect(try await upTo() == [])
            try await copy(isRestore: false, backTo: "1970-01-01T00:00:10Z")
            #expect(try await upTo() == [10])
        }
    }
}
