import APNsSimulator
import Foundation
import LocalStack
import PostgresStore
import QueueCore
import Transport

/// One push to each of very many queues, each with a certificate of its own, by a worker that may hold connections for a few of
/// them: how much memory that takes, and how the connections go from queue to queue.
enum ManyQueues {
    static func measure(queues: Int, connections: Int) async throws {
        guard OpenFiles.raiseLimit() > connections * 2 else { return print("allow more open files: ulimit -n") }
        let stack = try await BenchStack(latency: .milliseconds(5))
        let names = (1...queues).map { QueueName(tenant: "t\($0)", app: "com.t\($0)", environment: .production) }
        try await stack.makeQueues(names)
        let worker = try stack.startWorker(["--connections", "\(connections)"])
        let start = ContinuousClock.now
        try await stack.withStore { store in
            let push = Statement(
                "push", #"select pushq.send($1, '{"aps":{"alert":"x"}}', array[repeat('00ff', 16)])"#)
            try await store.transaction {
                for name in names { _ = try await store.execute(push, [.text("\(name)")]) }
            }
        }
        var most = 0
        while await stack.simulator.snapshot().accepted < queues {
            most = max(most, await stack.simulator.snapshot().openConnections)
            try await Task.sleep(for: .milliseconds(100))
        }
        let seen = await stack.simulator.snapshot()
        print(
            """
            \(queues) queues known, \(max(most, seen.openConnections)) connections open at the most, \
            \(seen.connections) opened one after the other in \(Int(start.duration(to: .now) / .seconds(1))) s: \
            \(peakMegabytes(of: worker.processID)) MB of memory at the peak
            """)
        await stack.end()
    }

    /// The most memory that a process ever had in use (proc_pid_status(5)).
    private static func peakMegabytes(of processID: Int32) -> Int {
        let status = (try? String(contentsOfFile: "/proc/\(processID)/status", encoding: .utf8)) ?? ""
        let line = status.split(separator: "\n").first { $0.hasPrefix("VmHWM") } ?? ""
        return (Int(line.filter(\.isNumber)) ?? 0) / 1024
    }
}
