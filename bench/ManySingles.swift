import Foundation
import LocalStack
import PostgresStore
import QueueCore
import Transport

/// Measures how many single pushes a second go through from end to end, if several sessions enqueue them at once.
enum ManySingles {
    /// A burden that may slow it down.
    private enum Burden: String, CaseIterable {
        case none = "nothing beside them"
        /// Vacuum cannot remove the jobs that have ended since the snapshot, so each poll has to pass all of them.
        case snapshot = "a session with an old snapshot"
        /// The worker sleeps all the time, and every sender could wake it.
        case sleeper = "an idle worker for the queues of another tenant"
    }

    private static let queue = QueueName(tenant: "single", app: "com.single", environment: .production)

    static func measure(sessions: Int, pushes: Int) async throws {
        for burden in Burden.allCases { try await measure(sessions: sessions, pushes: pushes, beside: burden) }
        try await measure(sessions: sessions, pushes: pushes, perCall: 1000)
    }

    /// - Parameter perCall: the number of pushes in a call: 1 for `pushq.send`, more for `pushq.send_many`.
    private static func measure(sessions: Int, pushes: Int, perCall: Int = 1, beside burden: Burden = .none)
        async throws
    {
        let stack = try await BenchStack(latency: .milliseconds(5))
        try await stack.makeQueue(queue, devices: 10_000)
        try stack.startWorker()
        if burden == .sleeper { try stack.startWorker(["--queues", "beta/*"]) }
        try await stack.loop.run { [address = stack.address, loop = stack.loop] actor in
            let store = try await PostgresConnection.connect(to: address, as: "bench", on: loop)
            defer { store.close() }
            let reader = try await PostgresConnection.connect(to: address, as: "reader", on: loop)
            defer { reader.close() }
            if burden == .snapshot {
                try await reader.runScript("begin isolation level repeatable read; select count(*) from pushq.job")
            }
            let cpu = stack.postgres.backendCPU()
            let start = ContinuousClock.now
            let senders = (0..<sessions).map { session in
                Task {
                    _ = actor
                    try await enqueue(
                        pushes / sessions, perCall: perCall, session: session, over: address, on: loop)
                }
            }
            for sender in senders { try await sender.value }
            let enqueued = start.duration(to: .now) / .seconds(1)
            let count = Statement("count", "select coalesce(sum(delivered), 0)::int8 as delivered from pushq.result")
            while try await store.execute(count)[0].int8("delivered") < Int64(pushes) {
                try await Task.sleep(for: .milliseconds(20))
            }
            let seconds = start.duration(to: .now) / .seconds(1)
            let microseconds = (stack.postgres.backendCPU() - cpu) / .microseconds(1) / Double(pushes)
            print(
                """
                \(pushes) pushes by \(sessions) sessions, \(perCall) a call, \(burden.rawValue): enqueued at \(Int(Double(pushes) / enqueued)) a second, \
                delivered from end to end at \(Int(Double(pushes) / seconds)) a second, \(Int(microseconds)) µs of PostgreSQL's CPU each
                """)
        }
        await stack.end()
    }

    private static func enqueue(
        _ count: Int, perCall: Int, session: Int, over address: DatabaseAddress, on loop: EventLoop
    ) async throws {
        let store = try await PostgresConnection.connect(to: address, as: "producer", on: loop)
        defer { store.close() }
        let push = Statement(
            "push", #"select pushq.send($1, '{"aps":{"alert":"x"}}', array[encode(sha256(int8send($2)), 'hex')])"#)
        let pushes = Statement(
            "pushes",
            #"""
            select pushq.send_many($1, array_agg(json_build_object('aps', json_build_object('alert', i::text))),
                                   tokens => array_agg(encode(sha256(int8send(1 + i % 10000)), 'hex')))
            from generate_series($2, $2 + $3 - 1) i
            """#)
        for number in stride(from: session * count, to: (session + 1) * count, by: perCall) {
            if perCall == 1 {
                _ = try await store.execute(push, [.text("\(queue)"), .int8(Int64(1 + number % 10_000))])
            } else {
                let some = min(perCall, (session + 1) * count - number)
                _ = try await store.execute(pushes, [.text("\(queue)"), .int8(Int64(number)), .int8(Int64(some))])
            }
        }
    }
}
