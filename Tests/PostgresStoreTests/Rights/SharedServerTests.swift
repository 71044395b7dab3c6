import QueueCore
import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// Tests the information that PostgreSQL shows to every login. docs/security.md says what a tenant can learn from it.
extension `A login of one tenant` {
    @Test func `learns nothing of a neighbour by what PostgreSQL shows to everybody`() async throws {
        try await withNeighbours { _, database, neighbours in
            // The neighbour's login is working, and its transaction is open.
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

    /// The ID of a worker is the only secret part of its channel's name.
    @Test func `hears nothing of a neighbour's campaign, of which workers are told`() async throws {
        try await withNeighbours { _, database, neighbours in
            let neighbour = try await database.connect(login: "neighbour_\(database.name)")
            try await neighbours.admin.runScript("insert into pushq.worker (id, name, version) values (4711, 'w', '1')")
            var (heard, told) = ([String](), [String]())
            neighbours.producer.onNotification = { heard.append("\($0) \($1)") }
            try await neighbours.producer.runScript(
                "listen pushq; listen pushq_; listen pushq_0; listen beta; listen mine")
            neighbours.admin.onNotification = { told.append("\($0) \($1)") }
            try await neighbours.admin.listen(to: Notice.channel(of: 4711))
            try await neighbour.runScript(
                "select pushq.pause_campaign('beta/com.beta/production', 'sale'); notify mine")
            try await eventually("the notifications") {
                _ = await answer(neighbours.admin, "1")
                _ = await answer(neighbours.producer, "1")
                return !told.isEmpty && !heard.isEmpty
            }
            #expect(heard == ["mine "])
            #expect(told == ["pushq_4711 root \(neighbours.campaign)"])
            #expect(
                Notice(payload: String(told[0].split(separator: " ", maxSplits: 1)[1])) == .root(neighbours.campaign))
            #expect(
                await answer(neighbours.producer, "(select string_agg(id::text, ',') from pushq.worker)")
                    .contains("permission denied"))
        }
    }
}
