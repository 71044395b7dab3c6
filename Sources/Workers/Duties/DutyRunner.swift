import PostgresStore
import Transport

/// Runs the duties of the fleet that are due.
///
/// Belongs to the engine's event loop.
final class DutyRunner {
    private static let interval = Duration.seconds(5)
    /// The time after which another worker takes over a duty from a lost worker. A statement takes at most ten seconds.
    static let lease = Duration.seconds(60)

    private let lease: Duration
    private let store: RetryingConnection
    private let workerID: Int64
    private let duties: [any Duty]
    private let retry: Duration
    private let report: (EngineEvent) -> Void
    private let signal: Signal
    private var isStopping = false

    init(_ context: EngineContext, duties: [any Duty], lease: Duration = lease) {
        store = context.postgres.upkeep
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

    /// Runs duties that are due, until ``stop()``. Returns when nothing of them is under way any more.
    func run() async {
        while !isStopping {
            // Each duty runs once in a pass, so that one that is due again at once does not keep the others from their
            // turn.
            var left = duties
            while !isStopping, !left.isEmpty, let done = await runDue(of: left) { left.removeAll { $0.name == done } }
            await signal.wait(atMost: Self.interval)
        }
        for duty in duties { await duty.settle() }
    }

    /// Runs one of `duties` that is due and may have something to do. Returns its name; nil if there is none.
    private func runDue(of duties: [any Duty]) async -> String? {
        let takenAt = ContinuousClock.now
        let taken = await store.attempt {
            try await $0.takeDuty(
                duties.map { ($0.name, $0.idlePause, $0.longestPause) }, workerID: workerID, lease: lease)
        }
        guard let name = taken ?? nil, let duty = duties.first(where: { $0.name == name }) else { return nil }
        let pause: Duration
        var problem: String?
        do throws(PostgresError) {
            let held = DutyLease(
                name: name, workerID: workerID, length: lease, store: store, takenAt: takenAt,
                isStopping: { [unowned self] in isStopping })
            try await duty.run(held)
            pause = held.isCutShort ? .zero : duty.pause
        } catch {
            pause = min(duty.pause, retry)
            problem = error.description
            report(.dutyFailed(name: name, reason: error.description))
        }
        await store.attempt { try await $0.finishDuty(name, workerID: workerID, pause: pause, problem: problem) }
        return name
    }
}
