import Foundation
import PostgresStore
import QueueCore
import Transport

/// Measures one push at a time, from its commit by the server's commit timestamp to its arrival at the simulator.
enum SinglePushes {
    /// What another tenant sends meanwhile.
    enum Company {
        case nobody
        /// A campaign to this many devices.
        case campaign(Int)
        /// One send to this many devices, as urgent as the measured pushes.
        case urgent(Int)

        var count: Int {
            switch self {
            case .nobody: 0
            case .campaign(let count), .urgent(let count): count
            }
        }

        /// The statement that enqueues it for the queue `$1`.
        var call: String {
            switch self {
            case .nobody: "select $1"
            case .campaign: #"select pushq.start_campaign($1, 'c', '{"aps":{"alert":"x"}}')"#
            case .urgent:
                #"""
                select pushq.send($1, '{"aps":{"alert":"x"}}', urgent => true, tokens => array(
                  select encode(token, 'hex') from pushq.device where queue_id = pushq.queue_id($1)))
                """#
            }
        }
    }

    private static let count = 300
    private static let queue = QueueName(tenant: "single", app: "com.single", environment: .production)
    private static let neighbour = QueueName(tenant: "busy", app: "com.busy", environment: .production)

    /// Measures pushes beside the pushes of another tenant. If there are any, the measured pushes are urgent.
    static func measure(beside company: Company) async throws {
        let stack = try await BenchStack(latency: .milliseconds(20))
        try await stack.makeQueue(queue, devices: 1)
        if company.count > 0 { try await stack.makeQueue(neighbour, devices: company.count) }
        try stack.startWorker()
        let pushes = try await stack.loop.run { [address = stack.address] actor in
            try await send(on: actor, over: address, beside: company)
        }
        let arrivals = try await stack.firstArrivals()
        let latencies = Probe.latencies(of: pushes, arrivals)
        await stack.end()
        let figures = Probe.figures([0.5, 0.9, 0.99, 1], of: latencies)
        print(
            "\(latencies.count) pushes, commit to arrival in ms: p50 \(figures[0]), p90 \(figures[1]), p99 \(figures[2]), most \(figures[3])"
        )
    }

    private static func send(
        on actor: isolated LoopActor, over address: DatabaseAddress, beside company: Company
    ) async throws -> [Probe.Push] {
        let store = try await PostgresConnection.connect(to: address, as: "bench", on: actor.loop)
        defer { store.close() }
        let probe = Probe(queue: queue, isUrgent: company.count > 0)
        // The first push finds no connection to APNs yet, and is not counted.
        _ = try await probe.send(with: store)
        try await Task.sleep(for: .seconds(2))
        if company.count > 0 {
            _ = try await store.execute(
                Statement("company", company.call), [.text("\(neighbour)")], within: .seconds(120))
            try await Task.sleep(for: .milliseconds(500))
        }
        // The pause lets an idle worker fall asleep between two pushes. Beside a campaign it is shorter, since the
        // campaign has to last.
        let roots = try await probe.send(count, pause: .milliseconds(company.count > 0 ? 5 : 60), with: store)
        let left = try await store.execute(
            Statement("left", "select coalesce(sum(recipient_count), 0)::int8 as recipients from pushq.job"))
        if company.count > 0 {
            print(
                "of the other tenant's \(company.count) recipients, \(left[0].int8("recipients")) waited in jobs still at the end"
            )
        }
        try await Task.sleep(for: .seconds(2))
        return try await Probe.pushes(of: roots, in: store)
    }
}
