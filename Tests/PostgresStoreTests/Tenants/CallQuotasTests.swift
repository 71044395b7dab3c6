import LocalStack
import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// The quota of calls: how many a tenant's producers may make in a second.
extension `A tenant's quota` {
    /// A function that makes all calls so far count for another second, however long the test has taken.
    private static let keepCalls = """
        create function public.keep_calls() returns boolean language plpgsql security definer as $$
        begin
          update pushq.call set called_at = clock_timestamp() + interval '1 second'
          where called_at < clock_timestamp() + interval '0.5 seconds';
          return true;
        end $$
        """

    @Test func `of calls is one of a second, and of every function`() async throws {
        try await withTenant { _, queue, shop in
            let store = queue.connection
            try await set(store) { $0.calls = .limit(3) }
            let calls = [
                "pushq.register_device(QUEUE, '\(Self.token(10))')",
                "pushq.send(QUEUE, \(Self.payload), tokens => array['\(Self.token(10))'], key => 'k')",
                "pushq.start_campaign(QUEUE, 'k', \(Self.payload), tokens => array['\(Self.token(10))'])",
                "pushq.unregister_device(QUEUE, '\(Self.token(10))')",
                "pushq.pause_campaign(QUEUE, 'k')",
                "pushq.cancel_campaign(QUEUE, 'k')",
            ]
            try await queue.run(Self.keepCalls)
            for call in calls.prefix(3) {
                #expect(try await refusal(shop, "public.keep_calls(), \(call)") == nil, "\(call)")
            }
            for call in calls {
                #expect(
                    try await refusal(shop, "public.keep_calls(), \(call)")
                        == "PQ429 tenant “acme” has reached its limit of 3 calls a second; repeat the call later; an operator can allow more with: "
                        + "pushq-admin tenant set acme --max-calls", "\(call)")
            }
            // In a transaction, the current second stays the same.
            try await queue.run("begin; update pushq.call set called_at = now()")
            #expect(try await store.usage(of: "acme")?.calls == .init(used: 3, quota: 3))
            try await queue.run("commit")
            // Refused calls are not counted. A second later, calls are accepted again.
            try await queue.run("update pushq.call set called_at = now() - interval '1 second'")
            #expect(try await refusal(shop, calls[3]) == nil)
        }
    }

    @Test func `of calls neither counts nor refuses those of operators`() async throws {
        try await withTenant { _, queue, shop in
            let store = queue.connection
            try await set(store) { $0.calls = .limit(1) }
            try await queue.run(Self.keepCalls)
            let token = Self.token(10)
            let calls = [
                "pushq.register_device(QUEUE, '\(token)', 'anna', installation => 'i1')",
                // It changes nothing.
                "pushq.register_device(QUEUE, '\(token)', 'anna', installation => 'i1')",
                "pushq.start_campaign(QUEUE, 'k', \(Self.payload))", "pushq.trace(QUEUE, token => '\(token)')",
                "pushq.show_campaigns(QUEUE, null, 1)", "pushq.pause_campaign(QUEUE, 'k')",
                "pushq.cancel_campaign(QUEUE, 'k')", "pushq.forget_device(QUEUE, '\(token)')",
            ]
            for call in calls { #expect(try await refusal(store, call) == nil, "\(call)") }
            #expect(try await queue.number("select count(*) from pushq.call") == 0)
            // Nor where the tenant has used up its calls.
            let unregister = "public.keep_calls(), pushq.unregister_device(QUEUE, '\(token)')"
            #expect(try await refusal(shop, unregister) == nil)
            #expect(try await refusal(shop, unregister)?.hasPrefix("PQ429") == true)
            for call in calls {
                let refused = try await refusal(store, "public.keep_calls(), \(call)")
                #expect(refused?.hasPrefix("PQ429") != true, "\(call): \(refused ?? "")")
            }
            #expect(try await queue.number("select count(*) from pushq.call") == 1)
        }
    }

    @Test func `of calls lets a read-only transaction read, and counts nothing of it`() async throws {
        try await withTenant { _, queue, shop in
            try await set(queue.connection) { $0.calls = .limit(1) }
            try await queue.run(#"select pushq.send('\#(QueueFixture.name)', \#(Self.payload), '{aa}')"#)
            // The state after a restart of the server, or if no worker has counted for a while.
            try await queue.run("select setval('pushq.known_start', 1); delete from pushq.call")
            try await queue.run("update pushq.tenant_usage set counted_at = now() - interval '1 hour'")
            for call in [
                "status('\(QueueFixture.name)', 1)", "trace('\(QueueFixture.name)', token => 'aa')",
                "feedback_after('\(QueueFixture.name)')",
                "preview_campaign('\(QueueFixture.name)', 'k', payload => \(Self.payload))",
            ] {
                try await shop.runScript("begin read only; select count(*) from pushq.\(call); commit")
            }
            #expect(try await queue.number("select count(*) from pushq.call") == 0)
            // A call in each half of a second that follows, so that one is in the current second.
            try await queue.run(
                """
                insert into pushq.call (tenant_id, called_at)
                select t.id, now() + i * interval '0.5 seconds' from pushq.tenant t, generate_series(1, 1200) i
                """)
            try await shop.runScript("begin read only")
            let error = await #expect(throws: PostgresError.self) {
                try await shop.runScript("select pushq.feedback_after('\(QueueFixture.name)')")
            }
            #expect(error?.description.contains("has reached its limit of 1 calls a second") == true)
        }
    }

    /// The rows that stand for calls are in an unlogged table, which no standby can read.
    @Test func `of calls limits none on a standby, and refuses none there`() async throws {
        let reaper = try Reaper()
        let loop = EventLoop(name: "calls on a standby")
        defer { loop.shutDown() }
        let primary = try await PrivatePostgres.start(reaper: reaper)
        let standby = try await PrivatePostgres.startStandby(of: primary, reaper: reaper)
        try await loop.run { actor in
            func connect(to server: PrivatePostgres, as login: String) async throws -> PostgresConnection {
                let address = try DatabaseAddress(url: server.connectionString(user: login), environment: [:])
                return try await PostgresConnection.connectPatiently(to: address, as: "test", on: actor.loop)
            }
            let store = try await connect(to: primary, as: PrivatePostgres.superuser)
            _ = try await Migrator(store).run()
            _ = try await store.createTenant("acme")
            _ = try await store.createApp("com.acme", of: "acme")
            _ = try await store.createQueue(QueueFixture.name)
            try await store.runScript("create role shop login")
            try await store.grantTenant("acme", to: "shop", isReadOnly: false)
            try await set(store) { $0.calls = .limit(1) }
            try await store.runScript(#"select pushq.send('\#(QueueFixture.name)', \#(Self.payload), '{aa}')"#)
            let end = try await store.execute(Statement("end", "select pg_current_wal_lsn()::text as lsn")).one()
            let replica = try await connect(to: standby, as: PrivatePostgres.superuser)
            let hasAll = Statement("has all", "select pg_last_wal_replay_lsn() >= $1::text::pg_lsn as has_all")
            try await eventually("the standby has all of that", within: .seconds(60)) {
                try await replica.execute(hasAll, [.text(end.text("lsn"))]).one().bool("has_all")
            }
            let shop = try await connect(to: standby, as: "shop")
            for call in [
                "status('\(QueueFixture.name)', 1)", "trace('\(QueueFixture.name)', token => 'aa')",
                "feedback_after('\(QueueFixture.name)')",
                "preview_campaign('\(QueueFixture.name)', 'k', payload => \(Self.payload))",
                "show_campaigns('\(QueueFixture.name)', null, 1)", "show_campaigns(null, null, 1)",
            ] {
                for _ in 1...2 { try await shop.runScript("select count(*) from pushq.\(call)") }
            }
            for connection in [store, replica, shop] { connection.close() }
        }
        await reaper.end()
    }

    @Test(arguments: ["", "setseed(0.5), "])
    func `of many calls a second is kept by chance, which the caller cannot choose`(first: String) async throws {
        try await withTenant { _, queue, shop in
            try await set(queue.connection) { $0.calls = .limit(1000) }
            // All calls happen in the same second.
            try await queue.run(Self.keepCalls)
            let counted = Statement(
                "accepted",
                """
                select count(*) as accepted
                from generate_series(1, 3000) i
                where public.keep_calls() and public.attempt(
                  format('select \(first)pushq.unregister_device(%L, %L)', '\(QueueFixture.name)', 'ab')) is null
                """)
            let accepted = try await shop.execute(counted).one().int8("accepted")
            // Fifty rows of twenty calls each: one standard deviation is a seventh.
            #expect((500...2000).contains(accepted), "\(accepted)")
        }
    }

    @Test func `of calls does not count calls that a clock that was ahead has dated, and forgets them`() async throws {
        try await withTenant { _, queue, shop in
            let store = queue.connection
            try await set(store) { $0.calls = .limit(3) }
            func add(_ ahead: String) async throws {
                try await queue.run(
                    """
                    insert into pushq.call (tenant_id, called_at)
                    select t.id, now() + interval '\(ahead)' from pushq.tenant t, generate_series(1, 3)
                    """)
            }
            try await add("1 hour")
            #expect(try await refusal(shop, "pushq.unregister_device(QUEUE, '\(Self.token(10))')") == nil)
            try await store.countUsage()
            #expect(try await queue.number("select count(*) from pushq.call where called_at > now()") == 0)

            // Calls that are dated a few seconds ahead are not those of this second either.
            try await queue.run("begin; delete from pushq.call")
            try await add("5 seconds")
            #expect(try await store.usage(of: "acme")?.calls == .init(used: 0, quota: 3))
            try await queue.run("commit")
        }
    }
}
