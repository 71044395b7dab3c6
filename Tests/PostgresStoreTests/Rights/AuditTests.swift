import Foundation
import QueueCore
import TestSupport
import Testing

@testable import PostgresStore

/// Tests `pushq.audit`, which records who changed what and when.
@Suite(.timeLimit(.minutes(10))) struct `The audit` {
    /// Tables without settings. The author of a new table decides whether it belongs here.
    private static let data: Set<String> = [
        "audit", "badge", "body", "call", "campaign_share", "campaign_tally", "cancelled", "channel", "device",
        "device_turn", "duty",
        "empty_send", "fan_out", "fan_out_turn",
        "feedback", "feedback_poll", "feedback_record", "former_tenant", "job", "judgement", "lease", "lineage", "list",
        "list_member",
        "list_user",
        "message",
        "migration", "moved_row", "mover", "named_lock", "newest_update", "profile", "provider_token", "recent_push",
        "removed_queue",
        "restored_queue",
        "result",
        "send_key", "sleeper",
        "stuck_job", "tenant_move", "tenant_usage", "throughput", "wave", "webhook_progress", "worker",
    ]
    /// Columns of settings tables that no operator changes.
    private static let state: Set<String> = [
        "frequency_cap: set_at", "quiet_hours: set_at", "campaign: quiet_hours", "rate_limit: tat",
        "credential: warned_days", "credential: version", "credential: replaced_at",
        "queue: credential_refusals", "campaign: created_at",
        "campaign: digest",
        "campaign: id", "campaign: key", "campaign: message_id", "campaign: queue_id", "campaign: forgiven",
        "campaign: forgiven_at", "campaign: forgiven_bad", "campaign: filter", "campaign: filter_tree",
        "schedule: next_at", "schedule: run_at", "schedule: started_at", "schedule: missed_at", "schedule: problem",
        "schedule: retry_at", "schedule: tried_at", "schedule: failures",
    ]
    /// Columns that identify a row and its owner. Entries name them.
    private static let identity: Set<String> = [
        "id", "tenant_id", "queue_id", "app_id", "campaign_id", "created_at", "granted_at",
    ]

    /// Settings of each kind, as plain SQL.
    private static let settings = """
        insert into pushq.tenant_login (login, tenant_id) select 'shop', id from pushq.tenant;
        insert into pushq.tenant_quota (tenant_id, max_devices) select id, 100 from pushq.tenant;
        insert into pushq.credential (tenant_id, name, kind, team_id, key_id, environments, sealed, fingerprint)
        select id, 'main', 'token', 'TEAM123456', 'KEY1234567', '{sandbox}', 'topsecret', 'print' from pushq.tenant;
        insert into pushq.webhook (tenant_id, url, sealed) select id, 'https://a.example/', 'topsecret' from pushq.tenant;
        insert into pushq.rate_limit (tenant_id, queue_id, rate, burst) select tenant_id, id, 100, 10 from pushq.queue;
        insert into pushq.rate_limit (tenant_id, rate, burst) select id, 200, 20 from pushq.tenant;
        insert into pushq.frequency_cap (queue_id, pushes, period) select id, 3, '1 day' from pushq.queue;
        insert into pushq.quiet_hours (queue_id, hours) select id, '22:00-08:00' from pushq.queue;
        insert into pushq.audience (queue_id, name, filter) select id, 'vips', 'tag ''vip''' from pushq.queue;
        insert into pushq.schedule (queue_id, name, cron, time_zone, after_outage, payload, options, next_at)
        select id, 'weekly', '@weekly', 'UTC', 'skip', '{"aps":{}}', '{}', now() from pushq.queue;
        """

    private static let entries = Statement(
        "entries",
        #"""
        select format('%s %s %s %s%s', coalesce(tenant, '-'), object, coalesce(name, '-'), action,
                      (select string_agg(format(' %s:%s→%s', key, value ->> 'from', value ->> 'to'), '' order by key)
                       from jsonb_each(changes))) as entry
        from pushq.audit
        where id > $after
        order by id
        """#)

    /// The entries that `body` adds.
    private func entries(_ store: PostgresConnection, _ body: () async throws -> Void) async throws -> [String] {
        let last = try await store.execute(Statement("last", "select coalesce(max(id), 0) as id from pushq.audit"))
        let parameters: Parameters = ["after": .int8(try last.one().int8("id"))]
        try await body()
        return try await store.execute(Self.entries, parameters).map { $0.text("entry") }
    }

    private static let columns = Statement(
        "columns",
        #"""
        select c.relname as table, a.attname as column, format_type(a.atttypid, null) as type
        from pg_class c
        join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
        where c.relnamespace = 'pushq'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
        order by c.relname, a.attnum
        """#)

    /// An assignment that gives a column another value than `settings` and violates no constraint.
    private static func change(_ table: String, _ column: String, _ type: String) -> String {
        let value =
            switch "\(table).\(column)" {
            case "queue.environment": "'production'"
            case "queue.gateway": "'binary'"
            case "queue.paused_at": "now(), paused_reason = 'x'"
            case "queue.paused_reason": "'x', paused_at = now()"
            case "queue.credential_id": "(select id from pushq.credential)"
            case "campaign.paused_reason": "'x', paused_at = now()"
            case "campaign.stop_at_errors": "0.5"
            case "quiet_hours.hours": "'21:00-07:00'"
            case "quiet_hours.release": "interval '1 hour'"
            case "schedule.after_outage": "'all'"
            case "schedule.payload": "'{}'"
            case "schedule.options": "'{\"urgent\":true}'"
            case "webhook.url": "'http://a.example/'"
            case "webhook.former_sealed": "'other', former_until = now()"
            case "webhook.former_until": "now() + interval '1 hour', former_sealed = 'other'"
            case "credential.kind": "'certificate'"
            case "credential.environments": "'{production}'"
            default:
                switch type {
                case "text": "'other'"
                case "boolean": "not \(column)"
                case "bytea": "'other'"
                case "text[]": "'{other}'"
                case "timestamp with time zone": "now() + interval '1 hour'"
                case "interval": "interval '2 days'"
                default: "coalesce(\(column), 1) + 1"
                }
            }
        return "update pushq.\(table) set \(column) = \(value)"
    }

    @Test func `has every table of settings, and every column of these, also when SQL changes them`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            let store = queue.connection
            try await queue.run(Self.settings)
            _ = try await queue.startCampaign()
            let columns = try await store.execute(Self.columns).map { row in
                (table: row.text("table"), name: row.text("column"), type: row.text("type"))
            }
            let tables = Set(columns.map(\.table)).subtracting(Self.data)
            #expect(tables.isSuperset(of: ["tenant", "queue", "credential"]))
            #expect(Self.data.isSubset(of: Set(columns.map(\.table))), "a table is gone")
            var tried = 0
            for column in columns where tables.contains(column.table) {
                if Self.identity.contains(column.name) || Self.state.contains("\(column.table): \(column.name)") {
                    continue
                }
                try await queue.run("begin")
                let made = try await entries(store) {
                    try await queue.run(Self.change(column.table, column.name, column.type))
                }
                try await queue.run("rollback")
                let name = column.name == "credential_id" ? "credential" : column.name
                let isTold =
                    !made.isEmpty && made.allSatisfy { $0.contains(" \(column.table) ") && $0.contains(" \(name):") }
                #expect(isTold, "\(column.table).\(column.name): \(made)")
                tried += 1
            }
            #expect(tried > 40)
        }
    }

    @Test func `has what is made and removed, with names, and neither secrets nor tokens`() async throws {
        try await withDatabase { _, database in
            let store = try await database.connect()
            let made = try await entries(store) {
                _ = try await QueueFixture(database, devices: 1)
                try await store.runScript(Self.settings)
                try await store.runScript(
                    """
                    update pushq.credential set sealed = 'othersecret';
                    update pushq.queue set credential_id = (select id from pushq.credential), weight = 2;
                    update pushq.queue set weight = 2
                    """)
            }
            let expected = [
                "acme tenant acme created name:→acme weight:→1",
                "acme app com.acme created bundle_id:→com.acme",
                "acme queue acme/com.acme/sandbox created connections:→4 derive_collapse_id:→true environment:→sandbox "
                    + "feedback_every:→1 day gateway:→http2 max_attempts:→10 weight:→1",
                "acme tenant_login shop created login:→shop read_only:→false",
                "acme tenant_quota acme created max_devices:→100",
                "acme credential main created environments:→[\"sandbox\"] fingerprint:→(not shown) key_id:→KEY1234567 kind:→token "
                    + "name:→main sealed:→(not shown) team_id:→TEAM123456 topics:→[]",
                "acme webhook acme created sealed:→(not shown) url:→https://a.example/",
                "acme rate_limit acme/com.acme/sandbox created burst:→10 rate:→100",
                "acme rate_limit acme created burst:→20 rate:→200",
                "acme frequency_cap acme/com.acme/sandbox created includes_urgent:→false period:→1 day pushes:→3",
                "acme quiet_hours acme/com.acme/sandbox created hours:→22:00-08:00 includes_urgent:→false "
                    + "release:→00:15:00",
                "acme audience acme/com.acme/sandbox vips created filter:→tag 'vip' name:→vips",
                "acme schedule acme/com.acme/sandbox weekly created after_outage:→skip cron:→@weekly name:→weekly "
                    + "options:→{} payload:→{\"aps\": {}} time_zone:→UTC",
                "acme credential main changed sealed:(not shown)→(not shown)",
                "acme queue acme/com.acme/sandbox changed credential:→main weight:1→2",
            ]
            #expect(made == expected)
            let gone = try await entries(store) {
                try await store.runScript(
                    "delete from pushq.rate_limit where queue_id <> 0; update pushq.queue set credential_id = null; delete from pushq.credential"
                )
                #expect(try await store.removeApp("com.acme", of: "acme"))
            }
            #expect(
                gone.map { $0.prefix { $0 != ":" } } == [
                    "acme rate_limit acme/com.acme/sandbox removed burst",
                    "acme queue acme/com.acme/sandbox changed credential",
                    "acme credential main removed environments",
                    "acme frequency_cap acme/com.acme/sandbox removed includes_urgent",
                    "acme quiet_hours acme/com.acme/sandbox removed hours",
                    "acme audience acme/com.acme/sandbox vips removed filter",
                    "acme schedule acme/com.acme/sandbox weekly removed after_outage",
                    "acme queue acme/com.acme/sandbox removed connections",
                    "acme app com.acme removed bundle_id",
                ])
            let truncated = try await entries(store) { try await store.runScript("truncate pushq.rate_limit") }
            #expect(truncated == ["- rate_limit - emptied"])
            let text = try await store.execute(
                Statement("all", "select string_agg(a::text, ' ') as text from pushq.audit a")
            ).one().text("text")
            for secret in ["topsecret", "othersecret", "746f70736563726574", "6f74686572736563726574"] {
                #expect(!text.contains(secret))
            }
        }
    }

    @Test func `says who it was: the login, the role that it had set, and the client`() async throws {
        try await withDatabase { _, database in
            let admin = try await database.connect()
            _ = try await QueueFixture(database)
            let (operatorRole, login) = ("operator_\(database.name)", "person_\(database.name)")
            try await admin.runScript(
                """
                create role \(operatorRole) login; grant pushq_owner to \(operatorRole);
                create role \(login) login; grant \(operatorRole) to \(login)
                """)
            let connection = try await database.connect(login: login)
            try await connection.runScript("set role \(operatorRole)")
            var change = QueueChange()
            change.weight = 7
            try await connection.setQueue(QueueFixture.name, to: change)
            let entry = try #require(try await admin.auditEntries(of: "acme", since: nil, limit: 1).first)
            #expect(entry.login == login)
            #expect(entry.actingAs == operatorRole)
            #expect(entry.application == "test")
            #expect(entry.changes == "weight: 1 → 7")
            let counts = try await (
                admin.auditEntries(of: "beta", since: nil, limit: 10).count,
                admin.auditEntries(of: "acme", since: entry.changedAt.addingTimeInterval(1), limit: 10).count,
                admin.auditEntries(of: nil, since: entry.changedAt.addingTimeInterval(-0.001), limit: 10).count
            )
            #expect(counts == (0, 0, 1))
        }
    }

    @Test func `writes times and intervals in one form, whatever the session shows them in`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            var entries: Set<String> = []
            for (zone, style) in [("Asia/Tokyo", "sql_standard"), ("America/New_York", "iso_8601")] {
                let session = try await database.connect()
                try await session.runScript(
                    """
                    set timezone = '\(zone)'; set intervalstyle = '\(style)';
                    begin;
                    update pushq.queue set feedback_every = '36 hours', paused_at = '2026-11-29 12:00:00+00',
                        paused_reason = 'lunch';
                    select pushq.tell('queue', id) from pushq.queue;
                    commit
                    """)
                entries.insert(
                    try #require(try await session.auditEntries(of: "acme", since: nil, limit: 1).first).changes ?? "")
                try await queue.run(
                    "update pushq.queue set feedback_every = '1 day', paused_at = null, paused_reason = null")
            }
            #expect(entries.count == 1)
            #expect(entries.first?.contains("36:00:00") == true)
        }
    }

    @Test func `cannot be changed by anybody, nor be deleted before its time, and upkeep deletes what is past it`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let store = queue.connection
            for statement in [
                "update pushq.audit set login = 'nobody'", "delete from pushq.audit", "truncate pushq.audit",
                "update pushq.audit set changed_at = now() - interval '3 years'",
            ] {
                let error = await #expect(throws: PostgresError.self) { try await queue.run(statement) }
                #expect(
                    error?.description.contains("cannot be changed or deleted by hand") == true,
                    "\(String(describing: error))")
            }
            // Entries from 366, 364 and 11 days ago: of the tenant, of a tenant that is gone, and of none.
            let old = { (days: Int, tenant: String) in
                """
                insert into pushq.audit (changed_at, login, tenant, object, action, changes)
                values (now() - interval '\(days) days', 'old', \(tenant), 'queue', 'changed', '{}');
                """
            }
            try await queue.run(
                old(366, "'acme'") + old(364, "'acme'") + old(366, "'gone'") + old(366, "null") + old(11, "'acme'"))
            let count = "select count(*) from pushq.audit where login = 'old'"
            try await store.forget()
            #expect(try await queue.number(count) == 2)
            var change = TenantChange()
            change.audit = .days(10)
            #expect(try await store.setTenant("acme", to: change))
            try await store.forget()
            #expect(try await queue.number(count) == 0)
            #expect(try await queue.number("select count(*) from pushq.audit where object = 'queue'") == 1)
        }
    }

    @Test func `of all is not read because one tenant keeps its entries for a day`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            var change = TenantChange()
            change.audit = .days(1)
            #expect(try await queue.connection.setTenant("acme", to: change))
            try await queue.run(
                """
                insert into pushq.audit (changed_at, login, tenant, object, action, changes)
                select now() - interval '100 days', 'other', 'other', 'queue', 'changed', '{}'
                from generate_series(1, 20000);
                insert into pushq.audit (changed_at, login, tenant, object, action, changes)
                select now() - n * interval '1 hour', 'own', 'acme', 'queue', 'changed', '{}'
                from generate_series(1, 48) n
                """)
            try await queue.run("vacuum (analyze) pushq.audit")
            func rowsRead() async throws -> Int {
                try await queue.reportStatistics()
                return try await queue.number(
                    """
                    select coalesce(seq_tup_read, 0) + idx_tup_fetch
                    from pg_stat_user_tables
                    where relid = 'pushq.audit'::regclass
                    """)
            }
            let before = try await rowsRead()
            try await queue.worker.forget()
            #expect(try await rowsRead() - before < 500)
            #expect(try await queue.number("select count(*) from pushq.audit where login = 'own'") == 23)
            #expect(try await queue.number("select count(*) from pushq.audit where login = 'other'") == 20000)
        }
    }

    @Test func `is kept of a tenant that is removed as long as before, also if another one gets its name`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let store = queue.connection
            var change = TenantChange()
            change.audit = .days(3650)
            #expect(try await store.setTenant("acme", to: change))
            let insert = { (days: Int) in
                """
                insert into pushq.audit (changed_at, login, tenant, object, action, changes)
                values (now() - interval '\(days) days', 'old', 'acme', 'queue', 'changed', '{}')
                """
            }
            for days in [300, 700, 3651] { try await queue.run(insert(days)) }
            _ = try await store.removeTenant("acme")
            try await store.forget()
            let count = "select count(*) from pushq.audit where login = 'old'"
            #expect(try await queue.number(count) == 2)
            await #expect(throws: PostgresError.self) { try await queue.run("delete from pushq.audit") }

            change.audit = .days(1)
            _ = try await store.createTenant("acme")
            #expect(try await store.loss(ofTenant: "acme", by: change)?.entries.count == 0)
            #expect(try await store.setTenant("acme", to: change))
            try await store.forget()
            #expect(try await queue.number(count) == 2)
            // Entries about the new tenant follow its own setting. The days of the former one are forgotten with its
            // last entry.
            let former = "select count(*) from pushq.former_tenant"
            try await queue.run("update pushq.former_tenant set removed_at = now() - interval '3649 days'")
            try await queue.run(insert(2))
            try await store.forget()
            #expect(try await queue.number(count) == 0)
            #expect(try await queue.number(former) == 1)
            try await queue.run("update pushq.former_tenant set removed_at = now() - interval '3651 days'")
            try await store.forget()
            #expect(try await queue.number(former) == 0)
        }
    }

    @Test func `has what was done to devices by hand, and no token of theirs`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let (store, name) = (queue.connection, QueueFixture.name)
            let token = try DeviceToken(hex: "abcdef0123")
            let id = try await store.registerDevice(token, userKey: nil, inQueue: name)
            let made = try await entries(store) {
                for isActive in [false, false, true, true] {
                    _ = try await store.setDevice(token, inQueue: name, isActive: isActive)
                }
                let file = DeviceFile.text("aa\nbb\n")
                _ = try await store.importDevices(from: file, inQueue: name, reactivates: false) { _ in }
                _ = try await store.forgetDevice(token, inQueue: name)
            }
            #expect(
                made == [
                    "acme device \(name) \(id) deactivated devices:→1",
                    "acme device \(name) \(id) reactivated devices:→1", "acme device \(name) imported devices:→2",
                    "acme device \(name) \(id) forgotten devices:→1",
                ])
        }
    }

    @Test func `has what commands do that changes no setting: workers' logins, devices in mass, jobs and channels`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 2)
            let (store, name) = (queue.connection, QueueFixture.name)
            let login = "audited_\(database.name)"
            try await queue.run("create role \(login) login; select pushq.register_channel('\(name)', 'dGhlaXJz', 0)")
            try await queue.fanOut(try await queue.startCampaign())
            try await queue.run(
                """
                insert into pushq.feedback (queue_id, device_id, reason, reported_at, recorded_at, verdict)
                select queue_id, id, 26, now(), now(), 'deactivated' from pushq.device;
                update pushq.device set active = false, inactive_since = f.reported_at, inactive_reason = f.reason
                from pushq.feedback f where f.queue_id = device.queue_id and f.device_id = device.id;
                insert into pushq.stuck_job (queue_id, job_id, tries, problem, set_aside_at)
                select queue_id, id, 3, 'x', now() from pushq.job
                """)
            let made = try await entries(store) {
                for isGranted in [true, true, false] { try await store.setWorker(login, isGranted: isGranted) }
                for _ in 1...2 { _ = try await store.reactivateDevices(inQueue: name, .init(), counts: false) }
                for _ in 1...2 { _ = try await store.resumeJobs(ofQueue: name, only: nil) }
                for _ in 1...2 { try await store.retireChannels([ChannelID("dGhlaXJz")], ofQueue: name) }
            }
            #expect(
                made == [
                    "- worker_login \(login) created", "- worker_login \(login) removed",
                    "acme device \(name) reactivated devices:→2", "acme job \(name) resumed jobs:→1",
                    "acme channel \(name) retired channels:→1",
                ])
            try await queue.run("drop role \(login)")
        }
    }

    @Test func `keeps of what is long what a change has overwritten, and else only the beginning`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let name = "'\(QueueFixture.name)'"
            for number in [1, 2] {
                try await queue.run(
                    """
                    select pushq.save_audience(
                      \(name), 'vips', 'tag in (' || string_agg(format('''tag%s''', i), ', ') || ')', replaces => true)
                    from generate_series(\(number), 700) i;
                    select pushq.add_schedule(
                      \(name), 's', '@daily', format('{"aps":{"alert":"%s"}}', repeat('\(number)', 3000)), replaces => true)
                    """)
            }
            let entries = "from pushq.audit where object in ('audience', 'schedule')"
            #expect(try await queue.number("select count(*) \(entries)") == 4)
            let created = "\(entries) and action = 'created'"
            #expect(try await queue.number("select max(octet_length(changes::text)) \(created)") < 2000)
            for (object, column, former) in [
                ("audience", "filter", "tag in ('tag1', %'tag700')"),
                ("schedule", "payload", #"{"aps": {"alert": "1%1"}}"#),
            ] {
                let change = "from pushq.audit where object = '\(object)' and action = 'changed'"
                let from = "changes -> '\(column)' ->> 'from' like '\(former.replacing("'", with: "''"))'"
                #expect(try await queue.number("select count(*) \(change) and \(from)") == 1, "\(object)")
                let to = "select max(octet_length(changes -> '\(column)' ->> 'to')) \(change)"
                #expect(try await queue.number(to) < 300)
            }
            // Even so, no tenant can fill the table.
            try await queue.run(
                """
                select pushq.add_schedule(
                  \(name), 's', '@daily',
                  json_build_object('default', json_build_object('aps', json_build_object('alert', 'x')), 'languages', (
                    select json_object_agg('a' || chr(97 + i), json_build_object('aps', json_build_object('alert', repeat('x', 3000))))
                    from generate_series(0, 9) i)), replaces => true);
                select pushq.add_schedule(\(name), 's', '@daily', '{"aps":{"alert":"x"}}'::json, replaces => true);
                """)
            #expect(try await queue.number("select max(octet_length(changes::text)) \(entries)") < 12000)
        }
    }

    @Test func `has the new end of a campaign that is resumed, in the form of other times`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            let (store, name) = (queue.connection, QueueFixture.name)
            _ = try await queue.startCampaign(options: ", send_by => '2126-12-10T00:00:00Z'")
            try await queue.run("set timezone = 'Asia/Tokyo'")
            let end = ", send_by => '2126-12-11T12:30:00Z'"
            let made = try await entries(store) {
                for options in [end, end, ""] {
                    try await queue.run("select pushq.pause_campaign('\(name)', 'k')")
                    try await queue.run("select pushq.resume_campaign('\(name)', 'k'\(options))")
                }
            }
            #expect(made.count == 7, "three pauses, three resumes, one new end: \(made)")
            #expect(
                made.filter { $0.contains("send_by") } == [
                    "acme campaign \(name) k changed send_by:2126-12-10T00:00:00+00:00→2126-12-11T12:30:00+00:00"
                ])
        }
    }

    @Test func `has a send that was cancelled, once`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let name = QueueFixture.name
            let send = try await queue.number(
                #"select pushq.send('\#(name)', '{"aps":{"alert":"x"}}', array['aa', 'bb'])"#)
            let made = try await entries(queue.connection) {
                for _ in 1...2 { try await queue.run("select pushq.cancel('\(name)', \(send))") }
            }
            #expect(made == ["acme send \(name) \(send) cancelled recipients:→2"])
        }
    }

    @Test func `costs what workers and producers do for each push nothing`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            let store = queue.connection
            try await queue.run(Self.settings)
            let made = try await entries(store) {
                _ = try await store.registerDevice(DeviceToken(hex: "abcd"), userKey: "1", inQueue: QueueFixture.name)
                try await queue.fanOut(try await queue.startCampaign())
                try await queue.run("update pushq.rate_limit set tat = now()")
                let jobs = try await queue.claim()
                _ = try await store.endJobs(jobs.map { queue.settled($0) }, workerID: 1)
            }
            #expect(made == [])
            _ = try await queue.startCampaign(key: "l")
            let stopped = try await entries(store) {
                _ = try await store.order(.cancel, campaign: "l", ofQueue: QueueFixture.name)
            }
            #expect(
                stopped.map { $0.prefix { $0 != ":" } } == [
                    "acme campaign acme/com.acme/sandbox l changed cancelled_at"
                ])
        }
    }
}
