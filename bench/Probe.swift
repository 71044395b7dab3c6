import Foundation
import PostgresStore
import QueueCore

/// Measures the time of single pushes from commit to arrival, one after the other: the commit by the server's commit
/// timestamp, the arrival by the simulator's record.
struct Probe {
    /// A push: the root of its job, and when it was committed, in microseconds since 1970.
    struct Push {
        let root: Int64
        let committed: Int
    }

    let queue: QueueName
    var isUrgent = false

    /// Sends a push to one of the queue's devices.
    /// - Returns: its root.
    func send(with store: PostgresConnection, isolation: isolated (any Actor)? = #isolation) async throws -> Int64 {
        let push = Statement(
            "push",
            #"""
            select pushq.send($1, '{"aps":{"alert":"x"}}', array[(select encode(token, 'hex') from pushq.device
                              where queue_id = pushq.queue_id($1) limit 1)], urgent => $2)
            """#)
        return try await store.execute(push, [.text("\(queue)"), .bool(isUrgent)])[0].int8("send")
    }

    /// Sends `count` pushes, with a pause after each.
    /// - Returns: their roots.
    func send(
        _ count: Int, pause: Duration, with store: PostgresConnection, isolation: isolated (any Actor)? = #isolation
    ) async throws -> [Int64] {
        var roots: [Int64] = []
        for _ in 0..<count {
            roots.append(try await send(with: store))
            try await Task.sleep(for: pause)
        }
        return roots
    }

    /// Returns when the pushes with these roots were committed.
    static func pushes(
        of roots: [Int64], in store: PostgresConnection, isolation: isolated (any Actor)? = #isolation
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

    /// Returns the sorted milliseconds from commit to arrival of the pushes that have arrived.
    static func latencies(of pushes: [Push], _ arrivals: [Int64: Int]) -> [Double] {
        pushes.compactMap { push in arrivals[push.root].map { Double($0 - push.committed) / 1000 } }.sorted()
    }

    /// Returns these percentiles of sorted milliseconds, as text.
    static func figures(_ shares: [Double], of latencies: [Double]) -> [String] {
        shares.map { Bench.percentile($0, of: latencies).formatted(.number.precision(.fractionLength(2))) }
    }
}
