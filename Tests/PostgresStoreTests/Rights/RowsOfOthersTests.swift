import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// Two tenants in one database, each with rows in every table that has the key of a tenant or queue. PostgreSQL's
/// catalog names these tables. A row of the other tenant is recognised by any of its values.
@Suite(.timeLimit(.minutes(10))) struct `Rows of another tenant` {
    private typealias Login = `A login of one tenant`

    /// The first key and row ID of the second tenant. No other number in an answer is as large.
    private static let firstKey = 700_000_001
    private static let firstID = 7_000_000_000_001

    /// Tables whose rows belong to no tenant.
    private static let nobodys: Set = [
        "device_turn", "duty", "former_tenant", "lineage", "migration", "named_lock", "provider_token",
    ]

    // MARK: Making rows

    /// Creates rows in every table for `TENANT`, with the functions for producers and with statements as workers use
    /// them.
    private static func rows(of tenant: String, device: String) -> String {
        let job = #"select * from pushq.job where queue_id = pushq.queue_id('QUEUE') order by id limit 1"#
        return #"""
            insert into pushq.tenant (name) values ('TENANT');
            insert into pushq.app (tenant_id, bundle_id) select id, 'com.TENANT' from pushq.tenant where name = 'TENANT';
            insert into pushq.credential (tenant_id, name, kind, team_id, key_id, environments, sealed)
            select id, 'TENANT-key', 'token', 'TENANT-team', 'TENANT-key-id', array['production'], 'TENANT-secret'
            from pushq.tenant where name = 'TENANT';
            insert into pushq.queue (tenant_id, app_id, environment, credential_id, weight)
            select a.tenant_id, a.id, 'production', c.id, 1
            from pushq.app a join pushq.credential c on c.tenant_id = a.tenant_id where bundle_id = 'com.TENANT';
            insert into pushq.tenant_quota (tenant_id, max_calls, max_devices)
            select id, 1000000, 1000000 from pushq.tenant where name = 'TENANT';
            insert into pushq.call (tenant_id) select id from pushq.tenant where name = 'TENANT';

            select pushq.register_device(
              'QUEUE', 'DEVICE', 'TENANT-anna', locale => 'de', tags => array['TENANT-vip'],
              attributes => '{"plan":"TENANT-pro"}', installation => 'TENANT-phone');
            select pushq.register_device('QUEUE', 'DEVICE01', 'TENANT-bert');
            select pushq.register_channel('QUEUE', 'TENANT0channel', 0);
            select pushq.save_audience('QUEUE', 'TENANT-vips', 'tag ''TENANT-vip''');
            select pushq.add_schedule('QUEUE', 'TENANT-weekly', '@weekly', '{"aps":{"alert":"TENANT"}}');
            select pushq.send('QUEUE', '{"aps":{"alert":"TENANT"}}', tokens => array['DEVICE'], key => 'TENANT-order');
            select pushq.send('QUEUE', '{"aps":{"alert":"TENANT"}}', user_key => 'TENANT-nobody');
            select pushq.start_campaign('QUEUE', 'TENANT-sale', '{"aps":{"alert":"TENANT"}}', max_rate => 50,
              variants => '[{"name":"TENANT-b","share":0.5,"payload":{"aps":{"alert":"TENANT b"}}}]');
            select pushq.start_campaign(
              'QUEUE', 'TENANT-list', '{"aps":{"alert":"TENANT"}}', tokens => array['DEVICE', 'DEVICE01']);
            select pushq.add_users_to_list('QUEUE', pushq.new_list('QUEUE'), array['TENANT-anna']);
            select pushq.broadcast(
              'QUEUE', 'TENANT0channel', '{"aps":{"timestamp":1,"event":"update","content-state":{}}}', expiration => 0);
            select pushq.cancel('QUEUE', pushq.send('QUEUE', '{"aps":{"alert":"TENANT"}}', tokens => array['DEVICE']));
            insert into pushq.tenant_usage (tenant_id, bytes, bytes_to)
            select id, 123456789, nextval('pushq.id') from pushq.tenant where name = 'TENANT';

            insert into pushq.campaign_tally (queue_id, campaign_id, message_id, delivered)
            select queue_id, id, message_id, 123456 from pushq.campaign where queue_id = pushq.queue_id('QUEUE')
            on conflict (queue_id, campaign_id, part) do update set delivered = excluded.delivered;
            insert into pushq.worker (id, name, version, queues, unreachable, in_outage, refusals, unusable, faults)
            values (nextval('pushq.id'), 'TENANT-host', '1', 'TENANT/*', array[pushq.queue_id('QUEUE')],
                    array[pushq.queue_id('QUEUE')], '{TENANT-refusal}', array[pushq.queue_id('QUEUE')],
                    '{TENANT-fault}');
            insert into pushq.throughput (worker_id, queue_id, shown_at, seconds, sent, refused, latency)
            select id, pushq.queue_id('QUEUE'), now() + interval '1 hour', 1, 123457, '{6,123458}', array_fill(123459, array[16])
            from pushq.worker where name = 'TENANT-host';
            insert into pushq.sleeper (worker_id, queues) values (nextval('pushq.id'), 'TENANT/%');
            insert into pushq.lineage (name, is_restore, back_to, old_id) values ('TENANT-copy', true, now(), 0);
            insert into pushq.restored_queue (queue_id, lineage_id, paused_reason)
            select pushq.queue_id('QUEUE'), max(id), 'TENANT-reason' from pushq.lineage;
            insert into pushq.stuck_job (queue_id, job_id, problem, set_aside_at)
            select queue_id, id, 'TENANT-problem', now() from (\#(job)) j;
            insert into pushq.result (day, queue_id, job_id, root_id, body_day, message_id, lane, attempt, ended_at,
                                      outcomes, delivered, rejected, failed, suppressed, expired, cancelled, unknown,
                                      retried, notes)
            select pushq.today(), queue_id, id, root_id, body_day, message_id, lane, 1, now(), '\x81',
                   0, 0, 1, 0, 0, 0, 0, 0, '{"0":"TENANT-reason"}'
            from (\#(job)) j;
            insert into pushq.lease (queue_id, job_id, worker_id, epoch, deadline, watermark, outcomes, lane, run_at,
                                     send_by, message_id, root_id, body_day, recipient_count, attempt, losses, at_most_once)
            select j.queue_id, nextval('pushq.id'), w.id, 1, now(), 0, '\x00', lane, run_at, send_by, message_id, root_id,
                   body_day, 1, 1, 0, false
            from (\#(job)) j, pushq.worker w where w.name = 'TENANT-host';
            insert into pushq.feedback (queue_id, device_id, reason, reported_at, verdict, root_id, cursor, listed_at)
            select queue_id, id, 1, now(), 'undone', (select max(id) from pushq.campaign c where c.queue_id = d.queue_id),
                   nextval('pushq.id'), now()
            from pushq.device d where user_key = 'TENANT-anna';
            insert into pushq.wave (queue_id, campaign_id, due_at, device_ids)
            select queue_id, max(id), now(), array[nextval('pushq.id')]
            from pushq.campaign
            where queue_id = pushq.queue_id('QUEUE')
            group by queue_id;
            insert into pushq.judgement values (pushq.queue_id('QUEUE'), now(), false);
            insert into pushq.feedback_poll (queue_id, problem) values (pushq.queue_id('QUEUE'), 'TENANT-poll');
            insert into pushq.feedback_record (queue_id, token, reason, reported_at)
            values (pushq.queue_id('QUEUE'), 'TENANT-token', 1, now());
            insert into pushq.newest_update (queue_id, recipient_id, due_at, message_id)
            values (pushq.queue_id('QUEUE'), nextval('pushq.id'), now(), nextval('pushq.id'));
            insert into pushq.frequency_cap (queue_id, pushes) values (pushq.queue_id('QUEUE'), 3);
            insert into pushq.quiet_hours (queue_id, hours) values (pushq.queue_id('QUEUE'), '22:00-08:00');
            insert into pushq.webhook (tenant_id, url, sealed, former_sealed, former_until)
            select id, 'https://TENANT.example/', 'TENANT-sealed', 'TENANT-former', now()
            from pushq.tenant where name = 'TENANT';
            insert into pushq.webhook_progress (tenant_id, cursor, newest, failures, problem)
            select id, 0, 0, 1, 'TENANT-webhook' from pushq.tenant where name = 'TENANT';
            insert into pushq.recent_push values (pushq.queue_id('QUEUE'), nextval('pushq.id'), '{}', '{}', '{}');
            insert into pushq.badge values (pushq.queue_id('QUEUE'), nextval('pushq.id'), 1);
            insert into pushq.tenant_move (tenant, id, leaves, stage, peer, queues)
            values ('TENANT', gen_random_uuid(), true, 'moved', 'TENANT-peer', array[pushq.queue_id('QUEUE')]);
            insert into pushq.mover (tenant, pid, role, started_at) values ('TENANT', 7, 7, now());
            insert into pushq.fan_out_turn (queue_id) values (pushq.queue_id('QUEUE'));
            insert into pushq.moved_row (owner, name, queue, key)
            select tenant_id, 'send_key', id, '{TENANT-note}' from pushq.queue where id = pushq.queue_id('QUEUE');
            insert into pushq.removed_queue (queue_id, tenant) values (pushq.queue_id('QUEUE') + 50, 'TENANT');
            """#
            .replacing("QUEUE", with: queue(of: tenant)).replacing("DEVICE", with: device)
            .replacing("TENANT", with: tenant)
    }

    private static func queue(of tenant: String) -> String { "\(tenant)/com.\(tenant)/production" }

    // MARK: The catalog

    /// Each column with a key or name of a tenant or queue, and each table without such a column.
    private static let keyColumns = Statement(
        "key_columns",
        #"""
        select c.relname as table_name, a.attname as column_name
        from pg_class c
        left join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
          and (a.attname ~ 'queue|tenant' or (c.relname, a.attname) in (('tenant', 'id'), ('queue', 'id'),
                                                                        ('worker', 'unreachable'), ('worker', 'in_outage'),
                                                                        ('worker', 'unusable')))
        where c.relnamespace = 'pushq'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
        order by 1, 2
        """#)

    /// A key of the second tenant, or a name that contains it, as in JSON.
    private static let theirs = #"beta|\m7000000[0-9]{2}\M"#

    /// Values of at least six characters in a table's rows: those of the second tenant, and all others.
    private static func values(
        of table: String, _ connection: PostgresConnection
    ) async throws -> (theirs: Set<String>, others: Set<String>) {
        let rows = try await connection.execute(
            Statement(
                "values_\(table)",
                #"""
                select distinct r.row::text ~ $theirs as is_theirs, v #>> '{}' as value
                from (select to_jsonb(t) as row from pushq.\#(table) t) r
                cross join jsonb_path_query(r.row, 'strict $.**') v
                where jsonb_typeof(v) in ('string', 'number') and length(v #>> '{}') >= 6
                """#), ["theirs": .text(theirs)])
        var values: (theirs: Set<String>, others: Set<String>) = ([], [])
        for row in rows {
            if row.bool("is_theirs") {
                values.theirs.insert(row.text("value"))
            } else {
                values.others.insert(row.text("value"))
            }
        }
        return values
    }

    /// A tenant's first send, list, job and campaign.
    private struct Objects {
        let send: Int64
        let list: Int64
        let job: Int64
        let campaign: Int64

        init(of tenant: String, _ connection: PostgresConnection) async throws {
            let row = try await connection.execute(
                Statement(
                    "objects",
                    """
                    select (select min(j.root_id) from pushq.job j where j.queue_id = q.id) as send,
                           (select min(l.id) from pushq.list l where l.queue_id = q.id) as list,
                           (select min(j.id) from pushq.job j where j.queue_id = q.id) as job,
                           (select min(c.id) from pushq.campaign c where c.queue_id = q.id) as campaign
                    from pushq.queue q
                    where q.id = pushq.queue_id($queue::text)
                    """), ["queue": .text(queue(of: tenant))]
            ).one()
            (send, list) = (row.int8("send"), row.int8("list"))
            (job, campaign) = (row.int8("job"), row.int8("campaign"))
        }
    }

    // MARK: Queries

    /// A query, its function or view, and its answer.
    private struct Answer: Equatable {
        let function: String
        let query: String
        let text: String
    }

    /// The result of a query, or its error. The query is rolled back.
    private static func answer(_ connection: PostgresConnection, _ query: String) async throws -> String {
        try await connection.runScript("begin")
        var text: String
        do {
            let statement = Statement("answer", "select value::text as value from (select \(query)) q(value)")
            text = try await connection.execute(statement).one().optionalText("value") ?? "null"
        } catch {
            text = "\(error)"
        }
        try await connection.runScript("rollback")
        return text
    }

    /// Calls of every function that reads, and the views, for everything the login may see and for its own queue.
    private static func reading(
        tenant: String, device: String, _ objects: Objects
    ) -> [(function: String, query: String)] {
        var queries: [(function: String, query: String)] = [
            ("my_queues", "jsonb_agg(to_jsonb(s)) from pushq.my_queues s"),
            ("my_campaigns", "jsonb_agg(to_jsonb(s)) from pushq.my_campaigns s"),
            ("my_feedback", "jsonb_agg(to_jsonb(s)) from pushq.my_feedback s"),
        ]
        for (function, calls) in Login.listings {
            for call in calls {
                let arguments = call.replacing("TENANT", with: tenant)
                queries.append((function, "jsonb_agg(to_jsonb(s)) from pushq.\(function)(\(arguments)) s"))
            }
        }
        for probe in Login.probes(
            objects.send, objects.list, objects.job, objects.campaign, key: "\(tenant)-sale",
            channel: "\(tenant)0channel", audience: "\(tenant)-vips", schedule: "\(tenant)-weekly")
        {
            guard
                probe.function.hasPrefix("show_")
                    || [
                        "preview_campaign", "preview_message", "preview_waves", "preview_quiet_hours", "preview_starts",
                        "trace", "feedback_after",
                    ].contains(
                        probe.function)
            else {
                continue
            }
            let user = probe.function == "trace" ? "'\(tenant)-anna'" : "null"
            let query = probe.query.replacing("QUEUE", with: queue(of: tenant)).replacing(Login.token, with: device)
                .replacing("'anna'", with: user)
            queries.append((probe.function, query))
        }
        return queries
    }

    /// Calls of every function for producers, for the first tenant's queue, with IDs and names of the second tenant.
    private static func misusing(_ theirs: Objects) -> [Login.Probe] {
        Login.probes(
            theirs.send, theirs.list, theirs.job, theirs.campaign, key: "beta-sale", channel: "beta0channel",
            audience: "beta-vips", schedule: "beta-weekly"
        ).map {
            Login.Probe(
                function: $0.function,
                query: $0.query.replacing("QUEUE", with: queue(of: "acme")).replacing(Login.token, with: "be7a")
                    .replacing("anna", with: "beta-anna"))
        }
    }

    // MARK: The tests

    @Test func `are not in any answer, and change none, whatever tables and columns hold a tenant's or queue's key`()
        async throws
    {
        try await withDatabase { _, database in
            let admin = try await database.connect()
            for login in ["producer", "reader", "neighbour"] {
                try await admin.runScript("create role \(login)_\(database.name) login")
            }
            try await admin.runScript(Self.rows(of: "acme", device: "ac3e"))
            try await admin.grantTenant("acme", to: "producer_\(database.name)", isReadOnly: false)
            try await admin.grantTenant("acme", to: "reader_\(database.name)", isReadOnly: true)
            let producer = try await database.connect(login: "producer_\(database.name)")
            let reader = try await database.connect(login: "reader_\(database.name)")
            let own = try await Objects(of: "acme", admin)
            func answers(_ login: PostgresConnection) async throws -> [Answer] {
                var answers: [Answer] = []
                for (function, query) in Self.reading(tenant: "acme", device: "ac3e", own) {
                    // Answers also say whether a worker runs, which is one that was seen in the last 20 seconds.
                    try await admin.runScript("update pushq.worker set seen_at = now()")
                    answers.append(
                        Answer(function: function, query: query, text: try await Self.answer(login, query)))
                }
                return answers
            }
            let alone = (try await answers(producer), try await answers(reader))

            try await admin.runScript(
                """
                alter table pushq.tenant alter id restart with \(Self.firstKey);
                alter table pushq.app alter id restart with \(Self.firstKey);
                alter table pushq.credential alter id restart with \(Self.firstKey);
                alter table pushq.queue alter id restart with \(Self.firstKey);
                alter sequence pushq.id restart with \(Self.firstID)
                """)
            try await admin.runScript(Self.rows(of: "beta", device: "be7a"))
            try await admin.grantTenant("beta", to: "neighbour_\(database.name)", isReadOnly: false)

            // Each column that the catalog names contains a key of the neighbour, and tables without one are listed.
            var values: (theirs: Set<String>, others: Set<String>) = ([], [])
            var count = 0
            for row in try await admin.execute(Self.keyColumns) {
                let table = row.text("table_name")
                guard let column = row.optionalText("column_name") else {
                    #expect(Self.nobodys.contains(table), "to whom do rows of \(table) belong?")
                    continue
                }
                count += 1
                let found = try await Self.answer(
                    admin,
                    "count(*) from pushq.\(table) t where to_jsonb(t.\(column))::text ~ '\(Self.theirs)'")
                #expect(found != "0" && Int(found) != nil, "no row of the neighbour in \(table) by \(column): \(found)")
                let more = try await Self.values(of: table, admin)
                values.theirs.formUnion(more.theirs)
                values.others.formUnion(more.others)
            }
            #expect(count > 30)
            let secrets = values.theirs.subtracting(values.others)
            #expect(secrets.count > 60)

            // The neighbour's own answers contain such values, so the calls below would show them.
            let neighbour = try await database.connect(login: "neighbour_\(database.name)")
            let theirs = try await Objects(of: "beta", admin)
            for (function, query) in Self.reading(tenant: "beta", device: "be7a", theirs) {
                let text = try await Self.answer(neighbour, query)
                let isCounts = [
                    "show_refusals", "show_timeline", "show_last_end", "show_send", "show_job", "preview_campaign",
                    "preview_message", "preview_waves", "preview_quiet_hours", "preview_starts", "show_shares",
                    // These campaigns have no recipient with an outcome.
                    "show_recipients",
                ]
                .contains(function)
                #expect(isCounts || secrets.contains { text.contains($0) }, "\(function) shows its owner: \(text)")
            }

            // The answers about the first tenant are the same as without the second one.
            for (login, before) in [(producer, alone.0), (reader, alone.1)] {
                for (before, after) in zip(before, try await answers(login)) {
                    #expect(before == after)
                }
            }
            for probe in Self.misusing(theirs) {
                for login in [producer, reader] {
                    var text = try await Self.answer(login, probe.query)
                    // The answer may repeat words of the query.
                    for word in probe.query.split(whereSeparator: { !$0.isLetter && !$0.isNumber && $0 != "-" })
                    where word.count > 3 { text = text.replacing(word, with: "…") }
                    for secret in secrets {
                        #expect(!text.contains(secret), "\(probe.query): \(text)")
                    }
                }
            }
        }
    }

    /// The counters of what the session has read of the schema's tables and indexes in its transaction.
    private static let reads = Statement(
        "reads",
        #"""
        select string_agg(concat_ws(' ', c.relname, pg_stat_get_xact_numscans(c.oid),
                                    pg_stat_get_xact_tuples_returned(c.oid), pg_stat_get_xact_tuples_fetched(c.oid),
                                    pg_stat_get_xact_blocks_fetched(c.oid)),
                          ', ' order by c.relname) as value
        from pg_class c
        where c.relnamespace = 'pushq'::regnamespace and c.relkind in ('r', 'i')
        """#)

    /// Returns what a query reads of each table and index: scans, rows returned, rows fetched and pages.
    private static func reads(_ connection: PostgresConnection, _ query: String) async throws -> [Substring: [Int]] {
        func counters() async throws -> [Substring: [Int]] {
            var counters: [Substring: [Int]] = [:]
            for part in try await connection.execute(reads).one().text("value").split(separator: ", ") {
                let words = part.split(separator: " ")
                counters[words[0]] = words.dropFirst().map { Int($0) ?? -1 }
            }
            return counters
        }
        var read: [Substring: [Int]] = [:]
        try await connection.runScript("begin; savepoint s")
        // The first calls are planned anew, and the planner reads indexes. Later calls may be, too: when other sessions
        // change many tables, as other tests do, the server has a session forget its plans. So the last three calls
        // have to be alike.
        var alike = 0
        for call in 0..<50 where call < 8 || alike < 3 {
            let before = try await counters()
            do {
                try await connection.runScript("select \(query)")
            } catch {}
            try await connection.runScript("rollback to s")
            let after = try await counters()
            let now = after.merging(before) { zip($0, $1).map { $0 - $1 } }.filter { $0.value.contains { $0 != 0 } }
            alike = now == read ? alike + 1 : 1
            read = now
        }
        try await connection.runScript("rollback")
        return read
    }

    /// The same holds with plans that a login forces. Every login sees what its own session has read.
    @Test(arguments: [
        "",
        """
        set enable_indexscan = off; set enable_bitmapscan = off; set enable_indexonlyscan = off;
        set enable_hashjoin = off; set enable_mergejoin = off; set join_collapse_limit = 1
        """,
    ])
    func `take no more time than rows that do not exist, because none of them is read`(settings: String) async throws {
        try await withDatabase { _, database in
            let admin = try await database.connect()
            // New statistics would change the plans between two calls that are compared.
            try await admin.runScript(
                """
                do $$ declare t regclass; begin
                  for t in select c.oid from pg_class c
                           where c.relnamespace = 'pushq'::regnamespace and c.relkind = 'r' loop
                    execute format('alter table %s set (autovacuum_enabled = off)', t);
                  end loop;
                end $$
                """)
            for (login, isReadOnly) in [("producer", false), ("reader", true)] {
                try await admin.runScript("create role \(login)_\(database.name) login")
                if !isReadOnly {
                    try await admin.runScript(Self.rows(of: "acme", device: "ac3e"))
                    try await admin.runScript(Self.rows(of: "beta", device: "be7a"))
                }
                try await admin.grantTenant("acme", to: "\(login)_\(database.name)", isReadOnly: isReadOnly)
                let connection = try await database.connect(login: "\(login)_\(database.name)")
                var calls = Login.probes(1024, 1024, 1024, 1024).map(\.query)
                for (function, arguments) in Login.listings {
                    calls += arguments.map { "count(*) from pushq.\(function)(\($0))" }.filter { $0.contains("TENANT") }
                }
                try await connection.runScript("select 1; \(settings)")
                for call in calls {
                    var reads: [[Substring: [Int]]] = []
                    // Once more if they differ: the session may have planned anew in between.
                    for _ in 0..<2 where reads.isEmpty || reads[0] != reads[1] {
                        reads = []
                        for tenant in ["beta", "none"] {
                            let query = call.replacing("QUEUE", with: Self.queue(of: tenant))
                                .replacing("TENANT", with: tenant)
                            reads.append(try await Self.reads(connection, query))
                        }
                    }
                    #expect(reads[0] == reads[1], "\(call)")
                    #expect(isReadOnly || reads[0]["tenant_login"] != nil, "\(call): \(reads[0])")
                }
            }
        }
    }
}
