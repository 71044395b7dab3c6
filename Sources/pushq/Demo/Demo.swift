import FoundationEssentials
import LocalStack
import PostgresStore
import QueueCore
import Terminal
import Transport

/// Runs a campaign from an empty machine to its last outcome. It uses what users use: the same executables, the same
/// calls to the store.
struct Demo: Sendable {
    let material: DemoMaterial
    let workerCount: Int
    let reaper: Reaper
    let console: Console

    private let isInterrupted = Locked(false)

    static let queue = QueueName(tenant: "acme", app: "com.acme.shop", environment: .production)
    private static let key = "demo"

    /// Runs the demo, and ends all that it started, even if it is interrupted.
    func run() async throws -> DemoReport {
        do {
            let report = try await withThrowingTaskGroup(of: DemoReport.self) { group in
                group.addTask { try await perform() }
                group.addTask { try await interruption() }
                defer { group.cancelAll() }
                guard let report = try await group.next() else { throw CancellationError() }
                return report
            }
            await reaper.end()
            return report
        } catch {
            await reaper.end()
            // What ends with its processes fails, too, and may do so first.
            throw isInterrupted.withLock { $0 } ? Self.interrupted : error
        }
    }

    /// Only this process gets Ctrl-C: the processes that it started have process groups of their own. Without them, an
    /// import or a send in progress ends at once.
    private func interruption() async throws -> Never {
        for await _ in Signals.stream() { break }
        try Task.checkCancellation()
        isInterrupted.withLock { $0 = true }
        await reaper.end()
        throw Self.interrupted
    }

    private static let interrupted = Failure("interrupted; everything that the demo had started was removed")

    private func perform() async throws -> DemoReport {
        let stack = try await Stack.start(reaper: reaper)
        tell("PostgreSQL started in \(stack.socketFolder), for this demo alone")
        let simulator = try await stack.startSimulator(rules: material.rules)
        tell("a local APNs answers at \(simulator.ready.address)")

        let loop = EventLoop(name: "demo")
        defer { loop.shutDownAndWait() }
        let address = try DatabaseAddress(url: stack.databaseURL, environment: [:])
        let (imported, serverSettings) = try await loop.run { _ in
            let store = try await PostgresConnection.connect(to: address, as: "pushq demo", on: loop)
            store.terms = StatementTerms()
            defer { store.close() }
            return try await setUp(store, stack, simulator.ready)
        }
        let workers = try stack.startWorkers(workerCount, gateway: simulator.ready)
        let cpuBefore = stack.cpu(of: workers, simulator)
        tell("\(workerCount) workers started")
        let outcome = try await withThrowingTaskGroup(of: DemoOutcome.self) { group in
            group.addTask { try await Self.send(material, expecting: imported.count, over: loop, address, console) }
            for worker in workers { group.addTask { try await stack.lost(worker) } }
            defer { group.cancelAll() }
            guard let outcome = try await group.next() else { throw CancellationError() }
            return outcome
        }
        let cpu = stack.cpu(of: workers, simulator).since(cpuBefore)
        let failures = try await stack.drain(workers)
        return DemoReport(
            imported: imported, outcome: outcome, counted: try await simulator.stop(), cpu: cpu, server: serverSettings,
            workerFailures: failures)
    }

    /// Does what an operator does by hand with `pushq-admin`.
    private func setUp(
        _ store: PostgresConnection, _ stack: Stack, _ simulator: SimulatorReady
    ) async throws -> (DemoImport, DemoServerSettings) {
        let queue = Self.queue
        try await stack.setUp(queue, sendingTo: simulator, in: store)
        if let rate = material.rate { try await store.setRate(rate, burst: nil, of: queue) }
        let imported = try await importDevices(into: store)
        tell(
            "\(NumberText.grouped(imported.count)) devices imported in \(NumberText.grouped(imported.seconds, places: 2)) s"
        )
        for device in try await store.devices(
            inQueue: queue, after: 0, userKey: nil, includesInactive: false, limit: material.inactiveCount)
        {
            _ = try await store.setDevice(device.token, inQueue: queue, isActive: false)
        }
        return (imported, try await DemoServerSettings(of: store))
    }

    private func importDevices(into store: PostgresConnection) async throws -> DemoImport {
        let bar = ProgressBar("importing", total: nil, on: console)
        defer { bar.finish() }
        let started = ContinuousClock.now
        let summary = try await store.importDevices(
            from: try material.devices(), inQueue: Self.queue, reactivates: false
        ) { bar.update($0) }
        return DemoImport(count: summary.new, seconds: (ContinuousClock.now - started).seconds)
    }

    /// Does what a producer does: starts a campaign and waits for its end.
    private static func send(
        _ material: DemoMaterial, expecting count: Int, over loop: EventLoop, _ address: DatabaseAddress,
        _ console: Console
    ) async throws -> DemoOutcome {
        try await loop.run { _ in
            let lasting = ReconnectingConnection(to: address, as: "pushq campaign", on: loop) {
                $0.terms = StatementTerms()
            }
            defer { lasting.close() }
            let store = try await lasting.current()
            let started = Date.now
            let draft = CampaignDraft(MessageDraft(payload: material.payload), key: key, inQueue: queue)
            if material.isForList {
                _ = try await store.startCampaign(draft, toDevicesIn: try material.devices())
            } else {
                _ = try await store.startCampaign(draft)
            }
            let (campaign, _) = try await CampaignWatch(key: key, queue: queue)
                .untilFinished(in: lasting, console: console, expected: count)
            return DemoOutcome(
                started: started, campaign: campaign,
                refusals: try await store.refusals(ofRoot: campaign.id, inQueue: queue),
                ended: try await store.lastEnd(ofRoot: campaign.id, inQueue: queue),
                inactiveDevices: try await store.statistics(of: nil).reduce(0) { $0 + $1.inactiveDevices })
        }
    }

    private func tell(_ line: String) {
        console.remark("demo: \(line)")
    }
}
