import QueueCore
import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// Two tenants in one database. A login of one tenant tries all calls with objects of the other tenant, and with
/// objects that do not exist. The answers must not differ.
@Suite(.timeLimit(.minutes(10)))
struct `A login of one tenant` {
    struct Neighbours {
        let admin: PostgresConnection
        let producer: PostgresConnection
        let reader: PostgresConnection
        let stranger: PostgresConnection
        /// Existing IDs of the other tenant.
        let send: Int64
        let list: Int64
        let job: Int64
        let campaign: Int64
    }

    static let token = String(repeating: "b1", count: 32)
    static let payload = #"'{"aps":{"alert":"x"}}'"#

    /// Runs `body` with two tenants: acme with logins of each kind, and beta with objects of every kind.
    func withNeighbours(
        _ body: @escaping @Sendable (isolated LoopActor, TestDatabase, Neighbours) async throws -> Void
    ) async throws {
        try await withDatabase { actor, database in
            let admin = try await database.connect()
            for kind in ["producer", "reader", "stranger", "neighbour"] {
                try await admin.runScript("create role \(kind)_\(database.name) login")
            }
            for tenant in ["acme", "beta"] {
                _ = try await admin.createTenant(tenant)
                let name = QueueName(tenant: tenant, app: "com.\(tenant)", environment: .production)
                try await admin.runScript(
                    """
                    insert into pushq.app (tenant_id, bundle_id) select id, '\(name.app)' from pushq.tenant where name = '\(tenant)';
                    insert into pushq.queue (tenant_id, app_id, environment)
                    select tenant_id, id, 'production' from pushq.app where bundle_id = '\(name.app)'
                    """)
            }
            try await admin.grantTenant("acme", to: "producer_\(database.name)", isReadOnly: false)
            try await admin.grantTenant("acme", to: "reader_\(database.name)", isReadOnly: true)
            try await admin.grantTenant("beta", to: "neighbour_\(database.name)", isReadOnly: false)
            let queue = "'beta/com.beta/production'"
            let send = try #require(
                try await text(
                    admin, "pushq.send(\(queue), \(Self.payload), tokens => array['\(Self.token)'], key => 'order-1')"))
            let list = try #require(try await text(admin, "pushq.new_list(\(queue))"))
            try await admin.runScript(
                """
                select pushq.start_campaign(\(queue), 'sale', \(Self.payload), holdout => 0.1);
                select pushq.register_device(\(queue), '\(Self.token)', 'anna', installation => 'i7');
                select pushq.register_channel(\(queue), 'dGhlaXJz', 0);
                select pushq.save_audience(\(queue), 'vips', 'tag ''vip''');
                select pushq.add_schedule(\(queue), 'weekly', '@weekly', \(Self.payload))
                """)
            let job = try #require(try await text(admin, "min(id) from pushq.job"))
            let campaign = try #require(try await text(admin, "id from pushq.campaign"))
            try await body(
                actor, database,
                Neighbours(
                    admin: admin, producer: try await database.connect(login: "producer_\(database.name)"),
                    reader: try await database.connect(login: "reader_\(database.name)"),
                    stranger: try await database.connect(login: "stranger_\(database.name)"),
                    send: try #require(Int64(send)), list: try #require(Int64(list)), job: try #require(Int64(job)),
                    campaign: try #require(Int64(campaign))))
        }
    }

    /// The single value of a query: an expression, optionally followed by `from`.
    private func text(_ connection: PostgresConnection, _ query: String) async throws -> String? {
        let sql = "select value::text as value from (select \(query)) q(value)"
        return try await connection.execute(Statement("probe", sql)).one().optionalText("value")
    }

    /// The result of a query, or its error.
    func answer(_ connection: PostgresConnection, _ query: String) async -> String {
        do {
            return try await text(connection, query) ?? "null"
        } catch {
            return "\(error)"
        }
    }

    // MARK: Usable objects

    /// The objects of the schema that a role may use in any way: `function send`, `table job`, `view my_queues`,
    /// `sequence id`.
    private static let usable = Statement(
        "usable",
        #"""
        select distinct format('function %s', p.proname) as name
        from pg_proc p
        where p.pronamespace = 'pushq'::regnamespace and has_function_privilege($role, p.oid, 'execute')
        union
        select format('%s %s', case c.relkind when 'v' then 'view' when 'S' then 'sequence' else 'table' end, c.relname)
        from pg_class c
        where c.relnamespace = 'pushq'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'f', 'S')
          and case c.relkind
              when 'S' then has_sequence_privilege($role, c.oid, 'usage, select, update')
              else has_table_privilege($role, c.oid, 'select, insert, update, delete, truncate, references, trigger')
                or has_any_column_privilege($role, c.oid, 'select, insert, update, references') end
        union
        select format('type %s', t.typname)
        from pg_type t
        where t.typnamespace = 'pushq'::regnamespace and t.typrelid = 0 and t.typelem = 0
        """#)

    /// Functions that check messages or calculate, and read no table.
    private static let pure: Set<String> = [
        "apns_id", "broadcast_problem", "caller", "csv_field", "device_kind", "message_kind", "message_problem",
        "outcome_counts", "outcome_kind", "payload_kind", "reason", "started_type", "utc_text",
    ]

    @Test func `may use what the probes below try, and nothing else of the schema`() async throws {
        try await withNeighbours { _, database, _ in
            let admin = try await database.connect()
            func usable(_ kind: String) async throws -> Set<String> {
                Set(
                    try await admin.execute(Self.usable, ["role": .text("\(kind)_\(database.name)")]).map {
                        $0.text("name")
                    })
            }
            let views: Set = ["view my_queues", "view my_campaigns"]
            let functions = Set(Self.probes(1, 1, 1, 1).map(\.function)).union(Self.pure).union(Self.listings.keys)
            let withTokens = views.union(["view my_feedback"])
            #expect(try await usable("producer") == withTokens.union(functions.map { "function \($0)" }))
            let counts = Set(Self.readersProbes.map(\.function)).union(Self.listings.keys).union([
                "caller", "outcome_counts", "outcome_kind",
            ])
            #expect(try await usable("reader") == views.union(counts.map { "function \($0)" }))
            #expect(try await usable("stranger") == [])
        }
    }

    @Test func `calls functions that have a fixed search path and the rights of an owner who cannot log in`()
        async throws
    {
        try await withNeighbours { _, database, neighbours in
            let unsafe = """
                string_agg(p.oid::regprocedure::text, ', ') from pg_proc p join pg_roles r on r.oid = p.proowner \
                where p.pronamespace = 'pushq'::regnamespace and (r.rolname <> 'pushq_owner' or r.rolsuper or r.rolcanlogin \
                or p.prosecdef and p.proconfig @> '{"search_path=pg_catalog, pg_temp"}' is not true)
                """
            let found = try await text(neighbours.admin, unsafe)
            #expect(found == nil)
            let own = "pushq.send('acme/com.acme/production', \(Self.payload), tokens => array['\(Self.token)'])"
            #expect(Int64(await answer(neighbours.producer, own)) != nil)
            #expect(await answer(neighbours.reader, own).contains("permission denied for function send"))
            #expect(await answer(neighbours.stranger, own).contains("permission denied for schema pushq"))
            for table in ["job", "device", "tenant", "credential", "tenant_login"] {
                #expect(await answer(neighbours.producer, "count(*) from pushq.\(table)").contains("permission denied"))
            }
        }
    }

    // MARK: Probes

    struct Probe {
        let function: String
        /// The call, with `QUEUE` for a queue's name.
        let query: String
    }

    /// A call of each function, with objects of the neighbour, or with other IDs.
    static func probes(
        _ send: Int64, _ list: Int64, _ job: Int64, _ campaign: Int64, key: String = "sale",
        channel: String = "dGhlaXJz", audience: String = "vips", schedule: String = "weekly"
    ) -> [Probe] {
        [
            Probe(
                function: "send",
                query: "pushq.send('QUEUE', \(payload), tokens => array['\(token)'], key => 'order-1')"),
            Probe(function: "send", query: "pushq.send('QUEUE', \(payload), user_key => 'anna')"),
            Probe(
                function: "send_many",
                query:
                    "pushq.send_many('QUEUE', array[\(payload)], tokens => array['\(token)'], keys => array['order-1'])"
            ),
            Probe(
                function: "send_many", query: "pushq.send_many('QUEUE', array[\(payload)], user_keys => array['anna'])"),
            Probe(function: "start_campaign", query: "pushq.start_campaign('QUEUE', '\(key)', \(payload))"),
            Probe(
                function: "start_campaign",
                query: "pushq.start_campaign('QUEUE', '\(key)', \(payload), filter => 'user is not missing')"),
            Probe(
                function: "start_campaign",
                query: "pushq.start_campaign('QUEUE', '\(key)', \(payload), tokens => array['\(token)'])"),
            Probe(
                function: "start_campaign",
                query: "pushq.start_campaign('QUEUE', '\(key)', \(payload), list => \(list))"),
            Probe(function: "new_list", query: "pushq.new_list('QUEUE')"),
            Probe(function: "add_to_list", query: "pushq.add_to_list('QUEUE', \(list), array['\(token)'])"),
            Probe(
                function: "add_tokens_to_list",
                query: "pushq.add_tokens_to_list('QUEUE', \(list), array['\\xb1'::bytea])"),
            Probe(
                function: "add_users_to_list", query: "(pushq.add_users_to_list('QUEUE', \(list), array['anna'])).added"
            ),
            Probe(function: "abandon_list", query: "pushq.abandon_list('QUEUE', \(list))"),
            Probe(
                function: "earlier_list_campaign",
                query: "pushq.earlier_list_campaign('QUEUE', '\(key)', \(payload), 1, repeat('0', 256)::bit(256))"),
            shown("tokens_of_users", "'QUEUE', array['anna']"),
            Probe(function: "pause_campaign", query: "pushq.pause_campaign('QUEUE', '\(key)')"),
            Probe(function: "resume_campaign", query: "pushq.resume_campaign('QUEUE', '\(key)')"),
            Probe(function: "set_campaign_rate", query: "pushq.set_campaign_rate('QUEUE', '\(key)', 5)"),
            Probe(
                function: "preview_campaign",
                query: "(pushq.preview_campaign('QUEUE', '\(key)', tokens => array['b1'])).recipients"),
            Probe(function: "preview_campaign", query: "(pushq.preview_campaign('QUEUE', '\(key)')).recipients"),
            Probe(
                function: "preview_campaign",
                query: "(pushq.preview_campaign('QUEUE', '\(key)', filter => 'user is not missing')).recipients"),
            Probe(
                function: "preview_message",
                query: #"to_jsonb(s) from pushq.preview_message('QUEUE', '{"aps":{"alert":"{{plan|}}"}}'::text) s"#),
            Probe(
                function: "preview_message",
                query:
                    #"to_jsonb(s) from pushq.preview_message('QUEUE', '{"aps":{"alert":"{{plan|}}"}}'::text, filter => 'user is not missing') s"#
            ),
            Probe(
                function: "preview_message",
                query:
                    #"to_jsonb(s) from pushq.preview_message('QUEUE', '{"aps":{"alert":"{{plan|}}"}}'::text, tokens => array['b1']) s"#
            ),
            shown("preview_waves", "'QUEUE', '09:00', filter => 'user is not missing'"),
            shown("preview_waves", "'QUEUE', '09:00', tokens => array['b1']"),
            shown("preview_starts", "'QUEUE', 'Match'"),
            shown("preview_starts", "'QUEUE', 'Match', filter => 'user is not missing'"),
            shown("preview_quiet_hours", "'QUEUE', '09:00-05:00', filter => 'user is not missing'"),
            shown("preview_quiet_hours", "'QUEUE', '09:00-05:00', tokens => array['b1']"),
            Probe(
                function: "start_campaign",
                query: "pushq.start_campaign('QUEUE', '\(key)', \(payload), local_time => '09:00')"),
            Probe(
                function: "start_campaign",
                query:
                    #"pushq.start_campaign('QUEUE', '\#(key)', \#(payload), holdout => 0.1, variants => '[{"name":"b","share":0.5,"payload":{"aps":{"alert":"b"}}}]')"#
            ),
            shown("show_shares", "'QUEUE', \(campaign)"),
            Probe(function: "save_audience", query: "pushq.save_audience('QUEUE', '\(audience)', 'tag ''vip''')"),
            Probe(function: "remove_audience", query: "pushq.remove_audience('QUEUE', '\(audience)')"),
            Probe(
                function: "add_schedule", query: "pushq.add_schedule('QUEUE', '\(schedule)', '@daily', \(payload))"),
            Probe(function: "pause_schedule", query: "pushq.pause_schedule('QUEUE', '\(schedule)')"),
            Probe(function: "resume_schedule", query: "pushq.resume_schedule('QUEUE', '\(schedule)')"),
            Probe(function: "run_schedule", query: "pushq.run_schedule('QUEUE', '\(schedule)')"),
            Probe(function: "remove_schedule", query: "pushq.remove_schedule('QUEUE', '\(schedule)')"),
            shown("show_schedules", "'QUEUE', '\(schedule)', 3"),
            shown("show_audiences", "'QUEUE'"), shown("show_audience", "'QUEUE', '\(audience)', 'alert'"),
            Probe(
                function: "preview_campaign",
                query: "(pushq.preview_campaign('QUEUE', '\(key)', filter => 'audience ''\(audience)''')).recipients"),
            Probe(function: "cancel_campaign", query: "pushq.cancel_campaign('QUEUE', '\(key)')"),
            Probe(function: "cancel", query: "pushq.cancel('QUEUE', \(send))"),
            Probe(function: "cancel", query: "pushq.cancel('QUEUE', \(campaign))"),
            Probe(function: "cancel_job", query: "pushq.cancel_job('QUEUE', \(job))"),
            Probe(function: "cancel_jobs", query: "pushq.cancel_jobs('QUEUE', '{\(job)}')"),
            Probe(function: "register_device", query: "pushq.register_device('QUEUE', '\(token)')"),
            Probe(function: "register_device", query: "pushq.register_device('QUEUE', '\(token)', 'anna')"),
            // All properties are the same as the neighbour's.
            Probe(
                function: "register_device",
                query: "pushq.register_device('QUEUE', '\(token)', 'anna', installation => 'i7')"),
            Probe(
                function: "register_device",
                query: "pushq.register_device('QUEUE', 'b9', 'anna', locale => 'de', installation => 'i1')"),
            Probe(function: "check_time_zone", query: "pushq.check_time_zone('QUEUE', 'Mars/Phobos')"),
            Probe(function: "unregister_device", query: "pushq.unregister_device('QUEUE', '\(token)')"),
            Probe(function: "set_badge", query: "pushq.set_badge('QUEUE', '\(token)')"),
            Probe(function: "set_device", query: "pushq.set_device('QUEUE', '\(token)', false)"),
            Probe(function: "forget_device", query: "pushq.forget_device('QUEUE', '\(token)')"),
            Probe(function: "forget_user", query: "pushq.forget_user('QUEUE', 'anna')"),
            Probe(
                function: "broadcast",
                query:
                    #"pushq.broadcast('QUEUE', '\#(channel)', '{"aps":{"timestamp":1,"event":"update","content-state":{}}}', expiration => 0)"#
            ),
            Probe(function: "register_channel", query: "pushq.register_channel('QUEUE', '\(channel)', 0)"),
            Probe(function: "retry_failed", query: "pushq.retry_failed('QUEUE', \(job))"),
            Probe(function: "retry_failed_campaign", query: "pushq.retry_failed_campaign('QUEUE', '\(key)')"),
            shown("show_devices", "'QUEUE', 0, 'anna', true, 9"),
            shown("show_device", "'QUEUE', '\\x\(token)'"),
            shown("show_feedback", "'QUEUE', 9"),
            shown("feedback_after", "'QUEUE', 0, 9"),
            Probe(function: "feedback_cursor", query: "pushq.feedback_cursor('QUEUE')"),
            shown("show_campaigns", "'QUEUE', '\(key)', 9"),
            shown("show_recipients", "'QUEUE', '\(key)', array['delivered', 'unknown'], 0, 9"),
            shown("show_refusals", "'QUEUE', \(send), 64, 127, 191, 6, 7"),
            shown("show_timeline", "'QUEUE', \(send), 9, 64, 127, 191, 6, 7"),
            Probe(function: "show_last_end", query: "pushq.show_last_end('QUEUE', \(send))"),
            Probe(function: "show_send", query: "pushq.show_send('QUEUE', \(send))"),
            shown("show_standstill", "'QUEUE', \(campaign)"),
            shown("show_jobs", "'QUEUE', 9"),
            shown("show_job", "'QUEUE', \(job)"),
            shown("show_failed_jobs", "'QUEUE', 9, 128, 191"),
            shown("show_cancellable_jobs", "'QUEUE', 9, 192"),
            shown("show_stuck_jobs", "'QUEUE', 9"),
            shown("status", "'QUEUE', \(send)"), shown("status", "'QUEUE', \(campaign)"),
            shown("trace", "'QUEUE', token => '\(token)'"),
            shown("trace", "'QUEUE', user_key => 'anna'"),
            shown("trace", "'QUEUE', user_key => 'anna', campaign => '\(key)'"),
            shown("trace", "'QUEUE', user_key => 'anna', send => \(send)"),
            shown("trace", "'QUEUE', send => \(send)"),
            shown("trace", "'QUEUE', device => \(job)"),
        ]
    }

    /// The rows that a function returns, as one text.
    private static func shown(_ function: String, _ arguments: String) -> Probe {
        Probe(function: function, query: "jsonb_agg(to_jsonb(s)) from pushq.\(function)(\(arguments)) s")
    }

    /// The probes that a read-only login may also call.
    static let readersProbes = probes(1, 1, 1, 1).filter {
        $0.function.hasPrefix("show_")
            && !["show_devices", "show_device", "show_feedback", "show_recipients"].contains($0.function)
    }

    /// Functions that list rows of several queues: calls for all queues of the caller, and for those of `TENANT`.
    static let listings: [String: [String]] = [
        "show_queues": ["null, null, 9, 9", "'TENANT', null, 9, 9"],
        "show_load": ["null, null, 9", "'TENANT', null, 9"],
        "show_statistics": ["null, 100", "'TENANT', 100"],
        "show_campaigns": ["null, null, 9"], "show_jobs": ["null, 9"], "show_failed_jobs": ["null, 9, 128, 191"],
        "show_stuck_jobs": ["null, 9"],
    ]

    @Test func `is shown nothing of a neighbour where it names no queue`() async throws {
        try await withNeighbours { _, _, neighbours in
            // Both tenants have rows for each of the functions.
            for tenant in ["acme", "beta"] {
                let queue = "'\(tenant)/com.\(tenant)/production'"
                try await neighbours.admin.runScript(
                    """
                    select pushq.send(\(queue), \(Self.payload), tokens => array['aa']);
                    select pushq.start_campaign(\(queue), 'another', \(Self.payload));
                    insert into pushq.stuck_job (queue_id, job_id, problem, set_aside_at)
                    select queue_id, id, 'a problem', now() from pushq.job where queue_id = pushq.queue_id(\(queue));
                    with b as (
                      insert into pushq.body (day, queue_id, job_id, root_id, first_device_id, last_device_id, device_ids)
                      values (pushq.today(), pushq.queue_id(\(queue)), nextval('pushq.id'), 1, 1, 1, '{1}')
                      returning *)
                    insert into pushq.result (day, queue_id, job_id, root_id, body_day, message_id, lane, attempt, ended_at,
                                              outcomes, delivered, rejected, failed, suppressed, expired, cancelled, unknown,
                                              retried)
                    select day, queue_id, job_id, root_id, day, 0, 1, 1, now(), '\\x81', 0, 0, 1, 0, 0, 0, 0, 0
                    from b
                    """)
            }
            for (function, calls) in Self.listings {
                for arguments in calls {
                    func seen(_ login: PostgresConnection, of tenant: String) async -> String {
                        let call = arguments.replacing("TENANT", with: tenant)
                        return await answer(login, "string_agg(s::text, ' ') from pushq.\(function)(\(call)) s")
                    }
                    for login in [neighbours.producer, neighbours.reader] {
                        let own = await seen(login, of: "acme")
                        #expect(own.contains("com.acme") && !own.contains("beta"), "\(function): \(own)")
                        if arguments.contains("TENANT") {
                            #expect(await seen(login, of: "beta") == "null", "\(function)")
                            #expect(await seen(login, of: "none") == "null", "\(function)")
                        }
                    }
                    #expect(await seen(neighbours.stranger, of: "acme").contains("permission denied"))
                    // The operator sees all tenants if the call names none.
                    if arguments.contains("TENANT") {
                        let misspelt = await seen(neighbours.admin, of: "betta")
                        #expect(misspelt.contains("there is no tenant “betta”; did you mean “beta”?"), "\(misspelt)")
                    }
                    let all = await seen(neighbours.admin, of: "beta")
                    #expect(
                        all.contains("com.beta") && all.contains("com.acme") != arguments.contains("TENANT"), "\(all)")
                }
            }
        }
    }

    @Test func `that may only read is shown counts, and no tokens`() async throws {
        try await withNeighbours { _, _, neighbours in
            for probe in Self.probes(1, 1, 1, 1) {
                let query = probe.query.replacing("QUEUE", with: "acme/com.acme/production")
                let result = await answer(neighbours.reader, query)
                let may = Self.readersProbes.contains { $0.function == probe.function }
                #expect(result.contains("permission denied for function") != may, "\(probe.function): \(result)")
            }
            let theirs = await answer(neighbours.reader, "count(*) from pushq.show_jobs('beta/com.beta/production', 9)")
            #expect(theirs.contains("there is no queue"))
        }
    }

    @Test(arguments: [
        "show_jobs(QUEUE, -1)", "show_devices(QUEUE, 0, null, false, -1)", "show_feedback(QUEUE, -1)",
        "show_campaigns(QUEUE, null, -1)", "show_failed_jobs(QUEUE, -1, 128, 191)",
        "show_failed_jobs(QUEUE, 1, 128, 191, looking => -1)", "show_cancellable_jobs(QUEUE, -1, 192)",
        "show_stuck_jobs(QUEUE, -1)", "show_timeline(QUEUE, 1, -1, 64, 127, 191, 6, 7)",
        "show_load('acme', null, -1)", "show_queues('acme', null, -1, 9)", "show_statistics('acme', -1)",
        "feedback_after(QUEUE, most => -1)", "trace(QUEUE, user_key => 'anna', most => -1)",
        "show_schedules(QUEUE, null, -1)", "show_schedules(QUEUE, null, 100000)",
        "show_recipients(QUEUE, 'sale', '{unknown}', 0, -1)", "show_recipients(QUEUE, 'sale', '{unknown}', 0, 100000)",
    ])
    func `is told in one line which number of rows it cannot have`(call: String) async throws {
        try await withNeighbours { _, _, neighbours in
            let own = call.replacing("QUEUE", with: "'acme/com.acme/production'")
            let result = await answer(neighbours.producer, "count(*) from pushq.\(own)")
            #expect(result.contains(/most cannot be (-1|100000)/), "\(result)")
        }
    }

    @Test(arguments: [-200, 64, Int(Int32.max)])
    func `is told in one line which code no reason has`(code: Int) async throws {
        try await withNeighbours { _, _, neighbours in
            let call = "show_cancellable_jobs('acme/com.acme/production', 1, 192, reason => \(code))"
            let result = await answer(neighbours.producer, "count(*) from pushq.\(call)")
            #expect(result.contains("no reason has the code \(code)"), "\(result)")
        }
    }

    @Test func `gets the same error for a neighbour's queue as for one that does not exist`() async throws {
        try await withNeighbours { _, _, neighbours in
            for probe in Self.probes(neighbours.send, neighbours.list, neighbours.job, neighbours.campaign) {
                var answers: [String] = []
                for queue in ["beta/com.beta/production", "beta/com.none/production", "none/com.none/production"] {
                    let query = probe.query.replacing("QUEUE", with: queue)
                    answers.append(await answer(neighbours.producer, query).replacing(queue, with: "QUEUE"))
                }
                #expect(answers[0].contains("there is no queue “QUEUE”"), "\(probe.function): \(answers[0])")
                #expect(Set(answers).count == 1, "\(probe.function): \(answers)")
            }
        }
    }

    @Test func `gets the same answer for a neighbour's ids and names in its own queue as for others that do not exist`()
        async throws
    {
        try await withNeighbours { _, _, neighbours in
            let none: Int64 = 987_654_321
            let theirs = Self.probes(neighbours.send, neighbours.list, neighbours.job, neighbours.campaign)
            let nobodys = Self.probes(
                none, none, none, none, key: "nobodys", channel: "bm9ib2R5cw", audience: "nobodies", schedule: "never")
            for (probe, other) in zip(theirs, nobodys) {
                // Each probe runs in a transaction that is rolled back, so that the first does not create what the
                // second names.
                func tried(_ probe: Probe) async throws -> String {
                    try await neighbours.producer.runScript("begin")
                    let result = await answer(
                        neighbours.producer, probe.query.replacing("QUEUE", with: "acme/com.acme/production"))
                    try await neighbours.producer.runScript("rollback")
                    return result.replacing(
                        /\b(?:\d+|sale|nobodys|dGhlaXJz|bm9ib2R5cw|vips|nobodies|weekly|never)\b/, with: "…")
                }
                let answers = (try await tried(probe), try await tried(other))
                #expect(answers.0 == answers.1, "\(probe.function)")
            }
            // The neighbour's objects are unchanged.
            let state = "count(*) from pushq.campaign where cancelled_at is null and paused_at is null and key = 'sale'"
            #expect(try await text(neighbours.admin, state) == "1")
            #expect(try await text(neighbours.admin, "count(*) from pushq.cancelled") == "0")
            #expect(
                try await text(neighbours.admin, "count(*) from pushq.device where user_key = 'anna' and active") == "1"
            )
        }
    }

    @Test func `sees its own queues and campaigns in the views, also where a function of its own looks first`()
        async throws
    {
        try await withNeighbours { _, _, neighbours in
            let start = "pushq.start_campaign('acme/com.acme/production', 'own', \(Self.payload))"
            _ = try await text(neighbours.producer, start)
            // PostgreSQL would call the cheapest function for every app and campaign, if the views allowed it.
            let spy = """
                create function pg_temp.spy(seen text) returns boolean language plpgsql cost 0.000001 as $$
                begin
                  raise warning '%', seen;
                  if seen like '%beta%' or seen = 'sale' then raise exception 'seen %', seen; end if;
                  return true;
                end $$
                """
            for login in [neighbours.producer, neighbours.reader] {
                try await login.runScript(spy)
                // These settings force plans that begin with all rows of a table.
                try await login.runScript(
                    "set enable_nestloop = off; set enable_indexscan = off; set enable_bitmapscan = off; set enable_indexonlyscan = off"
                )
                let queues = "string_agg(queue, ',') from pushq.my_queues where pg_temp.spy(app)"
                #expect(await answer(login, queues) == "acme/com.acme/production")
                let campaigns = "string_agg(key, ',') from pushq.my_campaigns where pg_temp.spy(key)"
                #expect(await answer(login, campaigns) == "own")
            }
        }
    }

    @Test func `cannot have a cast of its own run with the owner's rights`() async throws {
        try await withNeighbours { _, _, neighbours in
            try await neighbours.producer.runScript(
                """
                create temp table bait (n int);
                create function pg_temp.bite(bait) returns text language plpgsql as $$
                begin
                  return (select '{"aps":{"alert":"' || count(*) || '"}}' from pushq.credential);
                end $$;
                create cast (bait as text) with function pg_temp.bite(bait)
                """)
            let queue = "'acme/com.acme/production'"
            for call in [
                "pushq.send(\(queue), row(1)::bait, tokens => array['\(Self.token)'])",
                "pushq.start_campaign(\(queue), 'k', row(1)::bait)",
                "pushq.start_campaign(\(queue), 'k', row(1)::bait, list => 1)",
                "pushq.start_campaign(\(queue), 'k', row(1)::bait, tokens => array['\(Self.token)'])",
                "pushq.broadcast(\(queue), 'dGhlaXJz', row(1)::bait, expiration => 0)",
            ] {
                let result = await answer(neighbours.producer, call)
                #expect(result.contains("the payload is of type bait: use json, jsonb or text"), "\(call): \(result)")
            }
        }
    }

    @Test func `is told where it may only read, though it may write elsewhere`() async throws {
        try await withNeighbours { _, database, neighbours in
            try await neighbours.admin.grantTenant("beta", to: "producer_\(database.name)", isReadOnly: true)
            let result = await answer(neighbours.producer, "pushq.new_list('beta/com.beta/production')")
            #expect(result.contains("login “producer_\(database.name)” may only read queue “beta/com.beta/production”"))
            let theirs = await answer(neighbours.producer, "pushq.new_list('beta/com.none/production')")
            #expect(theirs.contains("there is no queue"))
        }
    }

    // MARK: The role of a call

    @Test func `acts as the role that it has set, as behind a pooler, and as the login otherwise`() async throws {
        try await withNeighbours { _, database, neighbours in
            let pool = "pool_\(database.name)"
            try await neighbours.admin.runScript(
                "create role \(pool) login; grant producer_\(database.name), neighbour_\(database.name) to \(pool)")
            let connection = try await database.connect(login: pool)
            func may(_ tenant: String) async -> Bool {
                await answer(connection, "pushq.new_list('\(tenant)/com.\(tenant)/production')").allSatisfy(\.isNumber)
            }
            // Membership alone gives access to no tenant.
            #expect(await !may("acme"))
            try await connection.runScript("set role producer_\(database.name)")
            #expect(await may("acme"))
            #expect(await !may("beta"))
            try await connection.runScript("set role neighbour_\(database.name)")
            #expect(await !may("acme"))
            #expect(await may("beta"))
        }
    }

    @Test func `loses its rights when they are revoked, in sessions that are open, too`() async throws {
        try await withNeighbours { _, database, neighbours in
            let call = "pushq.new_list('acme/com.acme/production')"
            #expect(Int64(await answer(neighbours.producer, call)) != nil)
            let login = "producer_\(database.name)"
            let logins = try await neighbours.admin.tenantLogins(of: "acme").map(\.login)
            #expect(logins.contains(login))
            let revoked = try await neighbours.admin.revokeTenant("acme", from: login)
            let revokedAgain = try await neighbours.admin.revokeTenant("acme", from: login)
            #expect(revoked && !revokedAgain)
            #expect(await answer(neighbours.producer, call).contains("there is no queue"))
            #expect(await answer(neighbours.producer, "count(*) from pushq.my_queues") == "0")
        }
    }

    @Test func `has no rights in another installation of the server, though roles are shared`() async throws {
        try await withNeighbours { _, database, _ in
            let login = "producer_\(database.name)"
            try await withDatabase { _, other in
                let admin = try await other.connect()
                _ = try await admin.createTenant("acme")
                _ = try await admin.createApp("com.acme", of: "acme")
                _ = try await admin.createQueue(.init(tenant: "acme", app: "com.acme", environment: .production))
                let connection = try await other.connect(login: login)
                let result = await answer(connection, "pushq.new_list('acme/com.acme/production')")
                #expect(result.contains("there is no queue"))
                #expect(await answer(connection, "count(*) from pushq.my_queues") == "0")
            }
        }
    }

    @Test func `cannot be granted a tenant that does not exist, nor be a role that does not`() async throws {
        try await withNeighbours { _, database, neighbours in
            await #expect(throws: TenantGrantError.noTenant) {
                try await neighbours.admin.grantTenant("none", to: "producer_\(database.name)", isReadOnly: false)
            }
            await #expect(throws: TenantGrantError.noRole) {
                try await neighbours.admin.grantTenant("acme", to: "nobody", isReadOnly: false)
            }
        }
    }
}
