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

    @Test func `are kept for the tenant with the longest time, which is the usual one without a setting`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let longest = "select concat_ws(' ', keep, keep_feedback) from pushq.longest_retention(7, 30)"
            for (change, kept) in [
                ("select", "7 30"), ("update pushq.tenant set history_days = 2, feedback_days = 60", "2 60"),
                ("insert into pushq.tenant (name) values ('other')", "7 60"),
                ("update pushq.tenant set history_days = 3, feedback_days = 4", "3 4"),
                (
                    """
                    insert into pushq.tenant_move (tenant, id, leaves, stage, peer, history_days)
                    values ('third', gen_random_uuid(), false, 'copying', 'elsewhere', 5)
                    """, "5 30"
                ),
                ("delete from pushq.tenant_move", "3 4"),
            ] {
                try await queue.run(change)
                #expect(try await queue.texts(longest) == [kept], "\(change)")
            }
            // A worker names the default, and cannot have dropped by it what a tenant's setting keeps.
            #expect(
                try await queue.texts("select concat_ws(' ', keep, keep_feedback) from pushq.longest_retention(-9, -9)")
                    == ["3 4"])
        }
        try await withDatabase { _, database in
            let connection = try await database.connect()
            for (usual, kept) in [("7, 30", [7, 30]), ("0, -9", [1, 1])] {
                let row = try await connection.execute(
                    Statement(
                        "longest \(usual)", "select keep, keep_feedback from pushq.longest_retention(\(usual))")
                ).one()
                #expect([row.int4("keep"), row.int4("keep_feedback")] == kept.map { Int32($0) }, "without tenants")
            }
        }
    }
}
