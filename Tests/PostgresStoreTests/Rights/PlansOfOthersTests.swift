import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// The planner estimates by the statistics of whole tables, which have values of all tenants.
extension `A login of one tenant` {
    @Test func `is told nothing of a neighbour's values by the plan of a query`() async throws {
        try await withNeighbours { _, database, neighbours in
            // What is frequent is in PostgreSQL's statistics with its value.
            try await neighbours.admin.runScript(
                """
                insert into pushq.device (queue_id, token, user_key)
                select pushq.queue_id('beta/com.beta/production'), int8send(i), case when i % 2 = 0 then 'anna' else 'carl' end
                from generate_series(1, 2000) i;
                insert into pushq.feedback (queue_id, device_id, reason, reported_at, verdict, cursor, listed_at)
                select queue_id, id, 66, now(), 'kept', id, now() from pushq.device;
                update pushq.queue set paused_at = now(), paused_reason = 'owes us money'
                where id = pushq.queue_id('beta/com.beta/production');
                update pushq.campaign set paused_at = now(), paused_reason = 'owes us money', filter = 'tag "rich"',
                                          filter_tree = '{}';
                analyze
                """)
            let columns = try await neighbours.producer.execute(
                Statement(
                    "columns",
                    """
                    select table_name::text as view, column_name::text as name
                    from information_schema.columns
                    where table_schema = 'pushq' and starts_with(table_name, 'my_') and data_type = 'text'
                    """)
            ).map { (view: $0.text("view"), name: $0.text("name")) }
            #expect(columns.count > 12)
            for settings in ["", "set enable_nestloop = off; set enable_indexscan = off; set enable_bitmapscan = off"] {
                try await neighbours.producer.runScript("select 1; \(settings)")
                for column in columns {
                    for sign in ["=", "<"] {
                        func plan(_ value: String) async throws -> String {
                            let query =
                                "explain select 1 from pushq.\(column.view) where \(column.name) \(sign) '\(value)'"
                            let lines = try await neighbours.producer.execute(Statement(settings + query, query))
                            return lines.map { $0.text("QUERY PLAN") }.joined(separator: "\n")
                                .replacing(value, with: "VALUE")
                        }
                        let other = try await plan("nothing of the kind")
                        for value in [
                            "beta", "beta/com.beta/production", "com.beta", "sale", "owes us money", #"tag "rich""#,
                            "anna",
                        ] {
                            #expect(try await plan(value) == other, "\(column.view).\(column.name) \(sign) \(value)")
                        }
                    }
                }
            }
        }
    }
}
