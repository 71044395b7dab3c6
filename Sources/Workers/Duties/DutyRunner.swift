import PostgresStore
import Transport

/// Work that runs once for the fleet: whoever finds it due takes it, as a job is leased. There is no leader.
protocol Duty {
    /// Its row in `pushq.duty`.
    var name: String { get }
    /// From its end until it is due again.
    var pause: Duration { get }
    /// How long it may take before another worker takes it over.
    var lease: Duration { get }
    /// Does it once.
    func run() async throws(PostgresError)
    /// Comes to an end soon, if it is at work.
    func stop()
}

extension Duty {
    /// Most take no longer than a statement does.
    func stop() {}
}

/// Runs the duties of the fleet that are due.
///
/// Belongs to the engine's event loop.
final class DutyRunner {
    private static let interval = Duration.seconds(5)

    private let store: EngineStore
    private let owner: Int64
    private let duties: [any Duty]
    private let retry: Duration
    private let report: (EngineEvent) -> Void
    private let signal: Signal
    private var isStopping = false

    init(
        loop: EventLoop, store: EngineStore, owner: Int64, duties: [any Duty], retry: Duration,
        report: @escaping (EngineEvent) -> Void
    ) {
        self.store = store
        self.owner = owner
        self.duties = duties
        self.retry = retry
        self.report = report
        signal = Signal(loop: loop)
    }

    func stop() {
        isStopping = true
        for duty in duties { duty.stop() }
        signal.raise()
    }

    /// Looks for due duties, until ``stop()``.
    func run() async {
        while !isStopping {
            await runDue()
            await signal.wait(atMost: Self.interval)
        }
    }

    private func runDue() async {
        let longest = duties.map(\.lease).max() ?? .zero
        let taken = await store.attempt { try await $0.takeDuty(duties.map(\.name), owner: owner, lease: longest) }
        guard let name = taken ?? nil, let duty = duties.first(where: { $0.name == name }) else { return }
        var pause = duty.pause
        do throws(PostgresError) {
            try await duty.run()
        } catch {
            pause = min(pause, retry)
            report(.dutyFailed(name: name, reason: error.description))
        }
        await store.attempt { try await $0.finishDuty(name, owner: owner, pause: pause) }
    }
}
