import Foundation
import PostgresStore
import QueueCore

/// What queues that wait for their next permit cost a worker that sends for others: its CPU while it sends a campaign
/// at a steady rate, without them and with them.
struct ThrottledQueues {
    /// Pushes per second of each of them.
    private static let rate = 0.2
    private typealias Beside = WaitingQueues

    /// - Parameter queues: those of another tenant, each with a push to 100 devices, a certificate and a connection.
    static func measure(queues: Int) async throws {
        let stack = try await BenchStack(latency: .milliseconds(5))
        let names = (1...queues).map { QueueName(tenant: "crowd", app: "com.t\($0)", environment: .production) }
        try await stack.makeQueue(Beside.busy, devices: Int(Beside.rate * 5 * (Beside.time / .seconds(1))))
        try await stack.makeQueues(names)
        try await stack.withStore { store in
            try await store.setRate(Beside.rate, burst: nil, of: Beside.busy)
            for name in names { try await store.setRate(rate, burst: nil, of: name) }
            try await store.runScript(
                "update pushq.tenant set connections = \(queues) where name = 'crowd'", within: .seconds(10))
            let start = Statement("start", #"select pushq.start_campaign($1, 'c', '{"aps":{"alert":"x"}}')"#)
            _ = try await store.execute(start, [.text("\(Beside.busy)")])
        }
        let worker = try stack.startWorker()
        // It connects, and measures its rate.
        try await Task.sleep(for: .seconds(3))
        print("alone: \(try await Beside.share(of: worker, stack))")
        try await stack.withStore { store in
            let push = Statement(
                "push",
                """
                select pushq.send(
                  $1, '{"aps":{"alert":"x"}}', array(select lpad(to_hex(i), 64, '0') from generate_series(1, 100) i))
                """)
            try await store.transaction(within: .seconds(120)) {
                for name in names { _ = try await store.execute(push, [.text("\(name)")]) }
            }
        }
        // They connect.
        try await Task.sleep(for: .seconds(10))
        print(
            """
            while \(queues) queues of another tenant send \(rate) a second each: \(try await Beside.share(of: worker, stack))
            """)
        await stack.end()
    }
}
