import APNsSimulator
import Foundation
import LocalStack
import PostgresStore
import QueueCore
import Transport

/// Measures the gain from more connections, engines and workers: the pushes per second if APNs answers slowly, so that
/// the network limits a worker and not the CPU. It also measures how two engines share work that the CPU limits.
enum Scaling {
    private static let queue = QueueName(tenant: "busy", app: "com.busy", environment: .production)

    static func measure() async throws {
        print("one worker, 100 ms, 1,000 streams for each connection:")
        for connections in [1, 2, 4] {
            let most = connections * 1000 * 10
            let run = try await campaign(
                of: most * 8, latency: .milliseconds(100), streams: 1000, connections: connections, workers: [[]])
            print("  \(connections) connections: \(run.perSecond) of \(most) pushes a second, \(run.cpu) % of a core")
        }
        print("workers, 500 ms, 200 streams, a connection each:")
        for workers in [1, 2, 4, 8] {
            let most = workers * 200 * 2
            let run = try await campaign(
                of: most * 20, latency: .milliseconds(500), streams: 200, connections: 1,
                workers: Array(repeating: [], count: workers))
            print("  \(workers) workers: \(run.perSecond) of \(most) pushes a second; each ended \(run.shares)")
        }
        print("a backlog of 300,000, 20 ms, as fast as the CPU allows:")
        for (name, workers) in [
            ("one engine", [[]]), ("two engines of a process", [["--engines", "2"]]), ("two processes", [[], []]),
        ] {
            let run = try await campaign(
                of: 300_000, latency: .milliseconds(20), streams: 1000, connections: 4, workers: workers)
            print("  \(name): \(run.perSecond) pushes a second, \(run.cpu) % of a core; each ended \(run.shares)")
        }
    }

    private struct Run {
        /// Pushes per second, from a quarter of the pushes to three quarters of them.
        let perSecond: Int
        /// The CPU of all workers in that time.
        let cpu: Int
        /// The recipients of the jobs that each engine has ended.
        let shares: [Int]
    }

    private static func campaign(
        of devices: Int, latency: Duration, streams: Int, connections: Int, workers arguments: [[String]]
    ) async throws -> Run {
        let stack = try await BenchStack(latency: latency, streams: streams)
        try await stack.makeQueue(queue, devices: devices)
        try await stack.withStore { store in
            try await store.runScript("update pushq.queue set connections = \(connections)", within: .seconds(10))
            let start = Statement("start", #"select pushq.start_campaign($1, 'c', '{"aps":{"alert":"x"}}')"#)
            _ = try await store.execute(start, [.text("\(queue)")])
        }
        let workers = try arguments.map { try stack.startWorker($0) }
        let cpu = { workers.reduce(Duration.zero) { $0 + (ProcessTimes(of: $1.processID)?.cpu ?? .zero) } }
        let first = try await reach(devices / 4, in: stack)
        let before = cpu()
        let last = try await reach(devices * 3 / 4, in: stack)
        let passed = first.time.duration(to: last.time) / .seconds(1)
        let used = (cpu() - before) / .seconds(1)
        _ = try await reach(devices, in: stack)
        // The results of the pushes that have arrived are also written.
        let shares = try await stack.loop.run { [address = stack.address] actor in
            let store = try await PostgresConnection.connect(to: address, as: "shares", on: actor.loop)
            defer { store.close() }
            let left = Statement(
                "left", "select (select count(*) from pushq.job) + (select count(*) from pushq.lease) as n")
            while try await store.execute(left).one().int8("n") > 0 { try await Task.sleep(for: .milliseconds(200)) }
            let ended = Statement(
                "ended",
                """
                select array_agg(n order by n desc) as shares
                from (select sum(octet_length(outcomes))::bigint as n from pushq.result group by worker_id) s
                """)
            return try await store.execute(ended).one().int8Array("shares").map { Int($0) }
        }
        await stack.end()
        return Run(
            perSecond: Int(Double(last.arrived - first.arrived) / passed), cpu: Int(used / passed * 100), shares: shares
        )
    }

    /// Waits until `count` pushes have arrived.
    private static func reach(_ count: Int, in stack: BenchStack) async throws -> (
        time: ContinuousClock.Instant, arrived: Int
    ) {
        while true {
            let arrived = await stack.simulator.snapshot().arrived
            if arrived >= count { return (.now, arrived) }
            try await Task.sleep(for: .milliseconds(20))
        }
    }
}
