import APNsSimulator
import Foundation
import LocalStack
import PostgresStore
import QueueCore
import Transport

/// Sends one push to each of very many queues, each with its own certificate, by a worker that may hold connections for
/// only a few of them. It measures how soon the worker begins, how the connections pass from queue to queue, how much
/// memory and CPU that takes, and what the worker does when no work is left.
struct ManyQueues {
    /// A push to the last queue waits for a connection until the ones before it have been unused for 10 s.
    private static let deadline = Duration.seconds(400)
    private static let idleTime = Duration.seconds(30)

    private let stack: BenchStack
    private let queues: Int
    private let worker: ChildProcess

    static func measure(queues: Int, connections: Int) async throws {
        guard OpenFiles.raiseLimit() > connections * 2 else { return print("allow more open files: ulimit -n") }
        let stack = try await BenchStack(latency: .milliseconds(5))
        let names = (1...queues).map { QueueName(tenant: "t\($0)", app: "com.t\($0)", environment: .production) }
        try await stack.makeQueues(names)
        let worker = try stack.startWorker(["--connections", "\(connections)"])
        let bench = ManyQueues(stack: stack, queues: queues, worker: worker)
        try await bench.untilIdle()
        try await enqueue(names, in: stack)
        try await bench.measureSending()
        try await bench.measureIdleness()
        await stack.end()
    }

    /// Waits until the worker sleeps. It has then planned its statements for empty tables, like any idle worker.
    private func untilIdle() async throws {
        try await wait("the worker to fall asleep") {
            try await number("select count(*)::int8 from pushq.sleeper") == 1
        }
    }

    /// Enqueues a push to each of these queues, all at once.
    static func enqueue(_ names: [QueueName], in stack: BenchStack) async throws {
        try await stack.withStore { store in
            let push = Statement(
                "push", #"select pushq.send($1, '{"aps":{"alert":"x"}}', array[repeat('00ff', 16)])"#)
            try await store.transaction(within: .seconds(120)) {
                for name in names { _ = try await store.execute(push, [.text("\(name)")]) }
            }
        }
    }

    private func measureSending() async throws {
        let (start, cpu, serverCPU) = (ContinuousClock.now, cpuTime, stack.postgres.backendCPU())
        var first = Duration.zero
        var most = 0
        try await wait("every push to arrive") {
            let seen = await stack.simulator.snapshot()
            most = max(most, seen.openConnections)
            if first == .zero, seen.accepted > 0 { first = start.duration(to: .now) }
            return seen.accepted >= queues
        }
        let seen = await stack.simulator.snapshot()
        print(
            """
            \(queues) queues known, \(max(most, seen.openConnections)) connections open at the most, \
            \(seen.connections) opened one after the other in \(Self.text(start.duration(to: .now))) s, the first push \
            after \(Self.text(first)) s: \(memory("VmHWM")) MB of memory at the peak, \(Self.text(cpuTime - cpu)) s of the \
            worker's CPU, \(Self.text(stack.postgres.backendCPU() - serverCPU)) s of PostgreSQL's
            """)
    }

    private func measureIdleness() async throws {
        // After this, all results are written, and the worker sleeps.
        try await untilIdle()
        let transactions = """
            select xact_commit + xact_rollback from pg_stat_database where datname = current_database() \
            and pg_stat_clear_snapshot() is not null
            """
        let (cpu, before) = (cpuTime, try await number(transactions))
        try await Task.sleep(for: Self.idleTime)
        let statements = Double(try await number(transactions) - before) / (Self.idleTime / .seconds(1))
        let share = (cpuTime - cpu) / Self.idleTime
        print(
            """
            idle with \(await stack.simulator.snapshot().openConnections) connections: \
            \(statements.formatted(.number.precision(.fractionLength(1)))) statements a second, \
            \((share * 100).formatted(.number.precision(.fractionLength(1)))) % of a core, \(memory("VmRSS")) MB of memory
            """)
    }

    // MARK: Looking

    private func wait(_ what: String, _ isReached: () async throws -> Bool) async throws {
        let deadline = ContinuousClock.now + Self.deadline
        while try await !isReached() {
            guard ContinuousClock.now < deadline else {
                throw BenchError.tooLate("waited \(Self.deadline) for \(what); the worker says: \(stack.workerLog())")
            }
            try await Task.sleep(for: .milliseconds(100))
        }
    }

    private func number(_ sql: String) async throws -> Int64 {
        let number = Locked<Int64>(0)
        try await stack.withStore { store in
            let rows = try await store.execute(Statement("number", "select (\(sql)) as number"))
            number.withLock { $0 = rows[0].int8("number") }
        }
        return number.withLock { $0 }
    }

    private static func text(_ duration: Duration) -> String {
        (duration / .seconds(1)).formatted(.number.precision(.fractionLength(1)))
    }

    private var cpuTime: Duration { ProcessTimes(of: worker.processID)?.cpu ?? .zero }

    /// Returns the worker's memory in MB (proc_pid_status(5)): `VmRSS` now, `VmHWM` at the peak.
    private func memory(_ name: String) -> Int {
        let status = (try? String(contentsOfFile: "/proc/\(worker.processID)/status", encoding: .utf8)) ?? ""
        let line = status.split(separator: "\n").first { $0.hasPrefix(name) } ?? ""
        return (Int(line.filter(\.isNumber)) ?? 0) / 1024
    }
}

enum BenchError: Error {
    case tooLate(String)
    /// A statement took longer than its limit.
    case overLimit(String)
}
