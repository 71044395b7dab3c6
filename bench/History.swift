import Foundation
import LocalStack
import PostgresStore
import QueueCore
import Transport

/// Measures the cost of a long history: campaigns of one queue with one worker, before and after the queue gets
/// `outcomes` outcomes of the last days.
enum History {
    private static let queue = QueueName(tenant: "busy", app: "com.busy", environment: .production)
    private static let devices = 300_000
    /// The number of recipients in a job.
    private static let jobSize = 500

    static func measure(outcomes: Int) async throws {
        let stack = try await BenchStack(latency: .milliseconds(20))
        try await stack.makeQueue(queue, devices: devices)
        try stack.startWorker()
        // The first campaign finds nothing in memory, and no statistics.
        for key in ["first", "before 1", "before 2"] { try await campaign(key, in: stack) }
        try await stack.withStore { store in
            try await store.runScript(
                """
                do $$ begin
                  while pushq.make_partition(pushq.today() - 7, 7) is not null loop end loop;
                end $$;
                insert into pushq.body (day, queue_id, job_id, root_id, first_device_id, last_device_id, device_ids)
                select pushq.today() - i % 8, q.id, i, i / 1000, 1, \(jobSize), d.ids
                from pushq.queue q, generate_series(1, \(outcomes / jobSize)) i,
                     (select array_agg(n) as ids from generate_series(1, \(jobSize)) n) d;
                insert into pushq.result (
                  day, queue_id, job_id, root_id, body_day, message_id, lane, attempt, ended_at, outcomes, delivered, rejected,
                  failed, suppressed, expired, cancelled, unknown, retried)
                select pushq.today() - i % 8, q.id, i, i / 1000, pushq.today() - i % 8, 0, 1, 1, now() - i % 8 * interval '1 day',
                       decode(repeat('01', \(jobSize)), 'hex'), \(jobSize), 0, 0, 0, 0, 0, 0, 0
                from pushq.queue q, generate_series(1, \(outcomes / jobSize)) i;
                """, within: .seconds(3600))
            try await store.runScript("vacuum analyze", within: .seconds(3600))
            let size = Statement("size", "select pg_size_pretty(pg_database_size(current_database())) as size")
            let text = try await store.execute(size).one().text("size")
            print("\(outcomes) outcomes of eight days; the database has \(text)")
        }
        for key in ["after 1", "after 2", "after 3"] { try await campaign(key, in: stack) }
        await stack.end()
    }

    /// Sends a campaign, and prints its time and CPU time.
    private static func campaign(_ key: String, in stack: BenchStack) async throws {
        let (begun, cpu) = (ContinuousClock.now, stack.postgres.backendCPU())
        try await stack.withStore { store in
            let start = Statement("start", #"select pushq.start_campaign($1, $2, '{"aps":{"alert":"x"}}')"#)
            _ = try await store.execute(start, [.text("\(queue)"), .text(key)])
            let ended = Statement("ended", "select delivered from pushq.campaign_progress where key = $1")
            while try await store.execute(ended, [.text(key)]).one().int8("delivered") < devices {
                try await Task.sleep(for: .milliseconds(50))
            }
        }
        let seconds = begun.duration(to: .now) / .seconds(1)
        let each = (stack.postgres.backendCPU() - cpu) / .microseconds(devices)
        print(
            "\(key): \(seconds.formatted(.number.precision(.fractionLength(2)))) s, "
                + "\(each.formatted(.number.precision(.fractionLength(2)))) µs of PostgreSQL's CPU for each recipient")
    }
}
