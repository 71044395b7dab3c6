import QueueCore
import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// The rights of a worker's login: it is a member of `pushq_worker` only.
@Suite(.timeLimit(.minutes(10))) struct `A login that only runs workers` {
    /// Rights on a whole table, or on the columns in parentheses.
    private static let tables = """
        badge: insert select update(count figures kept_until root_ids)
        body: insert select
        campaign: select(cancelled_at filter_tree id paused_at queue_id quiet_hours stop_at_errors) update(paused_at)
        campaign_share: select(campaign_id made message_id place queue_id) update(made)
        campaign_tally: insert select update
        cancelled: insert select
        channel: select(channel id queue_id retired_at) update(retired_at retired_reason throttled_until)
        credential: select update(warned_days)
        device: select(active id inactive_reason inactive_since kind queue_id reactivated_at registered_at \
        replaced_by token user_key) update(active inactive_reason inactive_since)
        device_turn: insert select update
        duty: insert select update
        empty_send: insert select update(why)
        fan_out: select update
        fan_out_turn: insert select update
        feedback: insert select update(cursor listed_at verdict)
        feedback_poll: insert select update
        feedback_record: delete insert select update(reported_at)
        frequency_cap: select
        job: delete insert select update
        judgement: insert select update
        lease: delete insert select update
        list: select(id queue_id) update(abandoned)
        list_member: select
        list_user: select
        message: insert select
        migration: select(checksum name stops_older_workers version)
        newest_update: delete insert select update(due_at is_floor)
        profile: select(activity activity_type app_version attributes device_id first_seen_at locale queue_id seen_at tags time_zone)
        provider_token: delete insert select update
        queue: select update(credential_refusals paused_at paused_credential_version paused_reason)
        queue_name: select
        quiet_hours: select
        rate_limit: select update(tat)
        recent_push: delete insert select update(job_ids root_ids sent_at)
        removed_queue: delete select
        result: insert select
        sleeper: delete insert select update
        stuck_job: insert select update
        tenant: select(connections id name suspended_at weight)
        throughput: delete insert select update
        wave: delete insert select update(device_ids)
        webhook_progress: select(tenant_id) update(newest)
        worker: delete insert select update
        """
    /// The columns of each table that it cannot read. A new table or column must be here, or among the rights above.
    private static let unreadable = """
        app: bundle_id created_at id tenant_id
        audience: created_at filter name queue_id
        audit: acting_as action address application changed_at changes id login name object tenant
        call: called_at tenant_id
        campaign: created_at digest filter forgiven forgiven_at forgiven_bad key message_id paused_reason
        campaign_progress: campaign_id cancelled cancelled_at created_at delivered expired failed failed_in_jobs \
        fanned_out_at filter finished held_out key max_rate paused_at paused_reason queue_id rejected retried starts_at state \
        stop_at_errors suppressed total unknown waiting
        campaign_share: fraction name
        channel: created_at policy retired_reason throttled_until
        former_tenant: audit_days name removed_at
        lineage: back_to found_at id is_restore lost_id name old_id
        list: abandoned campaign_id digest kind loaded_at token_count user_count
        migration: applied_at
        moved_row: id key name owner queue
        mover: pid role started_at tenant
        my_campaigns: cancelled cancelled_at created_at delivered expired failed fanned_out_at filter finished held_out key \
        max_rate paused_at paused_reason queue rejected retried starts_at state stop_at_errors suppressed total unknown \
        waiting
        my_feedback: apns_id campaign_key cursor device_id listed_at queue reason recorded_at reported_at root_id token \
        user_key verdict
        my_queues: app burst environment may_send paused_at paused_reason queue rate suspended_at tenant
        named_lock: name
        profile: installation
        restored_queue: credential_id lineage_id paused_at paused_credential_version paused_reason queue_id
        schedule: after_outage created_at cron failures missed_at name next_at options paused_at payload problem queue_id \
        retry_at run_at started_at time_zone tried_at
        send_key: digest due_at key queue_id root_id
        tenant: audit_days created_at feedback_days history_days key_days
        tenant_login: granted_at login read_only tenant_id
        tenant_move: changed_at feedback_days history_days id ids leaves lineage_id logins noted owner peer \
        queues reports_held_until settings stage suspended_at tenant
        tenant_quota: max_calls max_campaigns max_day_bytes max_devices max_schedules max_waiting tenant_id
        tenant_usage: by_producer bytes bytes_day bytes_to counted_at devices devices_counted_at devices_to tenant_id waiting
        webhook: created_at former_sealed former_until sealed tenant_id url
        webhook_progress: batch_to cursor delivered_at failing_since failures lost_to newest not_before problem taken_until turn
        """

    private static let functions: Set = [
        "act_on_feedback", "answers_since", "await_turns", "bad_tokens_problem", "bring_campaign", "bring_message",
        "bring_messages", "cap_window",
        "clear_day", "clear_queue", "clear_send_keys", "clear_settings",
        "count_usage", "days_of_history", "days_to_clear", "day_began", "deal_wave", "device_kind", "devices_of_user",
        "drop_partition", "due_jobs", "duty_has_work",
        "fan_out_shares", "fan_out_step", "filter_condition_sql", "filter_order", "filtered_devices", "find_later",
        "find_recipients",
        "fit_plans", "fit_plans_to", "fit_report_plans",
        "follow_lineage", "follow_timeline",
        "forget_activities", "forget_audit", "forget_list", "forget_old", "forget_recent_pushes",
        "forget_sends", "forget_updates",
        "give_back_badges", "give_back_free_badges",
        "has_old_days", "has_today", "held_until", "hold_to_caps", "hold_to_quiet_hours", "inactive_among",
        "is_alive", "insert_rows", "is_asleep", "is_due_soon", "is_quiet", "is_unbegun", "is_unfinished", "known_since",
        "known_zone",
        "last_place",
        "last_place_by_now",
        "quiet_until", "retry_refused_queues",
        "job_size", "judge_campaigns", "list_feedback", "lists_to_forget", "local_times", "lock_rows",
        "longest_retention",
        "make_jobs",
        "make_share_jobs",
        "make_partition",
        "message_kind", "microseconds_until", "move_scheduled", "move_waiting", "newer_token",
        "next_fan_out",
        "next_lane", "note_capped", "note_empty_send",
        "note_free_capped", "oldest_update", "outcome_kind", "own_lane",
        "pause_for_channel", "permits_of_room", "plain_version", "queues_under_way", "queues_with_old_updates",
        "ready_above",
        "ready_within", "ready_work",
        "recipient_of", "recipient_values", "recipients_of_jobs", "replaced_meanwhile", "run_due_schedule", "run_wave",
        "shares_of", "sort_into_waves", "started_type",
        "starts_another", "successors", "supersede", "take_badges",
        "take_free_badges", "take_free_places",
        "take_permits", "take_rows", "take_turns",
        "take_unfound", "take_webhook", "tell",
        "tenants_to_count", "today", "undecided_since", "unfiltered_devices", "unseen_rows",
        "update_recipients", "version_bounds",
        "version_for",
        "version_for_start",
        "version_sql", "wait_until", "waiting_recipients", "wake",
        "wave_after", "wave_end", "wave_of", "waves_of", "webhook_accepted", "webhook_failed", "why_nobody",
        "why_none_of_users", "with_newer_tokens", "without_outcome", "write_verdicts",
    ]

    private static let usableTables = Statement(
        "usable_tables",
        #"""
        select r.name || ': ' || string_agg(r.right_name, ' ' order by r.right_name) as line
        from (
          select c.relname as name, p as right_name
          from pg_class c
          cross join unnest(array['select', 'insert', 'update', 'delete', 'truncate', 'references', 'trigger']) p
          where c.relnamespace = 'pushq'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'f')
            and has_table_privilege($role, c.oid, p)
          union all
          select c.relname, p || '(' || string_agg(a.attname, ' ' order by a.attname) || ')'
          from pg_class c
          join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
          cross join unnest(array['select', 'insert', 'update', 'references']) p
          where c.relnamespace = 'pushq'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'f')
            and has_column_privilege($role, c.oid, a.attnum, p) and not has_table_privilege($role, c.oid, p)
          group by c.relname, p) r
        group by r.name
        order by r.name
        """#)
    private static let unreadableColumns = Statement(
        "unreadable_columns",
        #"""
        select c.relname::text as name, array_agg(a.attname::text order by a.attname) as columns
        from pg_class c
        join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
        where c.relnamespace = 'pushq'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'f')
          and not c.relispartition and not has_column_privilege($role, c.oid, a.attnum, 'select')
        group by c.relname
        order by c.relname
        """#)
    private static let usableFunctions = Statement(
        "usable_functions",
        "select proname::text as name from pg_proc where pronamespace = 'pushq'::regnamespace and has_function_privilege($role, oid, 'execute')"
    )

    /// Runs `body` with a queue, and with a connection of a worker's login.
    private func withWorker(
        _ body: @escaping @Sendable (isolated LoopActor, QueueFixture, PostgresConnection) async throws -> Void
    ) async throws {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database, devices: 3)
            let login = "worker_\(database.name)"
            try await queue.run("create role \(login) login")
            try await queue.connection.setWorker(login, isGranted: true)
            try await body(actor, queue, try await database.connect(login: login))
        }
    }

    @Test func `may do what is written here, and nothing else`() async throws {
        try await withWorker { _, queue, worker in
            let role = try await worker.execute(Statement("me", "select current_user::text as name")).one().text("name")
            let lines = try await queue.connection.execute(Self.usableTables, ["role": .text(role)]).map {
                $0.text("line")
            }
            #expect(lines == Self.tables.split(separator: "\n").map(String.init))
            let functions = try await queue.connection.execute(Self.usableFunctions, ["role": .text(role)]).map {
                $0.text("name")
            }
            #expect(Set(functions).subtracting(Self.functions) == [] && Self.functions.subtracting(functions) == [])
            let sequences = try await queue.number(
                """
                select count(*)
                from pg_class
                where relnamespace = 'pushq'::regnamespace
                  and case relkind when 'S' then has_sequence_privilege('\(role)', oid, 'usage, select, update') end
                """)
            #expect(sequences == 1)
        }
    }

    @Test func `cannot read what it does not need`() async throws {
        try await withWorker { _, queue, worker in
            let role = try await worker.execute(Statement("me", "select current_user::text as name")).one().text("name")
            let tables = try await queue.connection.execute(Self.unreadableColumns, ["role": .text(role)])
                .map { (name: $0.text("name"), columns: $0.textArray("columns")) }
            let lines = tables.map { "\($0.name): \($0.columns.joined(separator: " "))" }
            #expect(lines == Self.unreadable.split(separator: "\n").map(String.init))
            for table in tables {
                for column in table.columns {
                    await #expect("\(table.name).\(column)") {
                        try await worker.runScript("select \(column) from pushq.\(table.name)")
                    } throws: { error in
                        "\(error)".contains("(42501)")
                    }
                }
            }
            // A worker can read a day of history only through the partitioned table.
            let day = try await queue.connection.execute(
                Statement("a_day", "select min(relname)::text as name from pg_class where relname like 'message\\_2%'")
            ).one().text("name")
            let error = await #expect(throws: PostgresError.self) {
                try await worker.runScript("select from pushq.\(day)")
            }
            #expect(error?.isNotAllowed == true, "\(error as Any)")
        }
    }

    @Test(arguments: [
        "select from pushq.tenant_login", "select from pushq.app", "select key from pushq.campaign",
        "select from pushq.send_key",
        "select history_days from pushq.tenant", "update pushq.tenant set weight = 2", "delete from pushq.device",
        "update pushq.rate_limit set rate = 1",
        "delete from pushq.result", "delete from pushq.body",
        "update pushq.credential set sealed = ''", "alter table pushq.body add column x int", "drop table pushq.body",
        "create table pushq.mine ()", "create trigger t before insert on pushq.job execute function pushq.wake()",
        "select from pushq.audit", "select from pushq.tenant_quota", "select from pushq.tenant_usage",
        "select from pushq.my_queues", "select digest from pushq.list", "select pushq.remove_tenant('acme')",
        "set role pushq_owner", "select pushq.send('acme/com.acme/sandbox', '{}')",
        "update pushq.device set active = false, inactive_since = now(); "
            + "update pushq.device set active = true, inactive_since = null",
    ])
    func `may not`(statement: String) async throws {
        try await withWorker { _, _, worker in
            await #expect {
                try await worker.runScript(statement)
            } throws: { error in
                "\(error)".contains("(42501)")
            }
        }
    }

    @Test func `stops what answers of APNs require it to, and cannot undo that`() async throws {
        try await withWorker { _, queue, worker in
            _ = try await queue.startCampaign()
            try await queue.run("insert into pushq.channel (queue_id, channel, policy) values (\(queue.id), 'c', 1)")
            let paused = "update pushq.queue set paused_at = now(), paused_reason = 'refused'"
            for (done, undone) in [
                (paused, "update pushq.queue set paused_at = null, paused_reason = null"),
                // With the version of a credential, the pause would end by itself.
                (paused, "update pushq.queue set paused_credential_version = 1"),
                ("select", "update pushq.queue set paused_at = now() - interval '1 day'"),
                ("select", "update pushq.queue set paused_reason = 'another'"),
                ("update pushq.campaign set paused_at = now()", "update pushq.campaign set paused_at = null"),
                (
                    "update pushq.device set active = false, inactive_since = now()",
                    "update pushq.device set active = true, inactive_since = null"
                ),
                ("update pushq.channel set retired_at = now()", "update pushq.channel set retired_at = null"),
            ] {
                try await worker.runScript(done)
                let error = await #expect(throws: PostgresError.self) { try await worker.runScript(undone) }
                #expect(error?.isNotAllowed == true, "\(undone): \(error as Any)")
                #expect(error?.description.contains("may not undo this in") == true, "\(undone): \(error as Any)")
                try await queue.run("set role pushq_owner; \(undone); reset role")
            }
        }
    }

    @Test func `makes and drops days of history, and cannot have days dropped before their time`() async throws {
        try await withWorker { _, queue, worker in
            let days = "select count(*) from pg_inherits where inhparent = 'pushq.body'::regclass"
            let before = try await queue.number(days)
            let day = Statement("day", "select (pushq.today() + $1::int)::date as day")
            let far = try await worker.execute(day, [.int4(1000)]).one().date("day")
            var retention = Retention()
            retention.daysAhead = 6
            #expect(
                try await worker.maintainPartitions(retention, today: far).count == 3 * 4,
                "tomorrow is as far as it gets")
            #expect(try await queue.number(days) == before + 3)
            // A day of long ago, and a reader that has it open.
            try await queue.run(
                """
                set role pushq_owner;
                create table pushq.body_20010203 partition of pushq.body for values from ('2001-02-03') to ('2001-02-04');
                reset role
                """)
            try await queue.run("begin; select from pushq.body")
            await #expect(throws: PostgresError.self) { try await worker.maintainPartitions(tries: 1) }
            try await queue.run("commit")
            #expect(try await worker.maintainPartitions() == ["dropped body_20010203"])
            try await worker.forget()
            // A worker cannot clear history that is kept for all queues either.
            for (call, problem) in [
                ("clear_day('result', pushq.today(), array[\(queue.id)], 1, 0, 0)", "is not past retention"),
                ("clear_send_keys(\(queue.id), 1)", "queue \(queue.id) is not removed"),
                ("clear_settings(\(queue.id))", "queue \(queue.id) is not removed"),
            ] {
                let error = await #expect(throws: PostgresError.self) {
                    try await worker.runScript("select pushq.\(call)")
                }
                #expect(error?.description.contains(problem) == true, "\(call): \(error as Any)")
            }
        }
    }

    private static let takeUnfound = Statement(
        "take_unfound_for_worker",
        """
        select job_id
        from pushq.take_unfound(
          array_fill($queue_id::int, array[3]), '{1,2,3}', array_fill($epoch::int, array[3]), $worker_id::bigint)
        """)

    /// Has a worker's login take jobs 1 to 3 of a queue, under these claims; returns those that it got.
    private static func take(
        epoch: Int32, workerID: Int64, of queueID: Int32, by worker: PostgresConnection
    ) async throws -> [Int64] {
        try await worker.execute(
            takeUnfound, ["queue_id": .int4(queueID), "epoch": .int4(epoch), "worker_id": .int8(workerID)]
        ).map { $0.int8("job_id") }
    }

    @Test func `deletes no recipients, and a body without any only if it holds the job`() async throws {
        try await withWorker { _, queue, worker in
            // It may write leases, so it can pretend to hold any job: 1 and 2 have no recipients, 3 has one.
            try await queue.run(
                """
                insert into pushq.body (day, queue_id, job_id, root_id, first_device_id, last_device_id, device_ids)
                select pushq.today(), \(queue.id), job, job, 0, 0, case job when 3 then '{1}' else '{}' end::bigint[]
                from generate_series(1, 3) job
                """)
            try await worker.runScript(
                """
                insert into pushq.lease (queue_id, job_id, worker_id, epoch, deadline, watermark, outcomes, lane, run_at,
                                         send_by, message_id, root_id, body_day, recipient_count, attempt, losses,
                                         at_most_once)
                select \(queue.id), job, 7, 5, now(), 0, decode('00', 'hex'), 1, now(), now(), 1, job, pushq.today(), 1, 1,
                       0, false
                from unnest(array[1, 3]) job
                """)
            #expect(
                try await Self.take(epoch: 4, workerID: 7, of: queue.id, by: worker) == [], "it was claimed again since"
            )
            #expect(
                try await Self.take(epoch: 5, workerID: 8, of: queue.id, by: worker) == [], "another worker holds it")
            #expect(try await Self.take(epoch: 5, workerID: 7, of: queue.id, by: worker) == [1])
            #expect(try await queue.texts("select job_id from pushq.body order by job_id") == ["2", "3"])
            #expect(try await queue.texts("select job_id from pushq.lease") == ["3"])
        }
    }

    @Test func `has recipients moved to later days only, not to one that is about to be dropped`() async throws {
        try await withWorker { _, queue, worker in
            try await queue.run(
                """
                do $$
                begin
                  while pushq.make_partition(pushq.today() - 20, 0) is not null loop end loop;
                end $$;
                insert into pushq.message (queue_id, id, root_id, payload, push_type)
                values (\(queue.id), 1, 1, '{}', 'alert');
                insert into pushq.body (day, queue_id, job_id, root_id, first_device_id, last_device_id, device_ids)
                values (pushq.today(), \(queue.id), 1, 1, 1, 1, '{1}');
                """)
            // It may write jobs, also one with the number of a job that has ended.
            try await worker.runScript(
                """
                insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, root_id, body_day,
                                       recipient_count)
                values (\(queue.id), 1, 1, now(), now() + interval '1 hour', 1, 1, pushq.today(), 1);
                select pushq.move_waiting(pushq.today() - 20, -1000, 10, 0, 0)
                """)
            #expect(try await queue.number("select pushq.today() - day from pushq.body") == 0)
        }
    }

    private static let clearDay = Statement(
        "clear_day_for_worker",
        "select gone from pushq.clear_day($parent, pushq.today() - $days::int, array[$queue_id::int], 100, 0, 0)")

    /// Has a worker's login clear the day of a table that was so many days ago; returns the number of deleted rows.
    private static func clear(
        _ parent: String, daysAgo days: Int32, of queueID: Int32, by worker: PostgresConnection
    ) async throws -> Int {
        try await worker.execute(
            clearDay, ["parent": .text(parent), "days": .int4(days), "queue_id": .int4(queueID)]
        ).one().count("gone")
    }

    @Test func `clears what its tenant keeps no longer, and what is left of a removed queue`() async throws {
        try await withWorker { _, queue, worker in
            let removed = queue.id + 1000
            try await queue.run(
                """
                update pushq.tenant set history_days = 19, feedback_days = 20;
                do $$
                begin
                  while pushq.make_partition(pushq.today() - 20, 0) is not null loop end loop;
                end $$;
                insert into pushq.feedback (day, queue_id, device_id, reason, reported_at, verdict)
                select pushq.today() - days, q, 1, 1, now(), 'kept'
                from unnest(array[20, 21]) days, unnest(array[\(queue.id), \(removed)]) q;
                insert into pushq.body (day, queue_id, job_id, root_id, first_device_id, last_device_id, device_ids)
                values (pushq.today() - 20, \(queue.id), 1, 1, 1, 1, '{1}');
                """)
            #expect(try await Self.clear("feedback", daysAgo: 20, of: queue.id, by: worker) == 0)
            #expect(try await Self.clear("feedback", daysAgo: 21, of: queue.id, by: worker) == 1)
            #expect(try await Self.clear("body", daysAgo: 20, of: queue.id, by: worker) == 1)
            // Neither a removed queue has a row in `queue`, nor one whose tenant is between two databases.
            #expect(try await Self.clear("feedback", daysAgo: 21, of: removed, by: worker) == 0)
            try await queue.run("insert into pushq.removed_queue (queue_id, tenant) values (\(removed), 'acme')")
            #expect(try await Self.clear("feedback", daysAgo: 21, of: removed, by: worker) == 1)
            #expect(try await Self.clear("feedback", daysAgo: 20, of: removed, by: worker) == 1)
        }
    }

    @Test func `is told what to do if it may not run workers`() async throws {
        try await withDatabase { _, database in
            let admin = try await database.connect()
            let login = "nobody_\(database.name)"
            try await admin.runScript("create role \(login) login")
            let nobody = try await database.connect(login: login)
            await #expect(throws: WorkerRightsError.notGranted(login: login)) { try await nobody.checkWorkerRights() }
            try await admin.setWorker(login, isGranted: true)
            try await nobody.checkWorkerRights()
            try await nobody.checkSchema()
            try await admin.runScript("revoke usage on schema pushq from pushq_worker")
            await #expect(throws: WorkerRightsError.notMigrated(login: login)) { try await nobody.checkWorkerRights() }
            try await admin.checkWorkerRights()
        }
    }

    @Test func `is a worker no more when that is revoked`() async throws {
        try await withWorker { _, queue, worker in
            let role = try await worker.execute(Statement("me", "select current_user::text as name")).one().text("name")
            try await queue.connection.setWorker(role, isGranted: false)
            await #expect(throws: PostgresError.self) { try await worker.maintainPartitions() }
            await #expect(throws: WorkerGrantError.noWorker) {
                try await queue.connection.setWorker(role, isGranted: false)
            }
            await #expect(throws: WorkerGrantError.noLogin) {
                try await queue.connection.setWorker("nobody", isGranted: true)
            }
        }
    }
}
