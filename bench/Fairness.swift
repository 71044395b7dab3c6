import Foundation
import PostgresStore
import QueueCore
import Transport

/// Single pushes of one tenant, and urgent ones of another, while nothing else is sent and while a campaign of that
/// other tenant is under way, in one queue or in many: from commit to arrival, in one run.
struct Fairness {
    private static let pushes = 300
    private static let single = QueueName(tenant: "single", app: "com.single", environment: .production)

    /// The other tenant's queues.
    private let busy: [QueueName]
    private let stack: BenchStack

    /// - Parameters:
    ///   - devices: of the tenant whose campaign is under way, in all its queues together.
    ///   - queues: how many it has.
    static func measure(devices: Int, queues: Int) async throws {
        let busy = (1...queues).map { QueueName(tenant: "busy", app: "com.busy\($0)", environment: .production) }
        let stack = try await BenchStack(latency: .milliseconds(20))
        let bench = Fairness(busy: busy, stack: stack)
        try await stack.makeQueue(single, devices: 1)
        for queue in busy { try await stack.makeQueue(queue, devices: devices / queues) }
        try stack.startWorker()
        let roots = try await stack.loop.run { [address = stack.address] actor in
            try await bench.send(on: actor, over: address)
        }
        let arrivals = Dictionary(
            try await stack.arrivals().map { ($0.key.root, $0.value) }, uniquingKeysWith: { first, _ in first })
        await stack.end()
        print("a tenant's \(devices) recipients in \(queues) queues:")
        for (name, pushes) in roots { print("\(name): \(figures(of: pushes, arrivals))") }
    }

    private struct Push {
        let root: Int64
        let committed: Int
    }

    private static func figures(of pushes: [Push], _ arrivals: [Int64: Int]) -> String {
        let times = pushes.compactMap { push in arrivals[push.root].map { Double($0 - push.committed) / 1000 } }
            .sorted()
        let figures = [0.5, 0.99].map {
            Bench.percentile($0, of: times).formatted(.number.precision(.fractionLength(2)))
        }
        return "\(times.count) pushes, commit to arrival in ms: p50 \(figures[0]), p99 \(figures[1])"
    }

    private func send(
        on actor: isolated LoopActor, over address: DatabaseAddress
    ) async throws -> [(name: String, pushes: [Push])] {
        let store = try await PostgresConnection.connect(to: address, as: "bench", on: actor.loop)
        defer { store.close() }
        // The first ones find no connection to APNs yet, and are not counted.
        _ = try await both(1, pause: .seconds(2), store)
        let idle = try await both(Self.pushes, pause: .milliseconds(60), store)
        let campaign = Statement("campaign", #"select pushq.start_campaign($1, 'c', '{"aps":{"alert":"x"}}')"#)
        for queue in busy { _ = try await store.execute(campaign, [.text("\(queue)")]) }
        try await Task.sleep(for: .seconds(1))
        let loaded = try await both(Self.pushes, pause: .milliseconds(5), store)
        let left = try await store.execute(
            Statement("left", "select count(*) as campaigns from pushq.campaign_progress where not finished"))
        print("\(left[0].int8("campaigns")) of \(busy.count) campaigns were under way still at the end")
        try await Task.sleep(for: .seconds(2))
        var result: [(name: String, pushes: [Push])] = []
        for (name, roots) in [
            ("another tenant's, idle", idle.single), ("another tenant's, loaded", loaded.single),
            ("its own urgent ones, idle", idle.urgent), ("its own urgent ones, loaded", loaded.urgent),
        ] {
            result.append((name, try await pushes(of: roots, store)))
        }
        return result
    }

    /// Sends pushes of both kinds by turns, one at a time.
    private func both(
        _ count: Int, pause: Duration, _ store: PostgresConnection, isolation: isolated (any Actor)? = #isolation
    ) async throws -> (single: [Int64], urgent: [Int64]) {
        let push = Statement(
            "push",
            #"""
            select pushq.send($1, '{"aps":{"alert":"x"}}', array[(select encode(token, 'hex') from pushq.device
                              where queue_id = pushq.queue_id($1) limit 1)], urgent => $2)
            """#)
        var (single, urgent): ([Int64], [Int64]) = ([], [])
        for _ in 0..<count {
            single.append(try await store.execute(push, [.text("\(Self.single)"), .bool(false)])[0].int8("send"))
            try await Task.sleep(for: pause)
            urgent.append(try await store.execute(push, [.text("\(busy[0])"), .bool(true)])[0].int8("send"))
            try await Task.sleep(for: pause)
        }
        return (single, urgent)
    }

    private func pushes(
        of roots: [Int64], _ store: PostgresConnection, isolation: isolated (any Actor)? = #isolation
    ) async throws -> [Push] {
        let commits = Statement(
            "commits",
            """
            select root_id, (extract(epoch from pg_xact_commit_timestamp(xmin)) * 1000000)::int8 as time
            from pushq.body where root_id = any ($1)
            """)
        return try await store.execute(commits, [.int8Array(roots)]).map {
            Push(root: $0.int8("root_id"), committed: Int($0.int8("time")))
        }
    }
}
