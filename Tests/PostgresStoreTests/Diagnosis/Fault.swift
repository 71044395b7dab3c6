import Testing

@testable import PostgresStore

/// A fault of an installation: the SQL that causes it, and the finding that a check must return.
struct Fault: Sendable, CustomTestStringConvertible {
    let situation: String
    let check: HealthCheck
    /// The SQL that causes the fault. `$database` stands for the database's name.
    let sql: String
    let severity: HealthFinding.Severity
    let subject: String
    /// A part of the finding's text.
    let evidence: String
    let remedy: HealthFinding.Remedy

    init(
        _ situation: String, _ check: HealthCheck, _ sql: String, _ severity: HealthFinding.Severity, _ subject: String,
        _ evidence: String, _ remedy: HealthFinding.Remedy
    ) {
        self.situation = situation
        self.check = check
        self.sql = sql
        self.severity = severity
        self.subject = subject
        self.evidence = evidence
        self.remedy = remedy
    }

    var testDescription: String { situation }

    /// The same fault, with the database's name inserted.
    func inDatabase(_ name: String) -> Fault {
        let named = { (text: String) in text.replacing("$database", with: name) }
        let remedy: HealthFinding.Remedy =
            if case .sql(let text, let following) = remedy {
                .sql(named(text), then: following.map(named))
            } else {
                remedy
            }
        return Fault(situation, check, named(sql), severity, named(subject), named(evidence), remedy)
    }

    /// The check's findings about this subject. The test server has settings that are findings by themselves.
    func findings(in connection: PostgresConnection) async throws -> [HealthFinding] {
        try await check.findings(in: connection).filter { $0.subject == subject }
    }

    /// An installation without faults: a queue with a credential, and a worker that serves it.
    static let healthy = """
        insert into pushq.tenant (name) values ('acme');
        insert into pushq.app (tenant_id, bundle_id) select id, 'com.acme.shop' from pushq.tenant;
        insert into pushq.credential (tenant_id, name, kind, team_id, key_id, environments, sealed)
          select id, 'main', 'token', 'TEAM123456', 'ABC123DEFG', '{production}', '\\x010203040506070809' from pushq.tenant;
        insert into pushq.queue (tenant_id, app_id, environment, credential_id)
          select c.tenant_id, a.id, 'production', c.id from pushq.credential c join pushq.app a using (tenant_id);
        insert into pushq.worker (id, name, version) values (1, 'web-1:42', '1.0.0');
        -- The schema may have been made some time ago: databases of tests are copies of one.
        update pushq.duty set next_at = now();
        """

    private static let job = """
        insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, root_id, body_day, recipient_count)
          select id, 7, 1, now() - interval '1 minute', now() + interval '1 hour', 7, 7, pushq.today(), 1 from pushq.queue;
        """
    private static let lease = """
        insert into pushq.lease (queue_id, job_id, worker_id, epoch, deadline, watermark, outcomes, lane, run_at,
                                 send_by, message_id, root_id, body_day, recipient_count, attempt, losses, at_most_once)
          select id, 7, 99, 1, now() - interval '5 minutes', 0, '\\x00', 1, now(), now(), 7, 7, pushq.today(), 1, 1, 0, false
          from pushq.queue
        """
    /// A worker makes its jobs when it fans it out.
    private static let campaign = """
        insert into pushq.fan_out (queue_id, campaign_id, message_id, start_at, send_by, at_most_once, lane)
          select id, 7, 7, now() - interval '1 minute', now() + interval '1 hour', false, 2 from pushq.queue
        """
    private static let queue = "acme/com.acme.shop/production"
    private static let replace = HealthFinding.Remedy.command("pushq-admin credential replace acme main --pkcs12 FILE")

    private static func certificate(endingIn time: String) -> String {
        "update pushq.credential set kind = 'certificate', fingerprint = '\\x00', not_after = now() + interval '\(time)'"
    }

    private static func setting(_ name: String, _ value: String) -> String {
        "alter database $database set \(name) = '\(value)'"
    }

    /// The faults that SQL alone can cause.
    static let all = server + fleet + tenants

    private static let server = [
        Fault(
            "commits that a crash forgets", .settings, setting("synchronous_commit", "off"), .warning,
            "synchronous_commit of database $database", "is off: a crash loses the last commits",
            .sql("alter database $database reset synchronous_commit;")),
        Fault(
            "a worker whose commits a crash forgets", .settings,
            """
            create role sender_$database login in role pushq_worker;
            alter role sender_$database set synchronous_commit = 'false'
            """, .warning, "synchronous_commit of role sender_$database", "is false: a crash loses the last commits",
            .sql("alter role sender_$database reset synchronous_commit;")),
        Fault(
            "another isolation of transactions", .settings, setting("default_transaction_isolation", "serializable"),
            .warning, "default_transaction_isolation of database $database", "is serializable",
            .sql("alter database $database reset default_transaction_isolation;")),
        Fault(
            "a database whose sessions get no warnings", .settings, setting("client_min_messages", "error"), .warning,
            "client_min_messages of database $database",
            "is error: sessions do not learn that a commit is missing on the synchronous standby",
            .sql("alter database $database reset client_min_messages;")),
        Fault(
            "a producer that gets no warnings", .settings,
            """
            create role shop_$database login;
            grant usage on schema pushq to shop_$database;
            alter role shop_$database in database $database set client_min_messages = error
            """, .warning, "client_min_messages of role shop_$database in database $database",
            "is error: sessions do not learn that a commit is missing on the synchronous standby",
            .sql("alter role shop_$database in database $database reset client_min_messages;")),
        Fault(
            "a log of all statements", .settings, setting("log_statement", "all"), .warning,
            "log_statement of database $database", "the server's log holds device tokens",
            .sql("alter database $database reset log_statement;")),
        Fault(
            "a log of a producer's statements by their time", .settings,
            """
            create role logged_$database login;
            grant usage on schema pushq to logged_$database;
            alter role logged_$database set log_min_duration_statement = '0ms'
            """, .warning, "log_min_duration_statement of role logged_$database", "is 0ms",
            .sql("alter role logged_$database reset log_min_duration_statement;")),
        Fault(
            "a database that is read only", .readOnly, setting("default_transaction_read_only", "on"), .error,
            "default_transaction_read_only of database $database", "is on: its sessions may not write",
            .sql("begin read write; alter database $database reset default_transaction_read_only; commit;")),
        Fault(
            "a database with few connections left", .connections, "alter database $database connection limit 2", .error,
            "database $database", "of 2 connections are in use", .sql("alter database $database connection limit -1;")),
        Fault(
            "a replication slot that nobody reads", .walKept,
            "select pg_create_physical_replication_slot('nobody_reads_it', true)", .warning, "slot nobody_reads_it",
            "nobody reads it",
            .sql("select pg_drop_replication_slot('nobody_reads_it'); -- or start its reader")),
        Fault(
            "a message that may be sent once at most, behind ten thousand others, and no standby", .standby,
            """
            insert into pushq.message (queue_id, id, root_id, payload, push_type, at_most_once)
              select q.id, i, 7, '{}', 'alert', i > 10000 from pushq.queue q, generate_series(1, 10001) i
            """, .note, "server", "has no standby",
            .advice("run a synchronous standby: docs/operating.md, With a standby")),
        Fault(
            "a migration that is missing", .schema,
            "delete from pushq.migration where version = (select max(version) from pushq.migration)", .error, "schema",
            "lacks 0007_audit", .command("pushq-admin migrate")),
        Fault(
            "a function that is missing", .schema, "drop function pushq.fit_plans() cascade", .warning, "schema",
            "has other versions of functions/fit_plans",
            .advice("run pushq-admin migrate of the newest version in use; an older one brings older functions back")),
        Fault(
            "history without a partition for tomorrow", .partitions,
            """
            do $$ declare t text; begin
              for t in select relname from pg_class
                       where relname ~ '^body_[0-9]{8}$' and to_date(right(relname, 8), 'YYYYMMDD') > pushq.today()
              loop execute 'drop table pushq.' || t; end loop;
            end $$
            """, .error, "body", "has partitions for 0 days ahead, 4 are wanted",
            .sql("select pushq.make_partition(null, 4) from generate_series(1, 20);")),
        Fault(
            "history without partitions for today behind those of a clock that was ahead", .partitions,
            """
            do $$ declare t text; begin
              for t in select relname from pg_class
                       where relname ~ '^body_[0-9]{8}$' and to_date(right(relname, 8), 'YYYYMMDD') < pushq.today() + 3
              loop execute 'drop table pushq.' || t; end loop;
            end $$
            """, .error, "body", "has no partition for today: sends fail",
            .sql("select pushq.make_partition(null, 4) from generate_series(1, 20);")),
        Fault(
            "history that upkeep should have dropped", .oldPartitions,
            """
            do $$ begin
              while pushq.make_partition(pushq.today() - 12, 0) is not null loop end loop;
            end $$
            """, .warning, "body", "has 2 partitions past retention, the oldest of",
            .advice("look for duty_failed of the duty upkeep in the workers' logs")),
        Fault(
            "a table full of dead rows", .deadRows(),
            """
            alter table pushq.sleeper set (autovacuum_enabled = off);
            insert into pushq.sleeper (worker_id) select generate_series(1, 60000);
            delete from pushq.sleeper;
            """, .warning, "sleeper", "has 60000 dead rows and 0 live ones; never vacuumed",
            .sql("vacuum (analyze) pushq.sleeper;")),
    ]

    private static let fleet = [
        Fault(
            "a duty that nobody does", .duties(),
            "update pushq.duty set next_at = now() - interval '1 hour' where name = 'upkeep'", .warning, "duty upkeep",
            "was due 60 min ago", .advice("look for duty_failed in the workers' logs; without a worker: pushq work")),
        Fault(
            "a duty that fails again and again", .duties(),
            """
            update pushq.duty set failing_since = now() - interval '2 hours', problem = 'out of shared memory'
            where name = 'upkeep'
            """, .warning, "duty upkeep", "has failed each time for 2 h: out of shared memory",
            .advice("correct what it says; look for duty_failed in the workers' logs")),
        Fault(
            "a duty that was put off for days", .duties(),
            "update pushq.duty set next_at = now() + interval '10 days 1 hour' where name = 'upkeep'", .warning,
            "duty upkeep", "was put off for 10 days when the database's clock was ahead",
            .advice("look for duty_failed in the workers' logs; without a worker: pushq work")),
        Fault(
            "a feedback service that nobody asks", .duties(),
            """
            \(certificate(endingIn: "300 days"));
            update pushq.queue set gateway = 'binary';
            update pushq.duty set next_at = now() - interval '1 hour' where name = 'feedback'
            """, .warning, "duty feedback", "was due 60 min ago",
            .advice("look for duty_failed in the workers' logs; without a worker: pushq work")),
        Fault(
            "no worker", .workers, "delete from pushq.worker", .warning, "workers", "none is running",
            .command("pushq work")),
        Fault(
            "no worker, and work", .workers, "delete from pushq.worker; \(job)", .error, "workers",
            "none is running, and pushes wait", .command("pushq work")),
        Fault(
            "no worker, and a campaign that has no jobs yet", .workers, "delete from pushq.worker; \(campaign)", .error,
            "workers", "none is running, and pushes wait", .command("pushq work")),
        Fault(
            "no worker, and a campaign that waits for its operator", .workers,
            "delete from pushq.worker; \(campaign); update pushq.fan_out set paused = true", .warning, "workers",
            "none is running", .command("pushq work")),
        Fault(
            "no worker, and a campaign that is due later", .workers,
            "delete from pushq.worker; \(campaign); update pushq.fan_out set start_at = now() + interval '1 hour'",
            .warning, "workers", "none is running", .command("pushq work")),
        Fault(
            "no worker, and a due job that lies behind ten thousand that are due later", .workers,
            """
            delete from pushq.worker;
            insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, root_id, body_day, recipient_count)
              select q.id, 100 + i, 1, now() + interval '1 day', now() + interval '2 days', 7, 7, pushq.today(), 1
              from pushq.queue q, generate_series(1, 10000) i;
            \(job)
            """, .error, "workers", "none is running, and pushes wait", .command("pushq work")),
        Fault(
            "no worker, and a due campaign that lies behind ten thousand that are due later", .workers,
            """
            delete from pushq.worker;
            insert into pushq.fan_out (queue_id, campaign_id, message_id, start_at, send_by, at_most_once, lane)
              select q.id, 100 + i, 7, now() + interval '1 day', now() + interval '2 days', false, 2
              from pushq.queue q, generate_series(1, 10000) i;
            \(campaign)
            """, .error, "workers", "none is running, and pushes wait", .command("pushq work")),
        Fault(
            "no worker, and a schedule whose run is due", .workers,
            """
            delete from pushq.worker;
            insert into pushq.schedule (queue_id, name, cron, time_zone, after_outage, payload, options, next_at)
              select id, 'daily', '0 9 * * *', 'UTC', 'once', '{}', '{}', now() - interval '1 minute' from pushq.queue
            """, .error, "workers", "none is running, and pushes wait", .command("pushq work")),
        Fault(
            "no worker, and a job that one which is gone has leased", .workers, "delete from pushq.worker; \(lease)",
            .error, "workers", "none is running, and pushes wait", .command("pushq work")),
        Fault(
            "a worker that drains and still has a lease, and no other", .workers,
            "update pushq.worker set draining = true; \(lease); update pushq.lease set worker_id = 1", .warning,
            "workers", "none is running", .command("pushq work")),
        Fault(
            "a worker that drains, and no other", .workers, "update pushq.worker set draining = true", .warning,
            "workers", "none is running", .command("pushq work")),
        Fault(
            "a queue that no worker serves", .workers, "update pushq.worker set queues = 'other/*'", .warning, "queues",
            "no running worker serves 1 queue: \(queue)",
            .command("pushq work --queues '\(queue)'")),
        Fault(
            "a worker without a sign of life", .silentWorkers,
            "update pushq.worker set seen_at = now() - interval '40 seconds'", .warning, "worker web-1:42",
            "has shown no sign of life for 40 s; it held nothing",
            .advice("see its log: it was killed, it hangs, or it cannot reach PostgreSQL")),
        Fault(
            "a worker of another version", .versions(of: "1.0.0"), "update pushq.worker set version = '0.9.0'",
            .warning, "version 0.9.0", "1 worker has it: web-1:42; this program is 1.0.0",
            .advice("start workers of one version, then send SIGTERM to the others")),
        Fault(
            "a lease that nobody puts back", .leases(), lease, .error, "leases",
            "of 1 job ended up to 5 min ago, 1 of them of workers that are gone",
            .command("pushq work")),
        Fault(
            "a database that refuses a worker what it needs", .refusedEnds,
            "update pushq.worker set prevention = 'PostgreSQL refuses to lease jobs: permission denied'", .error,
            "worker web-1:42", "does not send: PostgreSQL refuses to lease jobs: permission denied",
            .advice(
                "grant the right that is missing (pushq-admin migrate does so for pushq_worker), make room on the disk, "
                    + "correct or drop the trigger, or repair the table or index")),
        Fault(
            "APNs that no worker reaches", .apns,
            "update pushq.worker set unreachable = array(select id from pushq.queue)", .error, "credential acme/main",
            "1 of 1 worker cannot reach APNs with it, for 1 queue: web-1:42",
            .advice(
                "gateway_unreachable and clock_in_doubt in their logs say why; see developer.apple.com/system-status"
            )
        ),
        Fault(
            "APNs that one of two workers does not reach", .apns,
            """
            insert into pushq.worker (id, name, version, unreachable)
              select 2, 'web-2:42', '1.0.0', array[id] from pushq.queue
            """, .warning, "credential acme/main", "1 of 2 workers cannot reach APNs with it, for 1 queue: web-2:42",
            .advice(
                "gateway_unreachable and clock_in_doubt in their logs say why; see developer.apple.com/system-status"
            )
        ),
        Fault(
            "APNs that no engine reaches that serves the queue", .apns,
            """
            update pushq.worker set unreachable = array(select id from pushq.queue);
            insert into pushq.worker (id, name, version, unreachable)
              select 2, 'web-1:42', '1.0.0', array[id] from pushq.queue;
            insert into pushq.worker (id, name, version, queues) values (3, 'web-3:42', '1.0.0', 'other/*');
            insert into pushq.worker (id, name, version, draining) values (4, 'web-4:42', '1.0.0', true)
            """, .error, "credential acme/main", "1 of 1 worker cannot reach APNs with it, for 1 queue: web-1:42",
            .advice(
                "gateway_unreachable and clock_in_doubt in their logs say why; see developer.apple.com/system-status"
            )
        ),
        Fault(
            "APNs that answers, and refuses most pushes", .apns,
            "update pushq.worker set (in_outage, refusals) = (select array_agg(id), array['500 InternalServerError'] from pushq.queue)",
            .error, "credential acme/main",
            "1 of 1 worker had hardly any push taken with it, for 1 queue: web-1:42 (APNs answers 500 InternalServerError)",
            .advice(
                "look up the answer in docs/apns.md; see developer.apple.com/system-status. Pushes wait, and are tried again"
            )),
        Fault(
            "a credential that one of two workers has no master key for", .unusableCredentials,
            """
            insert into pushq.worker (id, name, version, unusable, faults)
              select 2, 'web-2:42', '1.0.0', array[id], '{it was sealed under master key abc}' from pushq.queue
            """, .warning, "credential acme/main",
            "1 of 2 workers cannot use it, for 1 queue: web-2:42 (it was sealed under master key abc)",
            .advice("give these workers what they lack, and start them again; their logs have credential_unreadable")),
    ]

    private static let moveAgain = HealthFinding.Remedy.advice(
        "run pushq-admin tenant move again, or undo it with --abandon. If database two at b is lost for good, add "
            + "--target-is-lost")
    private static let whereItIs = HealthFinding.Remedy.advice(
        "see where it is with pushq-admin tenant where --databases FILE, and what to do then in docs/restore.md")

    private static let tenants = [
        Fault(
            "a certificate that has expired", .credentials, certificate(endingIn: "-3 days"), .error,
            "credential acme/main", "its certificate expired; 1 queue is sent with it", replace),
        Fault(
            "a certificate that expires today", .credentials, certificate(endingIn: "5 hours 1 minute"), .error,
            "credential acme/main", "its certificate expires in 5 hours", replace),
        Fault(
            "a certificate that expires soon", .credentials, certificate(endingIn: "12 days 1 hour"), .warning,
            "credential acme/main", "its certificate expires in 12 days", replace),
        Fault(
            "a certificate that has expired and is not used", .credentials,
            "update pushq.queue set credential_id = null; \(certificate(endingIn: "-3 days"))", .note,
            "credential acme/main", "0 queues are sent with it", .command("pushq-admin credential remove acme main")),
        Fault(
            "a credential for another environment", .credentialScopes,
            "update pushq.credential set environments = '{sandbox}'", .error, "queue \(queue)",
            "its credential main is for sandbox only", .command("pushq-admin queue set \(queue) --credential NAME")),
        Fault(
            "a certificate for another app", .credentialScopes,
            "update pushq.credential set topics = '{com.acme.toys}'",
            .error, "queue \(queue)", "its credential main is for com.acme.toys in production only",
            .command("pushq-admin queue set \(queue) --credential NAME")),
        Fault(
            "a queue without a credential", .queuesWithoutCredential, "update pushq.queue set credential_id = null",
            .warning, "queues", "1 queue has no credential: \(queue)",
            .command("pushq-admin queue set \(queue) --credential main")),
        Fault(
            "a queue without a credential, and work", .queuesWithoutCredential,
            "update pushq.queue set credential_id = null; \(job)", .error, "queues",
            "1 queue has no credential, and pushes wait: \(queue)",
            .command("pushq-admin queue set \(queue) --credential main")),
        Fault(
            "a queue without a credential, and a campaign", .queuesWithoutCredential,
            #"""
            update pushq.queue set credential_id = null;
            select pushq.start_campaign('\#(queue)', 'sale', '{"aps":{"alert":"hello"}}')
            """#, .error, "queues", "1 queue has no credential, and pushes wait: \(queue)",
            .command("pushq-admin queue set \(queue) --credential main")),
        Fault(
            "three hundred queues without a credential, and work in the last of them", .queuesWithoutCredential,
            """
            update pushq.queue set credential_id = null;
            insert into pushq.app (tenant_id, bundle_id)
              select id, 'com.acme.app' || 1000 + i from pushq.tenant, generate_series(1, 299) i;
            insert into pushq.queue (tenant_id, app_id, environment)
              select tenant_id, id, 'production' from pushq.app where bundle_id <> 'com.acme.shop' order by id;
            \(job)
            delete from pushq.job where queue_id < (select max(id) from pushq.queue)
            """, .error, "queues", "300 queues have no credential, and pushes wait: acme/com.acme.app1001/production",
            .command("pushq-admin queue set acme/com.acme.app1001/production --credential main")),
        Fault(
            "a queue without a credential, for whose interface there is none", .queuesWithoutCredential,
            "update pushq.queue set credential_id = null, gateway = 'binary'", .warning, "queues",
            "1 queue has no credential: \(queue)",
            .command("pushq-admin credential add acme NAME --pkcs12 FILE")),
        Fault(
            "a queue about which nobody has decided after a restore", .restoredQueues,
            """
            insert into pushq.lineage (name, is_restore, back_to, old_id) values ('1/2/3/4', true, '2026-11-23 06:00Z', 0);
            insert into pushq.restored_queue (queue_id, lineage_id)
              select q.id, max(l.id) from pushq.queue q, pushq.lineage l group by q.id;
            """, .error, "queue \(queue)",
            "waits for a decision: the database was restored, knows nothing after 2026-11-23T06:00:00Z",
            .command("pushq-admin restore show")),
        Fault(
            "a queue that an operator has paused", .pausedQueues,
            "update pushq.queue set paused_at = now() - interval '3 hours', paused_reason = 'sale is over'", .note,
            "queue \(queue)", "has been paused for 3 h: sale is over",
            .command("pushq-admin queue resume \(queue)")),
        Fault(
            "a queue that is paused since a restore of another database, from which it has come", .pausedQueues,
            "update pushq.queue set paused_at = now(), paused_reason = pushq.restored_reason()", .note,
            "queue \(queue)",
            "what waits may have been sent already",
            .advice(
                "what waits in it may have been sent already: cancel what must not be sent twice "
                    + "(pushq-admin campaign list, pushq-admin job list) before pushq-admin queue resume")),
        Fault(
            "a queue that a worker has paused", .pausedQueues,
            """
            update pushq.queue
            set paused_at = now(), paused_reason = 'APNs answered InvalidProviderToken', paused_credential_version = 1
            """, .error, "queue \(queue)", "APNs answered InvalidProviderToken",
            .command("pushq-admin credential replace acme main --p8 AuthKey_KEYID.p8 --team-id TEAM123456")),
        Fault(
            "a queue that a worker has paused for its tokens", .pausedQueues,
            """
            update pushq.queue q
            set paused_at = now(),
                paused_reason = pushq.bad_tokens_problem(q.id, 'BadDeviceToken', 40, 40, array[]::bytea[])
            """, .error, "queue \(queue)", "40 of the last 40 answers were BadDeviceToken",
            .advice(
                "cancel what was for these tokens (pushq-admin campaign list, pushq-admin job list), move them to the "
                    + "right queue (docs/troubleshooting.md, Tokens in the wrong queue), and then: pushq-admin queue "
                    + "resume \(queue)")),
        Fault(
            "a login that was dropped without taking its tenant from it", .tenantLogins,
            "insert into pushq.tenant_login (login, tenant_id) select 'gone', id from pushq.tenant", .warning,
            "login gone", "was granted acme, and the server has no such role",
            .command("pushq-admin tenant revoke acme gone")),
        Fault(
            "a tenant that is suspended", .suspendedTenants,
            "update pushq.tenant set suspended_at = now() - interval '3 days'", .note, "tenant acme",
            "has been suspended for 3 days", .command("pushq-admin tenant resume acme")),
        Fault(
            "a tenant that was left stopped on its way to another database", .interruptedMoves,
            """
            select pushq.begin_leaving('acme', gen_random_uuid(), 'database two at b');
            select pushq.stop_leaving('acme');
            update pushq.tenant_move set changed_at = now() - interval '2 hours';
            update pushq.lineage set found_at = now() - interval '3 hours'
            """, .error, "tenant acme", "has been stopped since its move to database two at b was interrupted 2 h ago",
            moveAgain),
        Fault(
            "a tenant that is still where it was to leave", .interruptedMoves,
            "select pushq.begin_leaving('acme', gen_random_uuid(), 'database two at b')", .note, "tenant acme",
            "its move to database two at b was interrupted",
            moveAgain),
        Fault(
            "a tenant that was to leave when the database was restored", .interruptedMoves,
            """
            select pushq.begin_leaving('acme', gen_random_uuid(), 'database two at b');
            insert into pushq.lineage (name, is_restore, back_to, old_id) values ('1/2/3/4', true, now(), 0)
            """, .error, "tenant acme",
            "Since then, this database was restored, so the tenant may be in the other one as well",
            whereItIs),
        Fault(
            "a tenant that was to arrive", .interruptedMoves,
            """
            insert into pushq.tenant_move (tenant, id, leaves, stage, peer)
            values ('beta', gen_random_uuid(), false, 'copying', 'database one at a')
            """, .note, "tenant beta", "its move here from database one at a was interrupted",
            .advice(
                "run pushq-admin tenant move in database one at a again, or undo it there with --abandon")),
        Fault(
            "a campaign that has paused itself", .pausedCampaigns,
            """
            with c as (
              insert into pushq.campaign (queue_id, key, digest, message_id, paused_at, paused_reason)
              select id, 'big sale', '\\x00', 7, now(), '9 of 10 answers were bad' from pushq.queue
              returning queue_id, id)
            insert into pushq.fan_out (queue_id, campaign_id, message_id, start_at, send_by, at_most_once, lane, paused)
            select queue_id, id, 7, now(), now() + interval '1 day', false, 2, true from c
            """, .warning, "campaign big sale", "of \(queue) has paused itself: 9 of 10 answers were bad",
            .command("pushq-admin campaign show \(queue) 'big sale'")),
        Fault(
            "a schedule whose run cannot be started", .schedules,
            """
            insert into pushq.schedule (queue_id, name, cron, time_zone, after_outage, payload, options, next_at, problem,
                                        failures, retry_at)
              select id, 'weekly', '@weekly', 'UTC', 'skip', '{}', '{}', '2026-11-22T00:00:00Z', 'there is no audience “vips”',
                     1, now() from pushq.queue
            """, .warning, "schedule weekly",
            "of \(queue) does not start its run of 2026-11-22T00:00:00Z: there is no audience “vips”",
            .command("pushq schedule show \(queue) weekly")),
        Fault(
            "a schedule whose run no worker starts", .schedules,
            """
            insert into pushq.schedule (queue_id, name, cron, time_zone, after_outage, payload, options, next_at)
              select id, 'weekly', '@weekly', 'UTC', 'skip', '{}', '{}', now() - interval '6 minutes' from pushq.queue
            """, .warning, "schedule weekly", "no worker has done so for minutes",
            .command("pushq schedule show \(queue) weekly")),
        Fault(
            "a time zone that the server does not know", .timeZones,
            """
            insert into pushq.profile (queue_id, device_id, time_zone)
              select q.id, i, case when i < 4 then 'Europe/Atlantis' else 'Europe/Vienna' end
              from pushq.queue q, generate_series(1, 5) i;
            insert into pushq.schedule (queue_id, name, cron, time_zone, after_outage, payload, options, next_at)
              select id, 'weekly', '@weekly', 'Europe/Atlantis', 'skip', '{}', '{}', now() from pushq.queue;
            insert into pushq.quiet_hours (queue_id, hours, time_zone) select id, '22:00-08:00', 'Europe/Atlantis'
              from pushq.queue;
            """, .warning, "time zone Europe/Atlantis",
            "is unknown to this server, and is that of 3 devices, 1 schedule, the settings of 1 queue",
            .advice("update the time zone data of PostgreSQL's server (tzdata), and restart PostgreSQL")),
        Fault(
            "a webhook whose secret no worker can open", .webhooks,
            """
            insert into pushq.webhook (tenant_id, url, sealed) select id, 'https://a.example/', 'x' from pushq.tenant;
            insert into pushq.webhook_progress (tenant_id, cursor, newest, not_before)
              select id, 7, 9, now() - interval '3 days' from pushq.tenant;
            insert into pushq.feedback (queue_id, device_id, reason, reported_at, verdict, cursor, listed_at)
              select q.id, 1, 1, now(), 'deactivated', c, now() - m * interval '1 minute'
              from pushq.queue q, (values (7, 60), (8, 30), (9, 1)) l(c, m)
            """, .warning, "webhook of acme", "has reports waiting, and no worker has sent them for 30 min",
            .advice(
                "run a worker that has the master key of its secret: docs/security.md, Another master key; if the "
                    + "key is lost: pushq-admin webhook set acme --new-secret (docs/security.md, If it is lost)")),
        Fault(
            "a webhook whose receiver is away", .webhooks,
            """
            insert into pushq.webhook (tenant_id, url, sealed) select id, 'https://a.example/', 'x' from pushq.tenant;
            insert into pushq.webhook_progress (tenant_id, cursor, newest, failures, failing_since, problem)
              select id, 0, 1, 7, now() - interval '30 minutes', 'it answered 503' from pushq.tenant
            """, .warning, "webhook of acme", "has accepted nothing for 30 min, after 7 tries: it answered 503",
            .command("pushq-admin webhook test acme")),
        Fault(
            "a webhook whose receiver was away for longer than reports are kept", .webhooks,
            """
            insert into pushq.webhook (tenant_id, url, sealed) select id, 'https://a.example/', 'x' from pushq.tenant;
            insert into pushq.webhook_progress (tenant_id, cursor, newest, lost_to)
              select id, 1, 1, '2026-11-01 12:00:00+00' from pushq.tenant
            """, .warning, "webhook of acme",
            "has never got some reports up to 2026-11-01T12:00:00Z, which are no longer kept",
            .advice(
                "have its receiver compare its devices with those of pushq-admin device export; then set the URL of the "
                    + "webhook again, which ends this finding")),
        Fault(
            "a job that is set aside", .jobsSetAside,
            """
            \(job);
            insert into pushq.stuck_job (queue_id, job_id, problem, set_aside_at)
              select queue_id, id, 'no space left on device', now() from pushq.job;
            -- This one was cancelled.
            insert into pushq.stuck_job (queue_id, job_id, problem, set_aside_at)
              select id, 8, 'no space left on device', now() from pushq.queue
            """, .error, "queue \(queue)", "1 job is set aside: no space left on device",
            .command("pushq-admin job list \(queue) --set-aside")),
    ]
}
