import PostgresStore
import Transport

/// Work that runs once for the fleet. A worker that finds it due leases it, like a job. There is no leader.
protocol Duty {
    /// Its row in `pushq.duty`.
    var name: String { get }
    /// The time from its end until it is due again.
    var pause: Duration { get }
    /// The most that ``pause`` can be.
    var longestPause: Duration { get }
    /// Does it once. A duty that takes longer than a few statements asks `lease` between its steps whether it may go
    /// on.
    func run(_ lease: DutyLease) async throws(PostgresError)
    /// Ends soon, if it is running.
    func stop()
}

extension Duty {
    /// Most pauses are always the same.
    var longestPause: Duration { pause }
    /// Most duties take one statement.
    func stop() {}
}

/// Runs the duties of the fleet that are due.
///
/// Belongs to the engine's event loop.
final class DutyRunner {
    private static let interval = Duration.seconds(5)
    /// After this time another worker takes over from a lost one. A statement takes at most ten seconds.
    static let lease = Duration.seconds(60)

    private let lease: Duration
    private let store: EngineStore
    private let workerID: Int64
    private let duties: [any Duty]
    private let retry: Duration
    private let report: (EngineEvent) -> Void
    private let signal: Signal
    private var isStopping = false

    init(_ context: EngineContext, duties: [any Duty], lease: Duration = lease) {
        store = context.stores.upkeep
        workerID = context.workerID
        retry = context.settings.dutyRetry
        report = context.report
        self.duties = duties
        self.lease = lease
        signal = Signal(loop: context.loop)
    }

    func stop() {
        isStopping = true
        for duty in duties { duty.stop() }
        signal.raise()
    }

    /// Runs duties that are due, until ``stop()``.
    func run() async {
        while !isStopping {
            // Each once: none waits for the others, and one that is due again at once keeps none of them from its turn.
            var left = duties
            while !isStopping, !left.isEmpty, let done = await runDue(of: left) { left.removeAll { $0.name == done } }
            await signal.wait(atMost: Self.interval)
        }
    }

    /// Runs one of `duties` that is due. Returns its name; nil if none is.
    private func runDue(of duties: [any Duty]) async -> String? {
        let takenAt = ContinuousClock.now
        let taken = await store.attempt {
            try await $0.takeDuty(
                duties.map { ($0.name, $0.longestPause) }, workerID: workerID, lease: lease)
        }
        guard let name = taken ?? nil, let duty = duties.first(where: { $0.name == name }) else { return nil }
        var pause = duty.pause
        var problem: String?
        do throws(PostgresError) {
            let held = DutyLease(
                name: name, workerID: workerID, length: lease, store: store, takenAt: takenAt,
                isStopping: { [unowned self] in isStopping })
            try await duty.run(held)
            if held.isCutShort { pause = .zero }
        } catch {
            pause = min(pause, retry)
            problem = error.description
            report(.dutyFailed(name: name, reason: error.description))
        }
        await store.attempt { try await $0.finishDuty(name, workerID: workerID, pause: pause, problem: problem) }
        return name
    }
}
