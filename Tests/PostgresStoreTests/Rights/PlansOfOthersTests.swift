import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// The planner estimates with the statistics of whole tables, which contain values of all tenants. `explain analyze`
/// tells how many rows of a table match a condition, if the condition is evaluated where the table is read.
extension `A login of one tenant` {
    /// A column of a view, with a value that only the other tenant has there, the next value above it, and a value far
    /// from all others. No tenant has the last two.
    private struct ForeignValue {
        let view: String
        let column: String
        let value: String
        let next: String
        let far: String
    }

    /// For every type in the views, the next value and a value far from all others. Booleans are left out, because
    /// every boolean occurs.
    private static let nobodys: [String: (next: String, far: String)] = [
        "text": (next: "value || '!'", far: "'nothing of the kind'"),
        "timestamp with time zone": ("value + interval '1 microsecond'", "timestamptz '1999-01-01'"),
        "bigint": ("value + 1", "-7"), "numeric": ("value + 1", "-7"), "real": ("value + 1", "-7"),
        "double precision": ("value + 1", "-7"),
        "uuid": ("translate(value::text, '0123456789abcdef', '123456789abcdef0')", "gen_random_uuid()"),
    ]

    /// The values that a login sees in a view, as text.
    private func values(
        _ column: String, of view: String, type: String, _ login: PostgresConnection
    ) async throws -> [(value: String, next: String, far: String)] {
        let nobodys = try #require(Self.nobodys[type], "a value of type \(type) that nobody has in \(view).\(column)")
        return try await login.execute(
            Statement(
                "values \(view).\(column)",
                """
                select value::text as value, (\(nobodys.next))::text as next, (\(nobodys.far))::text as far
                from (select distinct \(column) as value from pushq.\(view) where \(column) is not null limit 3) v
                """)
        ).map { ($0.text("value"), $0.text("next"), $0.text("far")) }
    }

    private func foreignValues(_ own: PostgresConnection, _ neighbour: PostgresConnection) async throws
        -> [ForeignValue]
    {
        let columns = try await own.execute(
            Statement(
                "columns",
                """
                select table_name::text as view, column_name::text as name, data_type::text as type
                from information_schema.columns
                where table_schema = 'pushq' and starts_with(table_name, 'my_') and data_type <> 'boolean'
                """)
        ).map { (view: $0.text("view"), name: $0.text("name"), type: $0.text("type")) }
        var found: [ForeignValue] = []
        for column in columns {
            let seen = try await values(column.name, of: column.view, type: column.type, own).map(\.value)
            let foreign = try await values(column.name, of: column.view, type: column.type, neighbour)
                .filter { !seen.contains($0.value) }
            #expect(!foreign.isEmpty || column.name == "environment", "\(column.view).\(column.name) is not tried")
            found += foreign.map {
                ForeignValue(view: column.view, column: column.name, value: $0.value, next: $0.next, far: $0.far)
            }
        }
        return found
    }

    @Test func `is told nothing of a neighbour's values by the plan of a query, nor by its rows`() async throws {
        try await withNeighbours { _, database, neighbours in
            // PostgreSQL's statistics contain frequent values. The login's own tenant has rows too, because without
            // rows nothing would be read.
            try await neighbours.admin.runScript(
                """
                select pushq.start_campaign('acme/com.acme/production', 'own', \(Self.payload));
                insert into pushq.device (queue_id, token, user_key)
                select pushq.queue_id('acme/com.acme/production'), int8send(i), 'otto' from generate_series(1, 20) i;
                insert into pushq.device (queue_id, token, user_key)
                select pushq.queue_id('beta/com.beta/production'), int8send(-i), case when i % 2 = 0 then 'anna' else 'carl' end
                from generate_series(1, 2000) i;
                insert into pushq.feedback (queue_id, device_id, reason, reported_at, verdict, cursor, listed_at)
                select queue_id, id, 1, now() - interval '1 day', 'deactivated', id, now() - interval '1 day'
                from pushq.device
                where user_key = 'otto';
                insert into pushq.feedback (queue_id, device_id, reason, reported_at, recorded_at, verdict, root_id, cursor,
                                            listed_at)
                select d.queue_id, d.id, 2, now(), now() + interval '1 second', 'kept', c.id, d.id, now()
                from pushq.device d
                join pushq.campaign c on c.queue_id = d.queue_id and c.key = 'sale'
                where d.user_key in ('anna', 'carl');
                update pushq.tenant set suspended_at = now() where name = 'beta';
                update pushq.queue set paused_at = now(), paused_reason = 'owes us money'
                where id = pushq.queue_id('beta/com.beta/production');
                insert into pushq.rate_limit (tenant_id, queue_id, campaign_id, rate, burst)
                select tenant_id, id, 0, 4321, 4322 from pushq.queue
                where id = pushq.queue_id('beta/com.beta/production');
                insert into pushq.rate_limit (tenant_id, queue_id, campaign_id, rate, burst)
                select q.tenant_id, q.id, c.id, 4323, 4324 from pushq.queue q
                join pushq.campaign c on c.queue_id = q.id and c.key = 'sale';
                update pushq.campaign
                set paused_at = now(), paused_reason = 'owes us money', filter = 'tag "rich"', filter_tree = '{}',
                    cancelled_at = now() + interval '2 seconds', stop_at_errors = 0.25
                where key = 'sale';
                update pushq.fan_out
                set done_at = now() + interval '3 seconds', held_out = 801, made = 2400, not_made = 60
                where queue_id = pushq.queue_id('beta/com.beta/production');
                update pushq.campaign_tally
                set delivered = 110, rejected = 120, failed = 130, suppressed = 140, expired = 150, cancelled = 160,
                    unknown = 170, retried = 180
                where queue_id = pushq.queue_id('beta/com.beta/production');
                analyze
                """)
            let neighbour = try await database.connect(login: "neighbour_\(database.name)")
            let foreign = try await foreignValues(neighbours.producer, neighbour)
            let login = neighbours.producer
            let noIndexes = "set enable_indexscan = off; set enable_bitmapscan = off; set enable_indexonlyscan = off"
            for settings in [
                "set max_parallel_workers_per_gather = 0",
                "\(noIndexes); set enable_nestloop = off; set enable_mergejoin = off",
                "reset enable_nestloop; set enable_hashjoin = off", "set join_collapse_limit = 1",
                "reset enable_hashjoin; reset enable_indexscan; reset enable_bitmapscan; set enable_seqscan = off",
            ] {
                try await login.runScript("select 1; \(settings)")
                for one in foreign {
                    /// The plan of a query with a condition, and what was read, without the text of the condition.
                    func plan(_ sign: String, _ value: String) async throws -> String {
                        let literal = "'" + value.replacing("'", with: "''") + "'"
                        let query = """
                            explain (analyze, timing off, summary off, buffers off)
                            select 1 from pushq.\(one.view) where \(one.column) \(sign) \(literal)
                            """
                        return try await login.execute(Statement(query, query)).map { $0.text("QUERY PLAN") }
                            .filter { !$0.contains("Cond: ") && !$0.contains("Filter: (") }
                            .joined(separator: "\n")
                    }
                    let name = "\(one.view).\(one.column)"
                    let equal = try await plan("=", one.value)
                    #expect(equal == (try await plan("=", one.far)), "\(settings): \(name) = \(one.value)")
                    #expect(equal == (try await plan("=", one.next)), "\(settings): \(name) = \(one.value)")
                    let less = try await plan("<", one.value)
                    #expect(less == (try await plan("<", one.next)), "\(settings): \(name) < \(one.value)")
                }
            }
        }
    }
}
