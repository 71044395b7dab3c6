import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@testable import Workers

@Suite(.timeLimit(.minutes(10))) struct `Rescuing leases that ran out` {
    /// Makes a lost worker hold the lease of the only job.
    private static let orphan = """
        with waiting as (delete from pushq.job returning *)
        insert into pushq.lease (queue_id, job_id, worker_id, epoch, deadline, watermark, outcomes, lane, run_at, send_by, message_id,
                                 campaign_id, root_id, body_day, recipient_count, attempt, losses, at_most_once)
        select queue_id, id, 4711, epoch + 1, now() - interval '1 minute', 0, decode('00', 'hex'), lane, run_at, send_by, message_id,
               campaign_id, root_id, body_day, recipient_count, attempt, losses, at_most_once
        from waiting
        """

    @Test func `begins two thirds of a lease after PostgreSQL is back, so that holders can renew theirs first`()
        async throws
    {
        let lease = Duration.seconds(9)
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 1)
            try await fixture.withEngine {
                $0.lease = lease
                $0.rescueGrace = .milliseconds(100)
            } _: { _ in
                try await eventually("the worker runs") { fixture.events.contains("started") }
                let cut = ContinuousClock.now
                try await fixture.connection.runScript(
                    """
                    select pg_terminate_backend(pid) from pg_stat_activity
                    where datname = current_database() and application_name like 'pushq work%';
                    select pushq.send('\(queue)', '{"aps":{"alert":"x"}}', tokens => array[repeat('ab', 32)],
                                      run_at => now() + interval '1 hour');
                    \(Self.orphan)
                    """)
                try await eventually("the connection is back") { fixture.events.contains("is back") }
                try await eventually("the lease is rescued", within: .seconds(60)) {
                    try await fixture.number("select count(*) from pushq.job where losses = 1") == 1
                }
                #expect(cut.duration(to: .now) >= lease * 2 / 3)
            }
        }
    }

    @Test func `begins no sooner after the start, when PostgreSQL may have been away until a moment ago`() async throws
    {
        let lease = Duration.seconds(6)
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 1)
            try await fixture.connection.runScript(
                """
                select pushq.send('\(queue)', '{"aps":{"alert":"x"}}', tokens => array[repeat('ab', 32)],
                                  run_at => now() + interval '1 hour');
                \(Self.orphan)
                """)
            let begun = ContinuousClock.now
            try await fixture.withEngine {
                $0.lease = lease
                $0.rescueGrace = .milliseconds(100)
            } _: { _ in
                try await eventually("the lease is rescued", within: .seconds(60)) {
                    try await fixture.number("select count(*) from pushq.job where losses = 1") == 1
                }
                #expect(begun.duration(to: .now) >= lease * 2 / 3)
            }
        }
    }

    @Test func `begins no sooner after PostgreSQL has refused it, because it refused the holders, too`() async throws {
        let lease = Duration.seconds(6)
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 1)
            try await fixture.connection.runScript(
                """
                select pushq.send('\(queue)', '{"aps":{"alert":"x"}}', tokens => array[repeat('ab', 32)],
                                  run_at => now() + interval '1 hour');
                \(Self.orphan);
                create sequence public.tries;
                create function public.refuse() returns trigger language plpgsql security definer as $$
                begin perform nextval('public.tries'); raise exception 'no'; end $$;
                create trigger refusal before delete on pushq.lease for each row execute function public.refuse()
                """)
            try await fixture.withEngine {
                $0.lease = lease
                $0.rescueGrace = .milliseconds(100)
            } _: { _ in
                try await eventually("a refusal", within: .seconds(60)) {
                    try await fixture.number("select count(*) from public.tries where is_called") == 1
                }
                // The next try comes four to six seconds after the refusal.
                try await Task.sleep(for: .seconds(3))
                try await fixture.connection.runScript("drop trigger refusal on pushq.lease")
                let accepted = ContinuousClock.now
                try await eventually("the lease is rescued", within: .seconds(60)) {
                    try await fixture.number("select count(*) from pushq.job where losses = 1") == 1
                }
                #expect(accepted.duration(to: .now) >= lease * 2 / 3)
            }
        }
    }

    @Test func `goes on until none is left, however many a worker held`() async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue()
            try await fixture.connection.runScript(
                """
                update pushq.queue set paused_at = now(), paused_reason = 'test';
                select pushq.send('\(queue)', '{"aps":{"alert":"x"}}', array[encode(int8send(i), 'hex')])
                from generate_series(1, 5200) i;
                \(Self.orphan)
                """, within: .seconds(60))
            try await fixture.withEngine {
                $0.rescueGrace = .milliseconds(100)
            } _: { _ in
                try await eventually("the first are back", within: .seconds(30)) {
                    fixture.events.contains("put back 500 jobs")
                }
                let stopwatch = Stopwatch()
                try await eventually("all are back", within: .seconds(60)) {
                    try await fixture.number("select count(*) from pushq.job where losses = 1") == 5200
                }
                // With one poll of 500 leases every two seconds, it would take twenty seconds.
                #expect(stopwatch.quietTime < .seconds(15))
            }
        }
    }
}
