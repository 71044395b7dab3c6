import Foundation
import PostgresStore
import QueueCore

/// Measures what campaigns with their own rate cost a worker that sends for other tenants, while they wait for their
/// next permit: the CPU of the worker and of PostgreSQL while the worker sends a campaign at a steady rate, without
/// them and with them.
struct PacedCampaigns {
    private static let queues = 10
    /// The rate of each campaign, in pushes per second.
    private static let rate = 0.2
    private typealias Beside = WaitingQueues

    /// - Parameter campaigns: the number of campaigns of another tenant, each to the 100 devices of one of its ten
    ///   queues.
    static func measure(campaigns: Int) async throws {
        let names = Beside.crowd(of: queues)
        let (stack, worker) = try await Beside.startAlone(beside: names, connections: queues)
        try await stack.withStore { store in
            for name in names {
                try await store.runScript(
                    """
                    insert into pushq.device (queue_id, token)
                    select pushq.queue_id('\(name)'), sha256(int8send(i)) from generate_series(1, 100) i
                    """)
            }
            let start = Statement(
                "start_paced", #"select pushq.start_campaign($1, $2, '{"aps":{"alert":"x"}}', max_rate => $3)"#)
            try await store.transaction(within: .seconds(120)) {
                for number in 0..<campaigns {
                    _ = try await store.execute(
                        start, [.text("\(names[number % queues])"), .text("c\(number)"), .float8(rate)])
                }
            }
        }
        for moment in ["as they begin", "under way"] {
            print(
                """
                beside \(campaigns) campaigns of another tenant with \(rate) a second each, \(moment): \
                \(try await Beside.share(of: worker, stack))
                """)
        }
        await stack.end()
    }
}
