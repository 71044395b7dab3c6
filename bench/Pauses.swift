import Foundation
import PostgresStore
import QueueCore
import Transport

/// Measures how long pushes still arrive after the commit of a pause, a cancellation or a suspension, while a worker
/// sends at full speed.
enum Pauses {
    private static let queue = QueueName(tenant: "busy", app: "com.busy", environment: .production)

    /// An action and its reversal.
    private struct Deed: Sendable {
        let name: String
        let act: @Sendable (PostgresConnection) async throws -> Void
        let undo: @Sendable (PostgresConnection) async throws -> Void
    }

    private static let deeds = [
        Deed(
            name: "queue pause", act: { try await $0.pauseQueue(queue, reason: "bench") },
            undo: { try await $0.resumeQueue(queue) }),
        Deed(
            name: "campaign pause", act: { try await $0.runScript("select pushq.pause_campaign('\(queue)', 'c')") },
            undo: { try await $0.runScript("select pushq.resume_campaign('\(queue)', 'c')") }),
        Deed(
            name: "tenant suspend", act: { _ = try await $0.setTenant(queue.tenant, isSuspended: true) },
            undo: { _ = try await $0.setTenant(queue.tenant, isSuspended: false) }),
        Deed(
            name: "campaign cancel", act: { try await $0.runScript("select pushq.cancel_campaign('\(queue)', 'c')") },
            undo: { _ in }),
    ]

    static func measure(devices: Int) async throws {
        let stack = try await BenchStack(latency: .milliseconds(20))
        try await stack.makeQueue(queue, devices: devices)
        try stack.startWorker()
        let times = try await stack.loop.run { [address = stack.address] actor in
            try await disturb(on: actor, over: address)
        }
        let arrivals = try await stack.arrivals().values.sorted()
        await stack.end()
        for (deed, time) in zip(deeds, times) {
            let before = arrivals.count { (time.committed - 500_000..<time.committed).contains($0) }
            let after = arrivals.filter { (time.committed..<time.undone).contains($0) }
            let last = after.last.map { Double($0 - time.committed) / 1000 } ?? 0
            print(
                "\(deed.name): \(before * 2) a second before it, \(after.count) pushes after its commit, the last one "
                    + "after \(last.formatted(.number.precision(.fractionLength(1)))) ms")
        }
    }

    /// Performs each action. Returns when each was committed, and when it was about to be undone, in microseconds since
    /// 1970.
    private static func disturb(
        on actor: isolated LoopActor, over address: DatabaseAddress
    ) async throws -> [(committed: Int, undone: Int)] {
        let store = try await PostgresConnection.connect(to: address, as: "bench", on: actor.loop)
        defer { store.close() }
        try await store.runScript(#"select pushq.start_campaign('\#(queue)', 'c', '{"aps":{"alert":"x"}}')"#)
        var times: [(committed: Int, undone: Int)] = []
        for deed in deeds {
            try await Task.sleep(for: .seconds(1.5))
            try await deed.act(store)
            let committed = Int(Date.now.timeIntervalSince1970 * 1_000_000)
            try await Task.sleep(for: .seconds(1.5))
            times.append((committed, Int(Date.now.timeIntervalSince1970 * 1_000_000)))
            try await deed.undo(store)
        }
        return times
    }
}
