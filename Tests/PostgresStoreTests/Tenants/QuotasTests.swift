import QueueCore
import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// The maximum that a tenant may have, as its producers see it.
@Suite(.timeLimit(.minutes(10))) struct `A tenant's quota` {
    static let payload = #"'{"aps":{"alert":"x"}}'"#

    /// An SQL function that runs a statement and returns its error as `PQ507 message; hint`; null without one.
    private static let tryFunction = #"""
        create function public.attempt(statement text) returns text language plpgsql as $$
        declare
          help text;
        begin
          execute statement;
          return null;
        exception when others then
          get stacked diagnostics help = pg_exception_hint;
          return sqlstate || ' ' || sqlerrm || '; ' || help;
        end $$
        """#

    /// Calls `body` with a queue of acme, which has 5 devices, and two connections.
    func withQueue(
        _ body: @escaping @Sendable (isolated LoopActor, QueueFixture, PostgresConnection) async throws -> Void
    ) async throws {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database, devices: 5)
            try await queue.run(Self.tryFunction)
            try await body(actor, queue, try await database.connect())
        }
    }

    /// The same, but the connection is that of the tenant's own login: operators' calls are not limited.
    func withTenant(
        _ body: @escaping @Sendable (isolated LoopActor, QueueFixture, PostgresConnection) async throws -> Void
    ) async throws {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database, devices: 5)
            let login = "shop_\(database.name)"
            try await queue.run("\(Self.tryFunction); create role \(login) login")
            try await queue.connection.grantTenant("acme", to: login, isReadOnly: false)
            try await body(actor, queue, try await database.connect(login: login))
        }
    }

    func set(_ store: PostgresConnection, _ adjust: (inout QuotaChange) -> Void) async throws {
        var change = TenantChange()
        adjust(&change.quotas)
        #expect(try await store.setTenant("acme", to: change))
    }

    /// Returns the error of a call; nil if there is none. `QUEUE` stands for the queue's name.
    func refusal(_ store: PostgresConnection, _ call: String) async throws -> String? {
        let call = call.replacing("QUEUE", with: "'\(QueueFixture.name)'")
        let rows = try await store.execute(
            Statement("attempt", "select public.attempt($statement) as error"), ["statement": .text("select " + call)])
        return try rows.one().optionalText("error")
    }

    static func token(_ number: Int) -> String { String(repeating: "a", count: 62) + "\(number)" }

    @Test func `of devices refuses new tokens, whatever brings them, and no known ones`() async throws {
        try await withQueue { _, queue, _ in
            let store = queue.connection
            try await set(store) { $0.devices = .limit(6) }
            let calls = [
                "pushq.register_device(QUEUE, '\(Self.token(10))')",
                "pushq.register_device(QUEUE, '\(Self.token(11))', 'anna')",
                "pushq.send(QUEUE, \(Self.payload), tokens => array['\(Self.token(12))'])",
                "pushq.start_campaign(QUEUE, 'k', \(Self.payload), tokens => array['\(Self.token(13))'])",
                "pushq.add_to_list(QUEUE, pushq.new_list(QUEUE), array['\(Self.token(14))'])",
            ]
            // The quota has room for one more device, but not for two.
            for call in calls {
                try await queue.run("begin")
                #expect(try await refusal(store, call) == nil, "\(call)")
                try await queue.run("rollback")
            }
            #expect(
                try await refusal(
                    store,
                    "pushq.send(QUEUE, \(Self.payload), tokens => array['\(Self.token(20))', '\(Self.token(21))'])")
                    == "PQ507 tenant “acme” may have at most 6 devices: it has 5, and this call would add 2; unregister devices that are not "
                    + "needed: if nine in ten are used, a worker counts that within a minute, else an hour; an operator can allow more with: pushq-admin tenant set acme --max-devices"
            )
            #expect(try await refusal(store, calls[0]) == nil)
            try await store.countUsage()
            for call in calls.dropFirst() {
                #expect(
                    try await refusal(store, call)?.hasPrefix(
                        "PQ507 tenant “acme” may have at most 6 devices: it has 6")
                        == true, "\(call)")
                let known = call.replacing(/a{62}\d\d/, with: Self.token(10))
                #expect(try await refusal(store, known) == nil, "\(known)")
            }
            // An import is done completely or not at all.
            let file = DeviceFile.text(Self.token(30))
            await #expect(throws: PostgresError.self) {
                _ = try await store.importDevices(from: file, inQueue: QueueFixture.name, reactivates: false) { _ in }
            }
            #expect(try await queue.number("select count(*) from pushq.device") == 6)
            // Devices that become inactive make room, as soon as all are counted.
            try await queue.run(
                "update pushq.device set active = false, inactive_since = now() where id = (select min(id) from pushq.device)"
            )
            _ = try await store.usage(of: "acme")
            #expect(try await refusal(store, calls[1]) == nil)
        }
    }

    @Test func `of devices lets a phone get another token, and has room for what was deactivated in seconds`()
        async throws
    {
        try await withQueue { _, queue, _ in
            let store = queue.connection
            func register(_ number: Int, _ installation: String) async throws -> String? {
                try await refusal(
                    store,
                    "pushq.register_device(QUEUE, '\(Self.token(number))', 'u', installation => '\(installation)')")
            }
            #expect(try await register(10, "i10") == nil)
            try await set(store) { $0.devices = .limit(6) }
            try await store.countUsage()
            // The new token replaces an active one.
            #expect(try await register(11, "i10") == nil)
            #expect(try await register(12, "i12")?.hasPrefix("PQ507") == true)
            #expect(try await queue.number("select count(*) from pushq.device where active") == 6)
            // The later of the installation's two tokens is dead.
            try await queue.run(
                """
                update pushq.device set active = false, inactive_since = now() where token = '\\x\(Self.token(11))';
                insert into pushq.device (queue_id, token) values (\(queue.id), '\\xee');
                insert into pushq.profile (queue_id, device_id, installation)
                select queue_id, id, 'i10' from pushq.device where token = '\\xee'
                """)
            #expect(try await register(13, "i10") == nil)
            #expect(try await queue.number("select count(*) from pushq.device where active") == 6)

            try await queue.run("select pushq.set_device('\(QueueFixture.name)', '\(Self.token(13))', false)")
            // The devices are counted again after ten seconds, and not only after an hour.
            try await queue.run(
                "update pushq.tenant_usage set devices_counted_at = devices_counted_at - interval '11 seconds'")
            try await store.countUsage()
            #expect(try await register(12, "i12") == nil)
        }
    }

    @Test func `of devices refuses those that would become active again, and leaves active ones alone`() async throws {
        try await withQueue { _, queue, _ in
            let store = queue.connection
            let register = "pushq.register_device(QUEUE, '\(Self.token(10))', 'anna', installation => 'i')"
            #expect(try await refusal(store, register) == nil)
            try await queue.run("select pushq.set_device('\(QueueFixture.name)', '\(Self.token(10))', false)")
            try await set(store) { $0.devices = .limit(5) }
            try await store.countUsage()
            let calls = [
                register, "pushq.register_device(QUEUE, '\(Self.token(10))')",
                "pushq.register_device(QUEUE, '\(Self.token(10))', 'bert', tags => '{vip}')",
                "pushq.set_device(QUEUE, '\(Self.token(10))', true)",
            ]
            for call in calls {
                let error = try await refusal(store, call)
                #expect(error?.hasPrefix("PQ507 tenant “acme” may have at most 5 devices: it has 5") == true, "\(call)")
            }
            #expect(try await queue.number("select count(*) from pushq.device where active") == 5)
            try await set(store) { $0.devices = .limit(6) }
            for call in calls { #expect(try await refusal(store, call) == nil, "\(call)") }
            try await set(store) { $0.devices = .limit(5) }
            for call in calls { #expect(try await refusal(store, call) == nil, "it is active: \(call)") }
        }
    }

    @Test func `is not needed to hold a queue to 1,000 audiences, and to as many channels as Apple allows`()
        async throws
    {
        try await withQueue { _, queue, _ in
            let store = queue.connection
            try await queue.run(
                """
                insert into pushq.audience (queue_id, name, filter)
                select \(queue.id), 'a' || n, 'tag ''x''' from generate_series(1, 999) n;
                insert into pushq.channel (queue_id, channel, policy, retired_at)
                select \(queue.id), 'c' || n, 0, case when n > 9999 then now() end from generate_series(1, 10500) n
                """)
            for (call, refused) in [
                ("pushq.save_audience(QUEUE, 'last', 'tag ''x''')", nil),
                (
                    "pushq.save_audience(QUEUE, 'more', 'tag ''x''')",
                    "PQ507 queue “acme/com.acme/sandbox” has 1000 audiences, the most there may be; "
                ),
                ("pushq.save_audience(QUEUE, 'last', 'tag ''y''', replaces => true)", nil),
                ("pushq.register_channel(QUEUE, 'last', 0)", nil),
                (
                    "pushq.register_channel(QUEUE, 'more', 0)",
                    "PQ507 queue “acme/com.acme/sandbox” has 10000 channels, the most there may be; "
                ),
                (
                    "pushq.register_channel(QUEUE, 'c10001', 0)",
                    "PQ507 queue “acme/com.acme/sandbox” has 10000 channels, the most there may be; "
                ), ("pushq.register_channel(QUEUE, 'c1', 1)", nil),
            ] {
                let error = try await refusal(store, call)
                #expect(refused.map { error?.hasPrefix($0) == true } ?? (error == nil), "\(call): \(error ?? "nil")")
            }
        }
    }

    @Test func `of bytes is one of a day`() async throws {
        try await withQueue { _, queue, _ in
            let store = queue.connection
            try await set(store) { $0.dayBytes = .limit(100) }
            // Each payload has 21 bytes.
            let send = "pushq.send(QUEUE, \(Self.payload), tokens => array['\(Self.token(10))'])"
            for _ in 1...4 { #expect(try await refusal(store, send) == nil) }
            try await store.countUsage()
            #expect(try await store.usage(of: "acme")?.dayBytes == .init(used: 84, quota: 100))
            // A send that reaches no device counts too, because its message is kept.
            let toNobody = "pushq.send(QUEUE, \(Self.payload), user_key => 'nobody')"
            for call in [send, toNobody, "pushq.start_campaign(QUEUE, 'k', \(Self.payload))"] {
                #expect(
                    try await refusal(store, call)
                        == "PQ507 tenant “acme” may have at most 100 bytes of payload a day: it has 84, and this call would add 21; wait for the next "
                        + "day (UTC); an operator can allow more with: pushq-admin tenant set acme --max-day-bytes")
            }
            try await queue.run("update pushq.tenant_usage set bytes_day = bytes_day - 1")
            #expect(try await refusal(store, send) == nil)
        }
    }

    @Test func `of campaigns counts those that have recipients to put into jobs`() async throws {
        try await withQueue { _, queue, _ in
            let store = queue.connection
            try await set(store) { $0.campaigns = .limit(2) }
            let first = try await queue.startCampaign(key: "one")
            #expect(
                try await refusal(
                    store, "pushq.start_campaign(QUEUE, 'two', \(Self.payload), start_at => now() + '1 day')") == nil)
            let third = "pushq.start_campaign(QUEUE, 'three', \(Self.payload))"
            #expect(
                try await refusal(store, third)
                    == "PQ507 tenant “acme” may have at most 2 campaigns under way: it has 2, and this call would add 1; wait until one has ended, or "
                    + "cancel it; an operator can allow more with: pushq-admin tenant set acme --max-campaigns")
            // A repetition is not another campaign.
            #expect(try await queue.startCampaign(key: "one") == first)
            try await queue.fanOut(first)
            #expect(try await refusal(store, third) == nil)
            #expect(try await store.usage(of: "acme")?.campaigns == .init(used: 2, quota: 2))
            try await set(store) { $0.campaigns = Quota.none }
            #expect(try await store.usage(of: "acme") == nil)
            #expect(try await queue.number("select count(*) from pushq.tenant_quota") == 0)
        }
    }

    @Test func `of schedules counts those of all queues, and leaves known ones alone`() async throws {
        try await withQueue { _, queue, _ in
            let store = queue.connection
            try await set(store) { $0.schedules = .limit(1) }
            func add(_ name: String, _ cron: String) -> String {
                "pushq.add_schedule(QUEUE, '\(name)', '\(cron)', \(Self.payload), replaces => true)"
            }
            #expect(try await refusal(store, add("one", "@daily")) == nil)
            #expect(try await refusal(store, add("one", "@hourly")) == nil)
            #expect(
                try await refusal(store, add("two", "@daily"))
                    == "PQ507 tenant “acme” may have at most 1 schedules: it has 1, and this call would add 1; remove one that is "
                    + "not needed; an operator can allow more with: pushq-admin tenant set acme --max-schedules")
            #expect(try await store.usage(of: "acme")?.schedules == .init(used: 1, quota: 1))
            try await set(store) { $0.schedules = Quota.none }
            #expect(try await refusal(store, add("two", "@daily")) == nil)
        }
    }

    /// A schedule was once refused, also one that was there already, as if it added a campaign.
    @Test(arguments: ["campaigns", "bytes"])
    func `of what a campaign adds refuses no schedule, but its runs`(quota: String) async throws {
        try await withQueue { _, queue, _ in
            let store = queue.connection
            try await set(store) { quotas in
                if quota == "campaigns" { quotas.campaigns = .limit(1) } else { quotas.dayBytes = .limit(30) }
            }
            #expect(
                try await refusal(
                    store, "pushq.start_campaign(QUEUE, 'k', \(Self.payload), start_at => now() + interval '1 hour')")
                    == nil)
            try await store.countUsage()
            func add(_ cron: String, _ options: String = "") -> String {
                "pushq.add_schedule(QUEUE, 'one', '\(cron)', \(Self.payload), replaces => true\(options))"
            }
            for cron in ["@daily", "@daily", "@hourly"] { #expect(try await refusal(store, add(cron)) == nil) }
            let refused = try await refusal(store, add("@weekly", ", options => '{\"holdout\":2}'"))
            #expect(refused?.hasPrefix("PQ400") == true)
            #expect(try await refusal(store, "pushq.run_schedule(QUEUE, 'one')")?.hasPrefix("PQ507") == true)
        }
    }

    @Test func `counts nothing of what is rolled back, and nobody waits for a producer that has not committed`()
        async throws
    {
        try await withTenant { _, queue, shop in
            let store = queue.connection
            try await set(store) {
                $0.waiting = .limit(5)
                $0.devices = .limit(8)
                $0.calls = .limit(1000)
                $0.dayBytes = .limit(1000)
            }
            let send = "pushq.send(QUEUE, \(Self.payload), tokens => array['\(Self.token(10))', '\(Self.token(11))'])"
            // No session has counted for a minute, so the first producer counts.
            try await queue.run("update pushq.tenant_usage set counted_at = now() - interval '1 minute'")
            try await shop.runScript("begin")
            #expect(try await refusal(shop, send) == nil)
            try await queue.run("set statement_timeout = '10s'")
            #expect(try await refusal(store, send.replacing("10", with: "12").replacing("11", with: "13")) == nil)
            try await store.countUsage()
            try await shop.runScript("rollback")
            try await store.countUsage()
            let usage = try await store.usage(of: "acme")
            #expect(usage?.waiting?.used == 2)
            #expect(usage?.devices?.used == 7)
            #expect(usage?.dayBytes?.used == 21)
            #expect(try await queue.number("select count(*) from pushq.call") < 10)
        }
    }

    @Test func `is counted by workers also while a producer who has counted does not commit`() async throws {
        try await withQueue { _, queue, other in
            let store = queue.connection
            try await set(store) { $0.waiting = .limit(5) }
            try await queue.run("update pushq.tenant_usage set counted_at = now() - interval '1 minute'")
            try await other.runScript("begin")
            #expect(try await refusal(other, "pushq.unregister_device(QUEUE, 'ee')") == nil)
            let send = "pushq.send(QUEUE, \(Self.payload), tokens => array['\(Self.token(10))', '\(Self.token(11))'])"
            for call in 1...4 {
                #expect((try await refusal(store, send) == nil) == (call <= 2), "call \(call)")
                try await queue.worker.countUsage()
            }
            try await other.runScript("commit")
            try await queue.worker.countUsage()
            #expect(try await store.usage(of: "acme")?.waiting == .init(used: 4, quota: 5))
        }
    }

    @Test func `is counted again when the clock was set back after a count`() async throws {
        try await withQueue { _, queue, _ in
            let store = queue.connection
            try await set(store) { ($0.waiting, $0.devices) = (.limit(5), .limit(8)) }
            // A producer counts, as no worker has, and then so does a worker.
            try await queue.run("update pushq.tenant_usage set counted_at = now() - interval '1 minute'")
            #expect(try await refusal(store, "pushq.unregister_device(QUEUE, 'ee')") == nil)
            try await queue.run(
                """
                update pushq.tenant_usage set counted_at = now() + interval '1 hour' where by_producer;
                update pushq.tenant_usage set devices_counted_at = now() + interval '1 hour';
                update pushq.device set active = false, inactive_since = now()
                where id = (select min(id) from pushq.device)
                """)
            try await queue.worker.countUsage()
            let devices = "select devices from pushq.tenant_usage where not by_producer"
            #expect(try await queue.number(devices) == 4)
            let send = "pushq.send(QUEUE, \(Self.payload), tokens => array['\(Self.token(10))', '\(Self.token(11))'])"
            for call in 1...4 {
                #expect((try await refusal(store, send) == nil) == (call <= 2), "call \(call)")
                try await queue.worker.countUsage()
            }
            // Without a worker, a producer counts again.
            try await queue.run("update pushq.tenant_usage set counted_at = now() + interval '1 hour'")
            #expect(try await refusal(store, "pushq.unregister_device(QUEUE, 'ee')") == nil)
            #expect(try await queue.number("select count(*) from pushq.tenant_usage where counted_at <= now()") == 1)
        }
    }

    @Test func `is of all queues of a tenant together, and of no other's`() async throws {
        try await withQueue { _, queue, _ in
            let store = queue.connection
            #expect(try await store.createTenant("beta"))
            for tenant in ["acme", "beta"] {
                #expect(try await store.createApp("com.second", of: tenant) == .created)
                #expect(
                    try await store.createQueue(QueueName(tenant: tenant, app: "com.second", environment: .production))
                        == .created)
            }
            try await set(store) { $0.devices = .limit(5) }
            let register = { (tenant: String) in
                "pushq.register_device('\(tenant)/com.second/production', '\(Self.token(10))')"
            }
            #expect(try await refusal(store, register("acme"))?.hasPrefix("PQ507") == true)
            #expect(try await refusal(store, register("beta")) == nil)
        }
    }
}

@Suite(.timeLimit(.minutes(10))) struct `A suspended tenant's producer` {
    /// A call of each function that is refused.
    private static let refused = [
        #"pushq.send(QUEUE, PAYLOAD, tokens => array['aa'])"#, #"pushq.send(QUEUE, PAYLOAD, user_key => 'anna')"#,
        "pushq.send_many(QUEUE, array[PAYLOAD], tokens => array['aa'])",
        #"pushq.start_campaign(QUEUE, 'new', PAYLOAD)"#,
        #"pushq.start_campaign(QUEUE, 'new', PAYLOAD, tokens => array['aa'])"#,
        #"pushq.start_campaign(QUEUE, 'new', PAYLOAD, list => 1)"#, "pushq.new_list(QUEUE)",
        "pushq.add_to_list(QUEUE, 1, array['aa'])", "pushq.add_tokens_to_list(QUEUE, 1, '{}')",
        "pushq.add_users_to_list(QUEUE, 1, array['anna'])",
        "pushq.earlier_list_campaign(QUEUE, 'k', PAYLOAD, 1, repeat('0', 256)::bit(256))",
        "pushq.resume_campaign(QUEUE, 'k')", "pushq.retry_failed(QUEUE, 1)", "pushq.retry_failed_campaign(QUEUE, 'k')",
        "pushq.add_schedule(QUEUE, 'daily', '@daily', PAYLOAD)", "pushq.resume_schedule(QUEUE, 'weekly')",
        "pushq.run_schedule(QUEUE, 'weekly')",
        #"pushq.broadcast(QUEUE, 'dGhlaXJz', PAYLOAD, expiration => 0)"#,
    ]
    private static let accepted = [
        "pushq.message_problem(PAYLOAD, 'alert', null, null, null)", "pushq.broadcast_problem(PAYLOAD, 5, 0, 0)",
        "pushq.register_device(QUEUE, 'aa')", "pushq.register_device(QUEUE, 'aa', 'anna')",
        "pushq.check_time_zone(QUEUE, 'Europe/Vienna')",
        "pushq.unregister_device(QUEUE, 'aa')", "pushq.set_device(QUEUE, 'aa', false)",
        "pushq.forget_device(QUEUE, 'aa')", "pushq.forget_user(QUEUE, 'anna')", "pushq.set_badge(QUEUE, 'aa')",
        "pushq.register_channel(QUEUE, 'dGhlaXJz', 0)", "pushq.preview_campaign(QUEUE, 'k')",
        "pushq.tokens_of_users(QUEUE, array['anna'])", "pushq.abandon_list(QUEUE, 1)",
        "pushq.preview_message(QUEUE, PAYLOAD)",
        "pushq.preview_waves(QUEUE, '09:00')", "pushq.preview_quiet_hours(QUEUE)",
        "pushq.preview_starts(QUEUE, 'Match')",
        "pushq.set_campaign_rate(QUEUE, 'k', 5)", "pushq.pause_campaign(QUEUE, 'k')",
        "pushq.cancel_campaign(QUEUE, 'k')", "pushq.cancel(QUEUE, (select max(root_id) from pushq.job))",
        "pushq.cancel_job(QUEUE, (select max(id) from pushq.job))",
        "pushq.cancel_jobs(QUEUE, array(select id from pushq.job))",
        "pushq.show_campaigns(QUEUE, null, 1)", "pushq.show_refusals(QUEUE, 1, 64, 127, 191, 6, 7)",
        "pushq.show_last_end(QUEUE, 1)", "pushq.show_send(QUEUE, 1)", "pushq.show_standstill(QUEUE, 1)",
        "pushq.show_jobs(QUEUE, 1)", "pushq.show_job(QUEUE, 1)", "pushq.show_failed_jobs(QUEUE, 1, 128, 191)",
        "pushq.show_cancellable_jobs(QUEUE, 1, 192)", "pushq.show_recipients(QUEUE, 'k', '{unknown}', 0, 1)",
        "pushq.show_stuck_jobs(QUEUE, 1)", "pushq.show_devices(QUEUE, 0, null, true, 1)",
        "pushq.show_device(QUEUE, '')", "pushq.show_feedback(QUEUE, 1)", "pushq.show_queues(null, null, 9, 9)",
        "pushq.feedback_after(QUEUE)", "pushq.feedback_cursor(QUEUE)",
        "pushq.show_load(null, null, 1)", "pushq.show_timeline(QUEUE, 1, 10, 1, 127, 191, 6, 7)",
        "pushq.show_statistics(null, 1)", "pushq.save_audience(QUEUE, 'vips', 'tag ''vip''')",
        "pushq.show_audiences(QUEUE)", "pushq.show_audience(QUEUE, 'vips', 'alert')",
        "pushq.pause_schedule(QUEUE, 'weekly')", "pushq.show_schedules(QUEUE, null, 1)",
        "pushq.remove_schedule(QUEUE, 'weekly')",
        "pushq.remove_audience(QUEUE, 'vips')", "pushq.trace(QUEUE, token => 'aa')",
        "pushq.show_shares(QUEUE, 1)", "pushq.status(QUEUE, (select max(root_id) from pushq.body))",
    ]

    @Test func `has each call of a function counted once, whatever that calls itself`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            _ = try await queue.startCampaign()
            // The arguments of some calls read these tables.
            let login = "shop_\(database.name)"
            try await queue.run("create role \(login) login; grant select on pushq.body, pushq.job to \(login)")
            try await queue.connection.grantTenant("acme", to: login, isReadOnly: false)
            try await queue.run(
                """
                create function pg_temp.counted(call text) returns bigint language plpgsql as $$
                begin
                  delete from pushq.call;
                  perform set_config('role', '\(login)', true);
                  execute 'select ' || call;
                  perform set_config('role', session_user, true);
                  return (select count(*) from pushq.call);
                -- There is no such list, channel or schedule, or the key is in use. A refused call counts nothing.
                exception when sqlstate 'PQ404' or sqlstate 'PQ409' then return 0;
                end $$
                """)
            var change = TenantChange()
            change.quotas.calls = .limit(50)
            #expect(try await queue.connection.setTenant("acme", to: change))
            var counted = 0
            for text in Self.refused + Self.accepted {
                let call = text.replacing("QUEUE", with: "'\(QueueFixture.name)'")
                    .replacing("PAYLOAD", with: #"'{"aps":{"alert":"x"}}'::json"#)
                let count = try await queue.number("select pg_temp.counted('\(call.replacing("'", with: "''"))')")
                #expect(count <= 1, "\(call)")
                counted += Int(count)
            }
            #expect(counted > 40, "nearly all of them are counted")
        }
    }

    @Test func `is told so by each function that makes something to send, and can still stop, register and forget`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            let store = queue.connection
            _ = try await queue.startCampaign()
            try await queue.run(
                #"select pushq.add_schedule('\#(QueueFixture.name)', 'weekly', '@weekly', '{"aps":{"alert":"x"}}')"#)
            try await queue.run(
                #"select pushq.send('\#(QueueFixture.name)', '{"aps":{"alert":"x"}}', tokens => array['bb'])"#)
            func call(_ text: String) async throws(PostgresError) {
                let call = text.replacing("QUEUE", with: "'\(QueueFixture.name)'")
                    .replacing("PAYLOAD", with: #"'{"aps":{"alert":"x"}}'::json"#)
                try await store.runScript("do $do$ begin perform \(call); end $do$")
            }
            #expect(try await store.setTenant("acme", isSuspended: true) == true)
            for text in Self.refused {
                let error = await #expect(throws: PostgresError.self, "\(text)") { try await call(text) }
                #expect(
                    error?.description
                        == "tenant “acme” is suspended; an operator can resume it with: pushq-admin tenant resume acme")
            }
            for text in Self.accepted { try await call(text) }
            try await store.runScript(
                """
                do $do$
                begin
                  perform pushq.new_list('\(QueueFixture.name)');
                  raise exception 'accepted';
                exception
                  when sqlstate 'PQ403' then null;
                end $do$
                """)
            // Every function for producers is in one of the two lists.
            let named = Set((Self.refused + Self.accepted).map { String($0.prefix { $0 != "(" }) })
            let functions = try await store.execute(
                Statement(
                    "for_producers",
                    #"""
                    select distinct 'pushq.' || proname as name
                    from pg_proc
                    where pronamespace = 'pushq'::regnamespace and prosecdef
                      and has_function_privilege('pushq_producer', oid, 'execute')
                    """#
                ))
            #expect(Set(functions.map { $0.text("name") }).subtracting(named) == [])
            #expect(try await store.setTenant("acme", isSuspended: false) == true)
            try await call("pushq.new_list(QUEUE)")
        }
    }
}
