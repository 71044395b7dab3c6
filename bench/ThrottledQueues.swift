import Foundation
import PostgresStore
import QueueCore

/// Measures what queues that wait for their next permit cost a worker that sends for other tenants: its CPU while it
/// sends a campaign at a steady rate, without them and with them.
struct ThrottledQueues {
    /// The rate of each queue, in pushes per second.
    private static let rate = 0.2
    private typealias Beside = WaitingQueues

    /// - Parameter queues: the number of queues of another tenant, each with a push to 100 devices, a certificate and a
    ///   connection.
    static func measure(queues: Int) async throws {
        let names = Beside.crowd(of: queues)
        let (stack, worker) = try await Beside.startAlone(beside: names, connections: queues)
        try await stack.withStore { store in
            for name in names { try await store.setRate(rate, burst: nil, of: name) }
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
        // The queues connect.
        try await Task.sleep(for: .seconds(10))
        print(
            """
            while \(queues) queues of another tenant send \(rate) a second each: \(try await Beside.share(of: worker, stack))
            """)
        await stack.end()
    }
}
