import FoundationEssentials
import LocalStack
import PostgresStore
import QueueCore
import Terminal
import Transport

/// Runs an installation for a developer, with the same processes as on servers, until Ctrl-C.
struct Dev: Sendable {
    /// The port of the dashboard; 0: a free one.
    let port: UInt16
    let reaper: Reaper
    let console: Console

    /// Runs the installation, and ends all that it started, whatever goes wrong.
    func run() async throws {
        let isInterrupted = Locked(false)
        do {
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await serve() }
                group.addTask {
                    for await _ in Signals.stream() { break }
                    try Task.checkCancellation()
                    isInterrupted.withLock { $0 = true }
                    // This ends what is running, so a failure that it causes is not an error.
                    await reaper.end()
                }
                defer { group.cancelAll() }
                try await group.next()
            }
        } catch {
            await reaper.end()
            guard isInterrupted.withLock({ $0 }) else { throw error }
        }
        tell("ended; everything that it had started was removed")
    }

    /// Runs the processes. Never returns; throws when one of them ends.
    private func serve() async throws {
        let admin = try Self.adminExecutable()
        let stack = try await Stack.start(reaper: reaper)
        tell("PostgreSQL started in \(stack.socketFolder), for this command alone")
        let simulator = try await stack.startSimulator(rules: DevSample.rules)
        tell("a local APNs answers at \(simulator.ready.address)")
        try await setUp(stack, simulator.ready)
        let workers = try stack.startWorkers(1, gateway: simulator.ready)
        tell("a worker started")
        let sample = DevSample(stack: stack, admin: admin, reaper: reaper)
        try await sample.make()
        tell("sample data is there")
        let dashboard = try await DevDashboard(in: stack, admin: admin, port: port, reaper: reaper)
        let text = DevText(
            stack: stack, masterKeyFile: try stack.writeMasterKey(), gateway: simulator.ready.address,
            dashboard: dashboard.ready, admin: admin)
        text.show(on: console)
        try await withThrowingTaskGroup(of: Never.self) { group in
            for worker in workers { group.addTask { try await stack.lost(worker) } }
            group.addTask { try await dashboard.lost() }
            defer { group.cancelAll() }
            try await group.next()
        }
    }

    /// Does what an operator does by hand before the first worker starts.
    private func setUp(_ stack: Stack, _ simulator: SimulatorReady) async throws {
        let loop = EventLoop(name: "dev")
        defer { loop.shutDown() }
        let address = try DatabaseAddress(url: stack.databaseURL, environment: [:])
        try await loop.run { _ in
            let store = try await PostgresConnection.connect(to: address, as: "pushq dev", on: loop)
            store.terms = StatementTerms()
            defer { store.close() }
            try await stack.setUp(DevSample.queue, sendingTo: simulator, in: store)
        }
    }

    private static func adminExecutable() throws -> String {
        let own = URL(fileURLWithPath: try Stack.ownExecutable())
        let admin = own.deletingLastPathComponent().appending(path: "pushq-admin").path
        guard FileManager.default.isExecutableFile(atPath: admin) else {
            throw Failure("there is no \(admin), which serves the dashboard; build it with: swift build")
        }
        return admin
    }

    private func tell(_ line: String) { console.remark("dev: \(line)") }
}
