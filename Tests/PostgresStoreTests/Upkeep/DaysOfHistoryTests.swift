import Foundation
import TestSupport
import Testing

@testable import PostgresStore

@Suite struct `The days of history` {
    /// A plan may compute the day of any table in the catalog before it checks that the table is one of history.
    @Test(arguments: ["hashjoin", "mergejoin", "nestloop"])
    func `are found by any plan, and other tables in the catalogue are passed over`(join: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let others = ["hashjoin", "mergejoin", "nestloop"].filter { $0 != join }
            try await queue.run(
                """
                set enable_indexscan = off; set enable_bitmapscan = off;
                set enable_\(others[0]) = off; set enable_\(others[1]) = off;
                create table pushq.body_of_notes (note text)
                """)
            let (before, after) = (Date(timeIntervalSince1970: 0), Date(timeIntervalSinceNow: 86_400))
            let name = QueueFixture.name
            #expect(
                try await queue.connection.feedback(ofQueue: name, since: before, until: after, limit: 10).isEmpty)
            let days = try await queue.number("select count(distinct day) from pushq.days_of_history()")
            #expect(days > 3)
            for call in [
                "pushq.days_to_clear(pushq.today() + 1, 14, 30)", "pushq.partitions_to_drop(pushq.today() + 1, 14, 30)",
                "pushq.has_old_days(pushq.today(), 14)",
            ] {
                #expect(try await queue.number("select count(*) from \(call)") >= 0, "\(call)")
            }
        }
    }
}
