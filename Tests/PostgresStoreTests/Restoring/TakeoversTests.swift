import Foundation
import PostgresStore
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `The last takeover by a standby` {
    @Test func `is that since the last restore, and the first server of a database took over from nobody`() async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            func upTo() async throws -> Date? { try await queue.connection.lastTakeover()?.upTo }
            func copy(isRestore: Bool, backTo: String) async throws {
                try await queue.run(
                    """
                    insert into pushq.lineage (name, is_restore, back_to, old_id)
                    values ('1/2/3/4', \(isRestore), '\(backTo)', 0)
                    """)
            }
            #expect(try await upTo() == nil)
            try await copy(isRestore: false, backTo: "1970-01-01T00:00:07Z")
            try await copy(isRestore: false, backTo: "1970-01-01T00:00:08Z")
            #expect(try await upTo() == Date(timeIntervalSince1970: 8))
            try await copy(isRestore: true, backTo: "1970-01-01T00:00:09Z")
            #expect(try await upTo() == nil)
            try await copy(isRestore: false, backTo: "1970-01-01T00:00:10Z")
            #expect(try await upTo() == Date(timeIntervalSince1970: 10))
        }
    }
}
