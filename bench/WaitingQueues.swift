import APNsSimulator
import Foundation
import LocalStack
import PostgresStore
import QueueCore
import Transport

/// Measures what thousands of queues that wait for a connection cost a worker that sends for other tenants: its CPU
/// while it sends a campaign at a steady rate, without them, with a few of them, and with all.
///
/// Each waiting queue that gets its turn costs a connection with a certificate of its own, however many wait. A few
/// queues keep the connections as busy as all of them, so the difference is what waiting itself costs.
struct WaitingQueues {
    private static let rate = 5000.0
    private static let time = Duration.seconds(20)
    /// The queues of further tenants, none of which had work before.
    private static let newcomers = (1...40).map { number in
        QueueName(tenant: "new\(number)", app: "com.new\(number)", environment: .production)
    }
    private static let busy = QueueName(tenant: "busy", app: "com.busy", environment: .production)

    /// - Parameters:
    ///   - queues: the number of waiting queues of another tenant, each with a push and its own certificate.
    ///   - connections: the number of that tenant's connections. Each passes to another queue after it was idle for a
    ///     second.
    static func measure(queues: Int, connections: Int) async throws {
        let names = crowd(of: queues)
        let (stack, worker) = try await startAlone(beside: names + newcomers, connections: connections)
        // Half as many again as get their turn meanwhile.
        let few = min(queues, Int(Double(connections) * (time / .seconds(1)) * 1.5))
        try await ManyQueues.enqueue(Array(names.prefix(few)), in: stack)
        print(
            "while \(few) queues of another tenant share \(connections) connections: \(try await share(of: worker, stack))"
        )
        try await ManyQueues.enqueue(Array(names.dropFirst(few)), in: stack)
        print(
            """
            while \(queues) queues of another tenant get work that share \(connections) connections: \
            \(try await share(of: worker, stack))
            """)
        print("while they wait for these: \(try await share(of: worker, stack))")
        let pushes = try await sendToNewcomers(in: stack)
        let latencies = Probe.latencies(of: pushes, try await stack.firstArrivals())
        let figures = Probe.figures([0.5, 0.99], of: latencies)
        print(
            """
            the first push to each of \(newcomers.count) other queues meanwhile, from commit to arrival: \(latencies.count) \
            arrived, p50 \(figures[0]) ms, p99 \(figures[1]) ms
            """)
        await stack.end()
    }

    /// Returns queues of one other tenant.
    static func crowd(of queues: Int) -> [QueueName] {
        (1...queues).map { QueueName(tenant: "crowd", app: "com.t\($0)", environment: .production) }
    }

    /// Lets a worker send only the campaign, beside queues that have nothing to send yet, and prints its cost.
    /// - Parameter connections: the number of the other tenant's connections.
    static func startAlone(beside others: [QueueName], connections: Int) async throws -> (BenchStack, ChildProcess) {
        let stack = try await BenchStack(latency: .milliseconds(5))
        try await stack.makeQueue(busy, devices: Int(rate * 5 * (time / .seconds(1))))
        try await stack.makeQueues(others)
        try await stack.withStore { store in
            try await store.setRate(rate, burst: nil, of: busy)
            try await store.runScript(
                "update pushq.tenant set connections = \(connections) where name = 'crowd'", within: .seconds(10))
            let start = Statement("start", #"select pushq.start_campaign($1, 'c', '{"aps":{"alert":"x"}}')"#)
            _ = try await store.execute(start, [.text("\(busy)")])
        }
        let worker = try stack.startWorker()
        // The worker connects and reaches its rate.
        try await Task.sleep(for: .seconds(3))
        print("alone: \(try await share(of: worker, stack))")
        return (stack, worker)
    }

    /// Sends a push to each of the newcomers, one after the other.
    private static func sendToNewcomers(in stack: BenchStack) async throws -> [Probe.Push] {
        try await stack.loop.run { [address = stack.address] actor in
            let store = try await PostgresConnection.connect(to: address, as: "newcomers", on: actor.loop)
            defer { store.close() }
            let push = Statement(
                "push", #"select pushq.send($1, '{"aps":{"alert":"x"}}', array[repeat('00ff', 16)])"#)
            var roots: [Int64] = []
            for name in newcomers {
                roots.append(try await store.execute(push, [.text("\(name)")])[0].int8("send"))
                try await Task.sleep(for: .milliseconds(230))
            }
            // The last pushes arrive.
            try await Task.sleep(for: .seconds(2))
            return try await Probe.pushes(of: roots, in: store)
        }
    }

    /// Measures for `time`. Returns how many pushes arrived a second, and the part of a core that the worker and
    /// PostgreSQL used.
    static func share(of worker: ChildProcess, _ stack: BenchStack) async throws -> String {
        let cpu = { ProcessTimes(of: worker.processID)?.cpu ?? .zero }
        let (before, server) = (cpu(), stack.postgres.backendCPU())
        let (begun, sent) = (ContinuousClock.now, await stack.simulator.snapshot().arrived)
        try await Task.sleep(for: time)
        let passed = begun.duration(to: .now)
        let parts = [cpu() - before, stack.postgres.backendCPU() - server].map { percent($0 / passed) }
        let perSecond = Double(await stack.simulator.snapshot().arrived - sent) / (passed / .seconds(1))
        return "\(Int(perSecond)) pushes a second, \(parts[0]) % of a core, and PostgreSQL \(parts[1]) %"
    }

    private static func percent(_ share: Double) -> String {
        (share * 100).formatted(.number.precision(.fractionLength(1)))
    }
}
