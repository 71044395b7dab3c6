import QueueCore
import TestSupport
import Testing
import Transport

@testable import PostgresStore

@Suite(.timeLimit(.minutes(10))) struct `Removing a tenant` {
    private static let payload = #"'{"aps":{"alert":"x"}}'"#

    /// Returns SQL that gives a queue and its tenant rows in every table with a queue or tenant.
    static func fill(_ queue: String) -> String {
        """
        create temporary view named as select * from pushq.queue_name where name = '\(queue)';
        insert into pushq.tenant_login (login, tenant_id) select 'shop', tenant_id from named;
        insert into pushq.tenant_quota (tenant_id, max_devices, max_calls)
        select tenant_id, 100000, 1000000 from named;
        insert into pushq.tenant_usage (tenant_id) select tenant_id from named;
        insert into pushq.call (tenant_id) select tenant_id from named;
        insert into pushq.credential (tenant_id, name, kind, team_id, key_id, environments, sealed)
        select tenant_id, 'main', 'token', 'TEAM123456', 'KEY1234567', '{sandbox}', 'secret' from named;
        update pushq.queue q set credential_id = c.id from pushq.credential c where c.tenant_id = q.tenant_id;
        insert into pushq.webhook (tenant_id, url, sealed) select tenant_id, 'https://a.example/', 'secret' from named;
        insert into pushq.webhook_progress (tenant_id, cursor, newest) select tenant_id, 0, 0 from named;
        insert into pushq.rate_limit (tenant_id, rate, burst) select tenant_id, 1000, 1000 from named;
        drop view named;
        \(fillQueue(queue))
        """
    }

    /// Returns SQL that gives a queue rows in every table with a queue.
    private static func fillQueue(_ queue: String) -> String {
        """
        insert into pushq.rate_limit (tenant_id, queue_id, rate, burst)
        select tenant_id, queue_id, 1000, 1000 from pushq.queue_name where name = '\(queue)';
        insert into pushq.judgement values (pushq.queue_id('\(queue)'), now(), false);
        insert into pushq.feedback_poll (queue_id) values (pushq.queue_id('\(queue)'));
        insert into pushq.feedback_record (queue_id, token, reason, reported_at)
        values (pushq.queue_id('\(queue)'), 'x', 1, now());
        insert into pushq.feedback (queue_id, device_id, reason, reported_at, verdict)
        select queue_id, id, 1, now(), 'kept' from pushq.device where queue_id = pushq.queue_id('\(queue)') limit 1;
        insert into pushq.lineage (name, is_restore, back_to, old_id) values ('1/2/3/4', true, now(), 0);
        insert into pushq.restored_queue (queue_id, lineage_id)
        select pushq.queue_id('\(queue)'), max(id) from pushq.lineage;
        insert into pushq.stuck_job (queue_id, job_id, problem) values (pushq.queue_id('\(queue)'), 1, 'refused');
        insert into pushq.wave (queue_id, campaign_id, due_at, device_ids)
        values (pushq.queue_id('\(queue)'), 1, now(), '{1}');
        insert into pushq.throughput (worker_id, queue_id, seconds) values (1, pushq.queue_id('\(queue)'), 1);
        insert into pushq.newest_update values (pushq.queue_id('\(queue)'), 1, now(), 1);
        insert into pushq.frequency_cap (queue_id, pushes) values (pushq.queue_id('\(queue)'), 3);
        insert into pushq.quiet_hours (queue_id, hours) values (pushq.queue_id('\(queue)'), '22:00-08:00');
        insert into pushq.recent_push values (pushq.queue_id('\(queue)'), 1, '{}', '{}', '{}');
        insert into pushq.badge values (pushq.queue_id('\(queue)'), 1, 1);
        select pushq.register_channel('\(queue)', 'dGhlaXJz', 0);
        select pushq.save_audience('\(queue)', 'vips', 'tag ''vip''');
        select pushq.add_schedule('\(queue)', 'weekly', '@weekly', \(payload));
        select pushq.register_device('\(queue)', 'aa', 'ann', locale => 'de');
        select pushq.start_campaign('\(queue)', 'all', \(payload), holdout => 0.1);
        select pushq.add_to_list('\(queue)', pushq.new_list('\(queue)'), array['aa', 'bb']);
        select pushq.add_users_to_list('\(queue)', pushq.new_list('\(queue)'), array['ann', 'nobody']);
        select pushq.send('\(queue)', \(payload), user_key => 'nobody');
        select pushq.cancel('\(queue)', pushq.send('\(queue)', \(payload), tokens => array['aa'], key => 'order-1'))
        """
    }

    /// The tables with rows of a tenant or its queue, and the number of these rows. The catalog names the tables, so
    /// none is forgotten.
    private static let rows = #"""
        create function public.rows_of(tenant int, queue int) returns table (name text, count bigint) language plpgsql as $$
        declare
          place record;
        begin
          for place in
            select c.relname, a.attname
            from pg_class c
            join pg_attribute a on a.attrelid = c.oid and a.attname in ('queue_id', 'tenant_id')
            where c.relnamespace = 'pushq'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
            union all
            values ('tenant', 'id')
          loop
            return query execute format('select %L, count(*) from pushq.%I where %I = %s', place.relname || '.' || place.attname,
              place.relname, place.attname, case place.attname when 'queue_id' then queue else tenant end);
          end loop;
        end $$
        """#

    private struct Neighbours {
        let acme: (tenant: Int32, queue: Int32)
        let beta: (tenant: Int32, queue: Int32)
        let store: PostgresConnection

        init(_ queue: QueueFixture, devices: Int) async throws {
            let store = queue.connection
            self.store = store
            _ = try await store.createTenant("beta")
            _ = try await store.createApp("com.beta", of: "beta")
            _ = try await store.createQueue(QueueName(tenant: "beta", app: "com.beta", environment: .sandbox))
            try await queue.run(
                """
                insert into pushq.device (queue_id, token)
                select pushq.queue_id('beta/com.beta/sandbox'), int8send(i) from generate_series(1, 5) i;
                \(`Removing a tenant`.rows);
                \(`Removing a tenant`.fill("acme/com.acme/sandbox"));
                \(`Removing a tenant`.fill("beta/com.beta/sandbox"))
                """)
            // Results and leases of both tenants.
            for row in try await store.execute(Statement("ids", "select id from pushq.queue order by id")) {
                let id = row.int4("id")
                for _ in 1...2 {
                    _ = try await store.fanOutStep(queueID: id, jobLimit: 3, scanLimit: 50_000)
                }
                let jobs = try await store.claim(
                    [ClaimQuota(queueID: id, lane: .normal, jobs: 1), ClaimQuota(queueID: id, lane: .bulk, jobs: 1)],
                    workerID: 1, lease: .seconds(60), atMostOnceWindow: 2)
                #expect(jobs.count == 2)
                _ = try await store.endJobs([queue.settled(jobs[0])], workerID: 1)
            }
            func ids(_ tenant: String) async throws -> (tenant: Int32, queue: Int32) {
                let row = try await store.execute(
                    Statement("ids of", "select tenant_id, queue_id from pushq.queue_name where tenant = $tenant"),
                    ["tenant": .text(tenant)]
                ).one()
                return (tenant: row.int4("tenant_id"), queue: row.int4("queue_id"))
            }
            (acme, beta) = (try await ids("acme"), try await ids("beta"))
        }

        /// The tables with rows of a tenant, such as `job.queue_id`, and the number of these rows.
        func rows(of place: (tenant: Int32, queue: Int32)) async throws -> [String: Int] {
            let rows = try await store.execute(
                Statement("rows_of", "select name, count from public.rows_of($tenant, $queue)"),
                ["tenant": .int4(place.tenant), "queue": .int4(place.queue)])
            return Dictionary(uniqueKeysWithValues: rows.map { ($0.text("name"), $0.count("count")) })
        }
    }

    @Test func `takes everything with it, and nothing of another`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 12_000)
            let neighbours = try await Neighbours(queue, devices: 12_000)
            let before = try await neighbours.rows(of: neighbours.acme)
            let empty = before.filter { $0.value == 0 }.keys.sorted()
            #expect(empty == ["removed_queue.queue_id"], "the test lacks rows here")
            let others = try await neighbours.rows(of: neighbours.beta)

            let removal = try #require(try await neighbours.store.removeTenant("acme"))
            #expect(removal.owned.map { [$0.apps, $0.queues, $0.credentials, $0.logins] } == [1, 1, 1, 1])
            #expect(removal.devices == 12_002)
            #expect(removal.campaigns == 1)
            #expect(removal.jobs == before["job.queue_id", default: 0] + before["lease.queue_id", default: 0])
            let left = try await neighbours.rows(of: neighbours.acme).filter { $0.value > 0 }
            #expect(left == ["removed_queue.queue_id": 1])
            #expect(try await neighbours.rows(of: neighbours.beta) == others)
            #expect(try await neighbours.store.tenants().map(\.name) == ["beta"])
            #expect(try await neighbours.store.removeTenant("acme") == nil)
            let entry = try await neighbours.store.auditEntries(of: "acme", since: nil, limit: 1).first
            #expect(entry?.object == "tenant" && entry?.action == "removed")
            // The name can be used again.
            #expect(try await neighbours.store.createTenant("acme"))
        }
    }

    @Test func `goes on where it was interrupted, by the same command or by upkeep`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 12_000)
            let neighbours = try await Neighbours(queue, devices: 12_000)
            try await queue.run("select * from pushq.remove_tenant('acme')")
            var steps = 0
            _ = try await neighbours.store.clearRemovedQueues(of: "acme") { () async throws(PostgresError) in
                steps += 1
                return steps < 16
            }
            let left = try await queue.number("select count(*) from pushq.device")
            #expect(left > 5 && left < 12_002, "it was told to stop among the devices")
            let rest = try #require(try await neighbours.store.removeTenant("acme"))
            #expect(rest.owned == nil)
            #expect(rest.devices == left - 7)
            #expect(
                try await neighbours.rows(of: neighbours.acme).filter { $0.value > 0 } == ["removed_queue.queue_id": 1])

            try await queue.run("select * from pushq.remove_tenant('beta')")
            try await neighbours.store.forget()
            #expect(
                try await neighbours.rows(of: neighbours.beta).filter { $0.value > 0 } == ["removed_queue.queue_id": 1])
        }
    }

    @Test func `waits for no producer, and none waits for it`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 10)
            let producer = try await database.connect()
            let send = "select pushq.send('\(QueueFixture.name)', \(Self.payload), tokens => array['aa'])"
            try await producer.runScript("begin; \(send)")
            try await queue.run("set statement_timeout = '10s'")
            #expect(try await queue.connection.removeTenant("acme") != nil)
            try await producer.runScript("commit")
            try await queue.worker.forget()
            for table in ["job", "body", "message", "device"] {
                #expect(try await queue.number("select count(*) from pushq.\(table)") == 0, "\(table)")
            }
        }
    }

    /// The clearing a day later finds what the transaction commits, in every table.
    @Test func `leaves nothing that a transaction commits for a removed app`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            try await queue.run(Self.rows)
            let rows = "from public.rows_of(0, \(queue.id)) where name ~ 'queue_id$'"
            let producer = try await database.connect()
            try await producer.runScript("begin; \(Self.fillQueue("\(QueueFixture.name)"))")
            #expect(try await queue.connection.removeApp("com.acme", of: "acme"))
            try await producer.runScript("commit")
            #expect(
                try await queue.texts("select name \(rows) and count = 0 order by name")
                    == ["fan_out_turn.queue_id", "lease.queue_id", "result.queue_id"], "the test lacks rows here")
            try await queue.run("update pushq.removed_queue set removed_at = now() - interval '25 hours'")
            try await queue.worker.forget()
            #expect(try await queue.texts("select name \(rows) and count > 0 order by name").isEmpty)
        }
    }
}
