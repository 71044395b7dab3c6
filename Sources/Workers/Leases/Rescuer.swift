import PostgresStore
import Transport

/// Puts back the jobs of workers that are gone. Every worker does it; the statement sees to it that they do not meet.
///
/// Belongs to the engine's event loop.
final class Rescuer {
    private static let interval = Duration.seconds(2)

    private let store: EngineStore
    private let settings: EngineSettings
    private let report: (EngineEvent) -> Void
    private let mayHaveWork: Signal
    private let signal: Signal
    private var isStopping = false
    /// Until then leases are left alone: PostgreSQL was away, and those that hold them have to be able to renew them
    /// first.
    private var holdUntil = ContinuousClock.now

    init(_ context: EngineContext) {
        store = context.stores.claims
        settings = context.settings
        report = context.report
        mayHaveWork = context.mayHaveWork
        signal = Signal(loop: context.loop)
    }

    /// A connection to PostgreSQL is back. Workers that held leases when it went away get time to renew them: as long
    /// as a holder trusts its lease. This worker, too, may have the connection for claims before that for leases.
    func holdOff() { holdUntil = .now + settings.lease * 2 / 3 }

    func stop() {
        isStopping = true
        signal.raise()
    }

    /// Polls for leases that ran out, until ``stop()``.
    func run() async {
        while !isStopping {
            await signal.wait(atMost: Self.interval)
            guard !isStopping, ContinuousClock.now >= holdUntil else { continue }
            await rescue()
        }
    }

    private func rescue() async {
        do throws(PostgresError) {
            var count = PostgresConnection.mostRescued
            // A worker may have held ten thousand jobs of one recipient each.
            while count == PostgresConnection.mostRescued, !isStopping {
                let connection = try await store.connection()
                // That may have been a wait for PostgreSQL to come back.
                guard ContinuousClock.now >= holdUntil else { return }
                count = try await connection.rescue(grace: settings.rescueGrace)
                guard count > 0 else { return }
                report(.jobsRescued(count))
                mayHaveWork.raise()
            }
        } catch {
            holdOff()
        }
    }
}
