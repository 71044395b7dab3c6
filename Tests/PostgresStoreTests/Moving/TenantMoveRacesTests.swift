import QueueCore
import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// What other sessions do to a tenant at the moment when it leaves. Serialised: each test uses two of the databases
/// that tests may have at a time.
@Suite(.serialized, .timeLimit(.minutes(10))) struct `What happens to a tenant while it moves` {
    private static let name = MoveWorld.queue
    private static let payload = MoveWorld.payload

    /// Moves the tenant while `late` has a transaction open that has run `before`. When the tenant is out of use,
    /// `late` runs `work` and commits.
    private func move(
        _ world: MoveWorld, _ actor: isolated LoopActor, while late: PostgresConnection, before: String,
        does work: String
    ) async throws -> TenantMover.Report {
        try await late.runScript(before)
        let mover = try await world.mover()
        let moving = Task {
            _ = actor
            return try await mover.run(under: world.keys)
        }
        try await world.waitUntilItWaits()
        try await late.runScript("\(work); commit")
        return try await moving.value
    }

    /// Both find the session of a command that was killed, and the first one's change becomes visible late.
    @Test(arguments: [true, false]) func `only one of two commands that begin at once may move it`(
        afterAnother: Bool
    ) async throws {
        try await withMoveWorld { actor, world in
            if afterAnother {
                let killed = try await world.here.connect()
                #expect(try await killed.lockMove(of: "acme"))
                killed.close()
                try await eventually("the server has noticed") {
                    try await world.first.number("select count(*) from pushq.mover where pushq.has_mover(tenant)") == 0
                }
            }
            let first = try await world.here.connect()
            let second = try await world.here.connect()
            try await first.runScript("begin")
            #expect(try await first.lockMove(of: "acme"))
            let waiting = Task {
                _ = actor
                return try await second.lockMove(of: "acme")
            }
            try await world.here.waitUntilBlocked("the second command", running: "lock_move", on: second)
            try await first.runScript("commit")
            #expect(try await !waiting.value)
            #expect(try await first.lockMove(of: "acme"), "a command may take its own lock again")
            try await first.unlockMove(of: "acme")
            #expect(try await second.lockMove(of: "acme"))
        }
    }

    @Test func `a transaction with a snapshot from before is waited for, and what it sends goes along`() async throws {
        try await withMoveWorld { actor, world in
            let late = try await world.here.connect()
            _ = try await move(
                world, actor, while: late,
                before: "begin isolation level repeatable read; select 1 from pg_class limit 1",
                does: "select pushq.send('\(Self.name)', \(Self.payload), tokens => array['bb'], key => 'late')")
            #expect(
                try await world.number("select count(*) from pushq.send_key where key = 'late'", in: world.second) == 1)
            #expect(try await world.number("select count(*) from pushq.job", in: world.second) == 1)
        }
    }

    @Test func `a transaction that only waits keeps nobody waiting`() async throws {
        try await withMoveWorld { _, world in
            let idle = try await world.here.connect()
            try await idle.runScript("begin; select 1 from pg_class limit 1")
            _ = try await world.mover(patience: .seconds(20)).run(under: world.keys)
            try await idle.runScript("commit")
        }
    }

    @Test func `settings that are committed late go along, and the later one of two counts`() async throws {
        try await withMoveWorld { actor, world in
            try await world.fill()
            let late = try await world.here.connect()
            _ = try await move(
                world, actor, while: late, before: "begin; select pushq.queue_id('\(Self.name)')",
                does: """
                    insert into pushq.schedule
                    select (jsonb_populate_record(null::pushq.schedule, s)).*
                    from (
                      select json_array_elements(m.settings -> 'schedule')::jsonb || '{"name": "late"}' as s
                      from pushq.tenant_move m) x;
                    insert into pushq.judgement
                    select unnest(m.queues), '2100-01-01', true from pushq.tenant_move m
                    """)
            #expect(
                try await world.number(
                    "select count(*) from pushq.schedule where name in ('late', 'weekly')", in: world.second)
                    == 2)
            #expect(
                try await world.number(
                    "select count(*) from pushq.judgement where judged_to = '2100-01-01'", in: world.second)
                    == 1)
            #expect(try await world.first.number("select count(*) from pushq.schedule") == 0)
            #expect(try await world.first.number("select count(*) from pushq.judgement") == 0)
        }
    }

    @Test func `a change of its settings that is not committed is waited for, and then it goes on where it is`()
        async throws
    {
        try await withMoveWorld { _, world in
            let late = try await world.here.connect()
            try await late.runScript("begin; update pushq.app set bundle_id = 'com.example.changed'")
            let process = try await world.number("select pg_backend_pid()", in: late)
            await #expect(throws: TenantMoveError.openTransaction("acme", [process], .seconds(2))) {
                try await world.mover(patience: .seconds(2)).run(under: world.keys)
            }
            #expect(try await world.first.number("select count(*) from pushq.tenant where suspended_at is null") == 1)
            try await late.runScript("commit")
            _ = try await world.mover().run(under: world.keys)
            #expect(
                try await world.number(
                    "select count(*) from pushq.app where bundle_id = 'com.example.changed'", in: world.second) == 1)
        }
    }

    @Test func `a schedule that runs at this moment does not run again`() async throws {
        try await withMoveWorld { actor, world in
            try await world.first.run(
                """
                select pushq.add_schedule('\(Self.name)', 'daily', '@daily', \(Self.payload), after_outage => 'once');
                update pushq.schedule set next_at = pushq.cron_run(cron, time_zone, now(), true)
                """)
            // A worker's transaction has found the schedule and has not committed.
            let late = try await world.here.connect()
            _ = try await world.move(on: actor) {
                try await late.runScript("begin; select * from pushq.run_due_schedule()")
            } afterwards: {
                try await world.here.waitUntilBlocked("it waits")
                try await late.runScript("commit")
            }
            #expect(
                try await world.number("select count(*) from pushq.schedule where next_at > now()", in: world.second)
                    == 1)
            #expect(try await world.number("select count(*) from pushq.campaign", in: world.second) == 1)
            #expect(try await world.secondWorker.runDueSchedule() == nil)
        }
    }

    @Test func `upkeep on both sides leaves alone what is under way`() async throws {
        try await withMoveWorld(devices: 60) { actor, world in
            try await world.fill()
            try await world.first.run(
                """
                insert into pushq.frequency_cap (queue_id, pushes, period)
                select id, 3, '30 days' from pushq.queue on conflict on constraint frequency_cap_pkey do update
                set period = '30 days';
                insert into pushq.recent_push
                select d.queue_id, d.id, '{1}', '{1}', array[now() - interval '1 day'] from pushq.device d where d.id > 1
                on conflict do nothing;
                insert into pushq.feedback (queue_id, device_id, reason, reported_at, verdict)
                select queue_id, id, 1, now(), 'suspect' from pushq.device limit 3;
                update pushq.feedback set cursor = null, listed_at = null
                """)
            // A campaign to users, whose list its waiting recipients need until they are sent to.
            try await world.first.run(
                """
                select pushq.register_device('\(Self.name)', 'abcd', 'ann');
                select pushq.start_campaign('\(Self.name)', 'listed', '{"aps":{"alert":"x"}}', list => l)
                from (
                  select pushq.new_list('\(Self.name)') as l) n
                cross join lateral (select pushq.add_users_to_list('\(Self.name)', l, '{ann}')) a
                """)
            try await world.first.fanOut(
                Int64(try await world.first.number("select id from pushq.campaign where key = 'listed'")))
            let before = try await world.rows(of: "acme", in: world.first.connection)
            #expect(before["list_user"]?.isEmpty == false)
            let late = try await world.here.connect()
            try await late.runScript("begin; select pushq.queue_id('\(Self.name)')")
            let mover = try await world.mover()
            let moving = Task {
                _ = actor
                return try await mover.run(under: world.keys)
            }
            try await world.waitUntilItWaits()
            for worker in [world.first.worker, world.secondWorker] {
                var retention = Retention()
                retention.days = 1
                try await worker.forget(retention)
                _ = try await worker.listFeedback()
                _ = try await worker.actOnFeedback()
                _ = try await worker.judgeSuspects()
                _ = try await worker.runDueSchedule()
                try await worker.countUsage()
                _ = try await worker.takeWebhook(lease: .seconds(1), atMost: 10, opening: world.keys)
            }
            try await late.runScript("commit")
            let report = try await moving.value
            #expect(report.copiedWhileStopped == 0, "something was changed or deleted on one of the sides")
            let after = try await world.rows(of: "acme", in: world.second)
            for (table, rows) in before.sorted(by: { $0.key < $1.key }) { #expect(after[table] == rows, "\(table)") }
        }
    }

    @Test func `a webhook gets each report once, in one order, across the move`() async throws {
        try await withMoveWorld { actor, world in
            try await world.fill()
            let (old, new) = (world.first.worker, world.secondWorker)
            let underWay = try #require(try await old.takeWebhook(lease: .seconds(60), atMost: 1, opening: world.keys))
            let mover = try await world.mover()
            let moving = Task {
                _ = actor
                return try await mover.run(under: world.keys)
            }
            // The move waits for the message under way, while pushes for the tenant are still sent. No new message is
            // begun.
            try await eventually("it holds the webhook") {
                try await world.first.number(
                    "select count(*) from pushq.tenant_move where reports_held_until is not null") == 1
            }
            #expect(try await world.first.number("select count(*) from pushq.tenant where suspended_at is null") == 1)
            _ = try await old.noteAccepted(underWay)
            #expect(try await old.takeWebhook(lease: .seconds(60), atMost: 1, opening: world.keys) == nil)
            _ = try await moving.value

            // The webhook continues after that message. A report created here, and one of a new queue, come after all
            // earlier ones.
            try await world.second.runScript(
                """
                insert into pushq.queue (tenant_id, app_id, environment)
                select a.tenant_id, a.id, 'production' from pushq.app a join pushq.tenant t on t.id = a.tenant_id
                where t.name = 'acme';
                insert into pushq.feedback (queue_id, device_id, reason, reported_at, verdict)
                select n.queue_id, 1, 1, now(), 'deactivated' from pushq.queue_name n where n.tenant = 'acme'
                """)
            _ = try await new.listFeedback()
            var last = underWay.last
            var count = 1
            while let turn = try await new.takeWebhook(lease: .seconds(60), atMost: 1, opening: world.keys) {
                #expect(turn.first == last)
                #expect(turn.last > last)
                last = turn.last
                count += 1
                _ = try await new.noteAccepted(turn)
            }
            #expect(
                try await world.number(
                    "select count(*) from pushq.feedback f where f.verdict = 'deactivated' and f.cursor > 1",
                    in: world.second)
                    == count)
            #expect(try await world.number("select max(cursor) from pushq.feedback", in: world.second) == Int(last))
        }
    }

    @Test func `a message to a webhook that was not answered has the same number at the new place`() async throws {
        try await withMoveWorld { _, world in
            try await world.fill()
            let failed = try #require(
                try await world.first.worker.takeWebhook(lease: .seconds(60), atMost: 2, opening: world.keys))
            _ = try await world.first.worker.noteFailed(failed, problem: "it answered 500", pause: .zero)
            _ = try await world.mover().run(under: world.keys)
            let again = try #require(
                try await world.secondWorker.takeWebhook(lease: .seconds(60), atMost: 250, opening: world.keys))
            #expect(again.first == failed.first)
            #expect(again.last == failed.last)
            #expect(again.message == failed.message)
            #expect(try world.keys.open(again.sealed, of: .webhook(tenantID: again.tenantID)) == Array("the key".utf8))
        }
    }
}
