import PostgresStore
import Transport

/// Asks the database for the figures of the fleet, so that one worker publishes them instead of all. A worker that has
/// this duty keeps it until it drains or is lost. Only workers that publish metrics take it.
///
/// Belongs to the engine's event loop.
final class FleetFiguresDuty: Duty {
    let name = "figures"
    let pause = Duration.zero

    /// How often the figures are read: a third of the duty's lease or less, so that each reading can renew the lease.
    private static let interval = Duration.seconds(15)

    private let store: RetryingConnection
    private let signal: Signal
    /// The figures that were read last; nil while this worker does not have the duty.
    private(set) var figures: FleetFigures?

    init(_ context: EngineContext) {
        store = context.postgres.upkeep
        signal = Signal(loop: context.loop)
    }

    func stop() { signal.raise() }

    func run(_ lease: DutyLease) async throws(PostgresError) {
        // The next holder of the duty publishes other figures under the same names.
        defer { figures = nil }
        repeat {
            figures = try await store.connection().fleetFigures()
            await signal.wait(atMost: Self.interval)
        } while try await lease.mayContinue()
    }
}
