import QueueCore
import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// What PostgreSQL shows to every login: docs/security.md says what of it a tenant can learn.
extension `A login of one tenant` {
    @Test func `learns nothing of a neighbour by what PostgreSQL shows to everybody`() async throws {
        try await withNeighbours { _, database, neighbours in
            // The neighbour's login is at work, and its transaction is open.
            let neighbour = try await database.connect(login: "neighbour_\(database.name)")
            let queue = "'beta/com.beta/production'"
            try await neighbour.runScript(
                """
                begin;
                select pushq.register_device(\(queue), '\(Self.token)', 'bert', installation => 'i7');
                select pushq.send(\(queue), \(Self.payload), user_key => 'bert', key => 'order-2')
                """)
            for query in [
                """
                string_agg(to_jsonb(l)::text, ' ') from pg_locks l
                where database = (select oid from pg_database where datname = current_database())
                """,
                "string_agg(to_jsonb(a)::text, ' ') from pg_stat_activity a where usename = 'neighbour_\(database.name)'",
                "string_agg(to_jsonb(s)::text, ' ') from pg_stats s where schemaname = 'pushq'",
                "string_agg(to_jsonb(s)::text, ' ') from pg_sequences s where schemaname = 'pushq' and last_value > 0",
            ] {
                let shown = await answer(neighbours.producer, query)
                let isTold = shown.contains(/anna|bert|sale|order-|com\.beta|pushq\.send|b1b1|advisory/)
                #expect(!isTold, "\(query): \(shown)")
            }
            for query in ["last_value from pushq.id", "last_value from pushq.lane", "nextval('pushq.id')"] {
                let shown = await answer(neighbours.producer, query)
                #expect(shown.contains("permission denied"), "\(query): \(shown)")
            }
        }
    }

    @Test func `is shown no row by a plan, and no plan for a table`() async throws {
        try await withNeighbours { _, database, neighbours in
            try await neighbours.producer.runScript(
                """
                create function pg_temp.plan(query text) returns text language plpgsql as $$
                declare
                  line  text;
                  lines text := '';
                begin
                  for line in execute 'explain (verbose) ' || query loop lines := lines || line || e'\\n'; end loop;
                  return lines;
                end $$
                """)
            for view in ["my_queues", "my_campaigns", "my_feedback"] {
                let plan = await answer(neighbours.producer, "pg_temp.plan('select * from pushq.\(view)')")
                #expect(plan.contains("rows=") && !plan.contains(/anna|sale|com\.beta/), "\(plan)")
            }
            for table in ["device", "campaign", "tenant"] {
                let plan = await answer(neighbours.producer, "pg_temp.plan('select * from pushq.\(table)')")
                #expect(plan.contains("permission denied"), "\(plan)")
            }
        }
    }

    @Test func `hears of a neighbour's campaign only a number`() async throws {
        try await withNeighbours { _, database, neighbours in
            let neighbour = try await database.connect(login: "neighbour_\(database.name)")
            var heard: [String] = []
            neighbours.producer.onNotification = { heard.append("\($0) \($1)") }
            try await neighbours.producer.runScript("listen pushq; listen beta")
            try await neighbour.runScript("select pushq.pause_campaign('beta/com.beta/production', 'sale')")
            try await eventually("a notification") {
                _ = await answer(neighbours.producer, "1")
                return !heard.isEmpty
            }
            #expect(heard.allSatisfy { $0.wholeMatch(of: /pushq root \d+/) != nil }, "\(heard)")
        }
    }
}
