import Foundation
import LocalStack
import PostgresStore
import QueueCore
import TestSupport
import Transport

/// Measures how long the operators' dashboard and a worker's metrics take to answer, with 10,000 queues and with a
/// backlog and a history that SQL has made.
struct Pages {
    private static let (queues, campaigns) = (10_000, 50_000)
    /// Shared answers are at most a second old.
    private static let pause = Duration.milliseconds(1100)
    private static let runs = 10
    private static let readToken = "a token of the benchmark to read"
    private static let queue = "t1/com.t1/production"

    /// - Parameter waiting: the number of waiting jobs. There are a tenth as many devices and results.
    static func measure(waiting: Int) async throws {
        let stack = try await BenchStack(latency: .zero)
        try await stack.withStore { store in
            try await seed(store, waiting: waiting)
        }
        print("\(queues) queues, \(waiting) jobs waiting, \(campaigns) campaigns, \(waiting / 10) results")
        _ = try stack.startWorker(["--metrics", "unix:\(stack.path("metrics"))"])
        try stack.startDashboard(at: "unix:\(stack.path("page"))", readToken: readToken)
        let (page, metrics) = (
            ListenAddress.unix(path: stack.path("page")), ListenAddress.unix(path: stack.path("metrics"))
        )
        try await wait(for: "pushq_build_info", in: "/metrics", at: metrics, stack)
        try await wait(for: " 200 ", in: "/", at: page, stack)
        for path in [
            "overview", "overview?tenant=t77", "overview?matching=t99", "campaigns", "campaigns?queue=\(queue)",
            "campaign?queue=\(queue)&key=2", "schedules?queue=\(queue)", "failed", "failed?queue=\(queue)",
            "failed?reason=NoAnswer", "credentials", "credentials?matching=t99/",
            "audit",
        ] {
            try await time("/api/\(path)", at: page)
        }
        for path in ["/metrics", "/healthz", "/readyz"] { try await time(path, at: metrics) }
        await stack.end()
    }

    private static func get(_ path: String) -> String {
        "GET \(path) HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \(readToken)\r\nConnection: close\r\n\r\n"
    }

    private static func wait(
        for text: String, in path: String, at place: ListenAddress, _ stack: BenchStack
    ) async throws {
        let deadline = ContinuousClock.now + .seconds(120)
        while !(await PlainClient.exchange(get(path), with: place)).contains(text) {
            guard ContinuousClock.now < deadline else { throw BenchError.tooLate(stack.workerLog()) }
            try await Task.sleep(for: .milliseconds(100))
        }
    }

    private static func time(_ path: String, at place: ListenAddress) async throws {
        var taken: [Double] = []
        var bytes = 0
        for _ in 0..<runs {
            try await Task.sleep(for: pause)
            let start = ContinuousClock.now
            let answer = try PlainClient.parse(await PlainClient.exchange(get(path), with: place))
            taken.append(start.duration(to: .now) / .milliseconds(1))
            // `/readyz` fails, because a worker without a credential is not ready.
            guard answer.status == 200 || path == "/readyz" else {
                throw BenchError.tooLate("\(path) answered with \(answer.status): \(answer.body)")
            }
            bytes = answer.body.utf8.count
        }
        taken.sort()
        let text = { (value: Double) in value.formatted(.number.precision(.fractionLength(1))) }
        print("\(path): \(text(taken[runs / 2])) ms, at the most \(text(taken[runs - 1])) ms, \(bytes) bytes")
    }

    private static func seed(_ store: PostgresConnection, waiting: Int) async throws {
        let script = """
            insert into pushq.tenant (name) select 't' || i from generate_series(1, \(queues)) i;
            insert into pushq.app (tenant_id, bundle_id) select id, 'com.' || name from pushq.tenant;
            insert into pushq.queue (tenant_id, app_id, environment) select tenant_id, id, 'production' from pushq.app;
            insert into pushq.rate_limit (tenant_id, queue_id, rate, burst) select tenant_id, id, 500, 500 from pushq.queue;
            insert into pushq.device (queue_id, token)
            select 1 + i % \(queues), sha256(int8send(i)) from generate_series(1, \(waiting / 10)) i;
            insert into pushq.message (queue_id, id, root_id, payload, push_type)
            select id, 1000000000000, 1, '{"aps":{"alert":"x"}}', 'alert' from pushq.queue;
            insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, root_id, body_day, recipient_count)
            select 1 + i % \(queues), 2000000000000 + i, 1 + i % 2, now(), now() + interval '1 day', 1000000000000, 1,
                   pushq.today(), 1
            from generate_series(1, \(waiting)) i;
            insert into pushq.result (day, queue_id, job_id, root_id, body_day, message_id, lane, attempt, ended_at, outcomes,
                                      delivered, rejected, failed, suppressed, expired, cancelled, unknown, retried)
            select pushq.today(), 1 + i % \(queues), i, i % \(campaigns), pushq.today(), 0, 1, 1, now(),
                   case when i % 100 = 0 then '\\x81'::bytea else '\\x01' end, (i % 100 > 0)::int, 0, (i % 100 = 0)::int, 0, 0,
                   0, 0, 0
            from generate_series(1, \(waiting / 10)) i;
            insert into pushq.campaign (queue_id, id, key, digest, message_id)
            select i % \(queues) + 1, i, (i / \(queues) + 1)::text, '', 1000000000000
            from generate_series(0, \(campaigns) - 1) i where i > 0;
            insert into pushq.campaign_tally (queue_id, campaign_id, message_id)
            select queue_id, id, message_id from pushq.campaign;
            insert into pushq.fan_out (queue_id, campaign_id, message_id, start_at, send_by, at_most_once, lane, last_device_id)
            select queue_id, id, message_id, now(), now() + interval '1 day', false, 2, 1000000000000 from pushq.campaign;
            insert into pushq.credential (tenant_id, name, kind, environments, sealed, team_id, key_id)
            select id, 'main', 'token', '{production,sandbox}', '\\x00', 'TEAM123456', 'ABC123DEFG' from pushq.tenant;
            """
        try await store.runScript(script, within: .seconds(3600))
        try await store.runScript("vacuum analyze", within: .seconds(3600))
    }
}
