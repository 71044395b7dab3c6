import Foundation
import PostgresStore
import QueueCore
import Transport

/// Measures the statements that workers run all the time, and those that an operator waits for, with a backlog and a
/// history that SQL has made. Each has a limit. A statement whose cost grows with the tables exceeds the limit on any
/// machine.
struct StatementCosts {
    /// The numbers of rows for one unit of scale.
    private static let (queues, devices, waiting, results, reports, campaigns) =
        (1000, 200_000, 100_000, 200_000, 50_000, 5000)
    private static let workerID: Int64 = 1

    private let store: PostgresConnection
    private let queue: QueueName
    private let queueID: Int32

    /// - Parameter scale: multiplies all these numbers.
    static func measure(scale: Int) async throws {
        let stack = try await BenchStack(latency: .zero)
        let name = QueueName(tenant: "t1", app: "com.t1", environment: .production)
        try await stack.withStore { store in
            _ = try await Migrator(store).run()
            try await seed(store, scale: scale)
            let queueID = try await store.execute(Statement("queue", "select pushq.queue_id('\(name)')"))[0].int4(
                "queue_id")
            let bench = StatementCosts(store: store, queue: name, queueID: queueID)
            print(
                """
                \(queues * scale) queues, \(devices * scale) devices, \(waiting * scale) jobs waiting, \(results * scale) results and \
                \(reports * scale) reports of eight days, \(campaigns * scale) campaigns
                """)
            try await bench.measureWorkers()
            try await bench.measureOperators()
        }
        await stack.end()
    }

    // MARK: What there is

    private static func seed(_ store: PostgresConnection, scale: Int) async throws {
        let script = """
            do $$ begin
              while pushq.make_partition(pushq.today() - 7, 7) is not null loop end loop;
            end $$;
            insert into pushq.tenant (name) select 't' || i from generate_series(1, \(queues * scale)) i;
            insert into pushq.app (tenant_id, bundle_id) select id, 'com.' || name from pushq.tenant;
            insert into pushq.queue (tenant_id, app_id, environment) select tenant_id, id, 'production' from pushq.app;
            insert into pushq.device (queue_id, token)
            select 1 + i % 10, sha256(int8send(i)) from generate_series(1, \(devices * scale)) i;
            insert into pushq.message (queue_id, id, root_id, payload, push_type)
            select id, 1000000000000, 1, '{"aps":{"alert":"x"}}', 'alert' from pushq.queue;
            insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, root_id, body_day, recipient_count)
            select 1 + i % (select max(id) from pushq.queue), 2000000000000 + i, 1, now(), now() + interval '1 day', 1000000000000, 1,
                   pushq.today(), 1
            from generate_series(1, \(waiting * scale)) i;
            insert into pushq.body (day, queue_id, job_id, root_id, first_device_id, last_device_id, device_ids)
            select body_day, queue_id, id, 1, 1, 1, '{1}' from pushq.job;
            insert into pushq.result (day, queue_id, job_id, root_id, body_day, message_id, lane, attempt, ended_at, outcomes,
                                      delivered, rejected, failed, suppressed, expired, cancelled, unknown, retried)
            select pushq.today() - i % 8, 1 + i % 10, i, i, pushq.today() - i % 8, 0, 1, 1, now() - i % 8 * interval '1 day', '\\x01',
                   1, 0, 0, 0, 0, 0, 0, 0
            from generate_series(1, \(results * scale)) i;
            insert into pushq.feedback (day, queue_id, id, device_id, reason, reported_at, recorded_at, verdict)
            select pushq.today() - i % 8, 1 + i % 10, i, i, 1, now(), now(), 'kept' from generate_series(1, \(reports * scale)) i;
            insert into pushq.campaign (queue_id, id, key, digest, message_id)
            select 1 + i % 500, i, i::text, '', 1000000000000 from generate_series(1, \(campaigns * scale)) i;
            insert into pushq.campaign_tally (queue_id, campaign_id, message_id) select queue_id, id, message_id from pushq.campaign;
            insert into pushq.fan_out (queue_id, campaign_id, message_id, start_at, send_by, at_most_once, lane, last_device_id)
            select queue_id, id, message_id, now(), now() + interval '1 day', false, 2, 1000000000000 from pushq.campaign;
            """
        try await store.runScript(script, within: .seconds(3600))
        try await store.runScript("vacuum analyze", within: .seconds(3600))
    }

    // MARK: What is measured

    private func measureWorkers() async throws {
        try await time("look for work, 500 lanes", limit: 100) {
            _ = try await store.ready(pairs: 500, countingTo: 400)
        }
        try await time("claim 20 singles and give them back", limit: 100) {
            let jobs = try await store.claim(
                [ClaimQuota(queueID: queueID, lane: .normal, jobs: 20)], workerID: Self.workerID, lease: .seconds(15),
                atMostOnceWindow: 100)
            guard jobs.count == 20 else { throw BenchError.tooLate("a claim of 20 got \(jobs.count)") }
            let progress = jobs.map {
                LeaseProgress(key: $0.key, watermark: 0, outcomes: [UInt8](repeating: 0, count: $0.deviceIDs.count))
            }
            try await store.yield(progress.map { YieldedLease(progress: $0) }, workerID: Self.workerID)
        }
        try await time("fan-out step of 20,000 devices", limit: 500, runs: 5) {
            let first = try await store.execute(
                Statement("first", "select min(campaign_id) from pushq.fan_out where queue_id = $1 and not done"),
                [.int4(queueID)])
            _ = try await store.fanOutStep(
                queueID: queueID, campaignID: first[0].int8("min"), jobLimit: 40, scanLimit: 20_000)
        }
        try await time("judge suspects, five of them", limit: 100) {
            try await store.runScript(
                """
                insert into pushq.feedback (queue_id, device_id, reason, reported_at, verdict)
                select \(queueID), i, 1, now(), 'suspect' from generate_series(1, 5) i
                """)
            _ = try await store.judgeSuspects()
        }
        try await time("send a single push", limit: 100) {
            _ = try await store.send(
                MessageDraft(payload: #"{"aps":{"alert":"x"}}"#), to: .tokens([DeviceToken(hex: "00ff")]),
                ofQueue: queue, key: nil)
        }
        try await time("upkeep with nothing to do", limit: 200) {
            _ = try await store.maintainPartitions()
            try await PostgresConnection.forget { () async throws(PostgresError) in self.store }
        }
    }

    private func measureOperators() async throws {
        for (what, name) in [("all queues", nil), ("one queue", queue)] as [(String, QueueName?)] {
            try await time("job list, \(what)", limit: 100) { _ = try await store.jobs(ofQueue: name, limit: 50) }
            try await time("campaign list, \(what)", limit: 100) {
                _ = try await store.campaigns(ofQueue: name, limit: 50)
            }
        }
        try await time("feedback list", limit: 100) { _ = try await store.feedback(ofQueue: queue, limit: 50) }
    }

    /// Prints the median and the longest of several runs; ends the program if the median is above `limit`, in
    /// milliseconds.
    private func time(_ what: String, limit: Double, runs: Int = 20, _ body: () async throws -> Void) async throws {
        var taken: [Double] = []
        for _ in 0..<runs {
            let start = ContinuousClock.now
            try await body()
            taken.append(start.duration(to: .now) / .milliseconds(1))
        }
        taken.sort()
        let median = Bench.percentile(0.5, of: taken)
        let text = { (value: Double) in value.formatted(.number.precision(.fractionLength(1))) }
        print("\(what): \(text(median)) ms, at the most \(text(taken[taken.count - 1])) ms (limit \(text(limit)))")
        guard median <= limit else { throw BenchError.overLimit(what) }
    }
}
