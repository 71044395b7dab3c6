import LocalStack
import PostgresStore
import TestSupport

/// More work at a time than a worker can hold, and a database that has forgotten its sleepers.
extension Scenario {
    static var pressure: [Scenario] {
        [
            Scenario(name: "many-singles", adjust: slowAnswers, expectation: .clean) { trial in
                let count = trial.isShort ? 60_000 : 200_000
                try await enqueueSingles(count, trial)
                for _ in 0..<2 { try trial.rig.startWorker() }
                let ended = "select sum(delivered) from pushq.result"
                try await wait(
                    for: "the end of \(count) single pushes", within: .seconds(300),
                    { try await trial.rig.number(ended) }, until: { $0 >= count })
            },
            Scenario(name: "idle-postgres-crashes", expectation: .clean) { trial in
                try trial.rig.startWorker()
                for _ in 0..<(trial.isShort ? 2 : 5) {
                    try await wait(for: "the worker to sleep", within: .seconds(60)) {
                        try await trial.rig.number("select count(*) from pushq.sleeper") == 1
                    }
                    try await trial.rig.postgres.stop(.immediate)
                    try await trial.rig.postgres.start()
                    trial.faultIsOver()
                }
                try await wait(for: "the worker to sleep again", within: .seconds(60)) {
                    try await trial.rig.number("select count(*) from pushq.sleeper") == 1
                }
                try await trial.startCampaign()
            },
        ]
    }

    /// Lets each answer take a second, over connections that allow many requests at a time. Twenty queues share the
    /// work.
    @Sendable private static func slowAnswers(_ settings: inout Rig.Settings, isShort: Bool) {
        settings.rules = #"{"latency_ms": [1000, 1000]}"#
        settings.simulatorArguments = ["--streams", "1000"]
        settings.sql = moreQueues
    }

    /// Creates nineteen more apps of the same tenant, with the same credential.
    private static let moreQueues = """
        insert into pushq.app (tenant_id, bundle_id)
        select q.tenant_id, 'com.acme.n' || i from pushq.queue q, generate_series(1, 19) i where q.id = $queue;
        insert into pushq.queue (tenant_id, app_id, environment, credential_id)
        select q.tenant_id, a.id, q.environment, q.credential_id
        from pushq.queue q join pushq.app a on a.tenant_id = q.tenant_id and a.id <> q.app_id where q.id = $queue
        """

    /// Creates jobs of one recipient each in all queues, as `pushq.send` would for this many calls.
    private static func enqueueSingles(_ count: Int, _ trial: Trial) async throws {
        try await trial.rig.run(
            """
            create temporary table made as
            select q.id as queue, nextval('pushq.id') as device, nextval('pushq.id') as job, sha256(int8send(i)) as token
            from pushq.queue q, generate_series(1000000, 999999 + \(count / 20)) i;
            insert into pushq.device (queue_id, id, token) select queue, device, token from made;
            insert into pushq.message (queue_id, id, root_id, payload, push_type)
            select queue, job, job, '{"aps":{"alert":"single"}}', 'alert' from made;
            insert into pushq.body (day, queue_id, job_id, root_id, first_device_id, last_device_id, device_ids)
            select pushq.today(), queue, job, job, device, device, array[device] from made;
            insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, root_id, body_day, recipient_count)
            select queue, job, 1, now(), now() + interval '1 day', job, job, pushq.today(), 1 from made;
            drop table made
            """)
    }
}
