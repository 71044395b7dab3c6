import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// The quota of calls: how many a tenant's producers may make in a second.
extension `A tenant's quota` {
    @Test func `of calls is one of a second, and of every function`() async throws {
        try await withQueue { _, queue, _ in
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
            // The time is in the future, so that the calls count for the current second, however long the test takes.
            try await queue.run("update pushq.call set called_at = now() + interval '1 hour'")
            for call in calls.prefix(3) {
                #expect(try await refusal(store, call) == nil, "\(call)")
                try await queue.run("update pushq.call set called_at = now() + interval '1 hour'")
            }
            for call in calls {
                #expect(
                    try await refusal(store, call)
                        == "PQ429 tenant “acme” has reached its limit of 3 calls a second; repeat the call later; an operator can allow more with: "
                        + "pushq-admin tenant set acme --max-calls", "\(call)")
            }
            #expect(try await store.usage(of: "acme")?.calls == .init(used: 3, quota: 3))
            // Refused calls are not counted. A second later, calls are accepted again.
            try await queue.run("update pushq.call set called_at = now() - interval '1 second'")
            #expect(try await refusal(store, calls[3]) == nil)
        }
    }

    @Test func `of calls lets a read-only transaction read, and counts nothing of it`() async throws {
        try await withQueue { _, queue, _ in
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
                try await queue.run("begin read only; select count(*) from pushq.\(call); commit")
            }
            #expect(try await queue.number("select count(*) from pushq.call") == 0)
            try await queue.run("insert into pushq.call (tenant_id) select id from pushq.tenant")
            try await queue.run("update pushq.call set called_at = now() + interval '1 hour'; begin read only")
            let error = await #expect(throws: PostgresError.self) {
                try await queue.run("select pushq.feedback_after('\(QueueFixture.name)')")
            }
            #expect(error?.description.contains("has reached its limit of 1 calls a second") == true)
        }
    }

    @Test(arguments: ["", "setseed(0.5), "])
    func `of many calls a second is kept by chance, which the caller cannot choose`(first: String) async throws {
        try await withQueue { _, queue, _ in
            try await set(queue.connection) { $0.calls = .limit(1000) }
            // All calls happen in the same second: the table's time is in the future.
            try await queue.run("alter table pushq.call alter called_at set default now() + interval '1 hour'")
            let accepted = try await queue.number(
                """
                select count(*)
                from generate_series(1, 3000) i
                where public.attempt(
                  format('select \(first)pushq.unregister_device(%L, %L)', '\(QueueFixture.name)', 'ab')) is null
                """)
            // Fifty rows of twenty calls each: one standard deviation is a seventh.
            #expect((500...2000).contains(accepted), "\(accepted)")
        }
    }
}
