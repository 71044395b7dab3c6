import Foundation
import PostgresStore
import QueueCore
import Transport

/// Measures single pushes of one tenant and urgent pushes of another, from commit to arrival. One run measures them
/// while nothing else is sent, and while the other tenant sends a campaign in one queue or in many.
struct Fairness {
    private static let pushes = 300
    private static let single = QueueName(tenant: "single", app: "com.single", environment: .production)

    /// The other tenant's queues.
    private let busy: [QueueName]
    private let rate: Int?
    private let stack: BenchStack

    /// - Parameters:
    ///   - devices: the devices of the tenant that sends the campaign, in all its queues together.
    ///   - queues: the number of that tenant's queues.
    ///   - rate: the rate of all its campaigns together, in recipients per second; nil for the maximum that the machine
    ///     can send. The simulator is then at its limit, too, and pushes wait there.
    static func measure(devices: Int, queues: Int, rate: Int?) async throws {
        let busy = (1...queues).map { QueueName(tenant: "busy", app: "com.busy\($0)", environment: .production) }
        let stack = try await BenchStack(latency: .milliseconds(20))
        let bench = Fairness(busy: busy, rate: rate, stack: stack)
        try await stack.makeQueue(single, devices: 1)
        for queue in busy { try await stack.makeQueue(queue, devices: devices / queues) }
        try stack.startWorker()
        let roots = try await stack.loop.run { [address = stack.address] actor in
            try await bench.send(on: actor, over: address)
        }
        let arrivals = try await stack.firstArrivals()
        await stack.end()
        print(
            "a tenant's \(devices) recipients in \(queues) queues, \(rate.map { "\($0) per second" } ?? "at full speed"):"
        )
        for (name, pushes) in roots {
            let latencies = Probe.latencies(of: pushes, arrivals)
            let figures = Probe.figures([0.5, 0.99], of: latencies)
            print("\(name): \(latencies.count) pushes, commit to arrival in ms: p50 \(figures[0]), p99 \(figures[1])")
        }
    }

    private func send(
        on actor: isolated LoopActor, over address: DatabaseAddress
    ) async throws -> [(name: String, pushes: [Probe.Push])] {
        let store = try await PostgresConnection.connect(to: address, as: "bench", on: actor.loop)
        defer { store.close() }
        // The first pushes find no connection to APNs yet, and are not counted.
        _ = try await both(1, pause: .seconds(2), store)
        let idle = try await both(Self.pushes, pause: .milliseconds(60), store)
        let campaign = Statement(
            "campaign", #"select pushq.start_campaign($1, 'c', '{"aps":{"alert":"x"}}', max_rate => $2)"#)
        for queue in busy {
            let ofQueue = rate.map { Double($0) / Double(busy.count) }
            _ = try await store.execute(campaign, [.text("\(queue)"), .float8(ofQueue)])
        }
        try await Task.sleep(for: .seconds(1))
        let loaded = try await both(Self.pushes, pause: .milliseconds(5), store)
        let left = try await store.execute(
            Statement("left", "select count(*) as campaigns from pushq.campaign_progress where not finished"))
        print("\(left[0].int8("campaigns")) of \(busy.count) campaigns were under way still at the end")
        try await Task.sleep(for: .seconds(2))
        var result: [(name: String, pushes: [Probe.Push])] = []
        for (name, roots) in [
            ("another tenant's, idle", idle.single), ("another tenant's, loaded", loaded.single),
            ("its own urgent ones, idle", idle.urgent), ("its own urgent ones, loaded", loaded.urgent),
        ] {
            result.append((name, try await Probe.pushes(of: roots, in: store)))
        }
        return result
    }

    /// Sends pushes of both kinds alternately, one at a time.
    private func both(
        _ count: Int, pause: Duration, _ store: PostgresConnection, isolation: isolated (any Actor)? = #isolation
    ) async throws -> (single: [Int64], urgent: [Int64]) {
        let urgentProbe = Probe(queue: busy[0], isUrgent: true)
        var (single, urgent): ([Int64], [Int64]) = ([], [])
        for _ in 0..<count {
            single.append(try await Probe(queue: Self.single).send(with: store))
            try await Task.sleep(for: pause)
            urgent.append(try await urgentProbe.send(with: store))
            try await Task.sleep(for: pause)
        }
        return (single, urgent)
    }
}
