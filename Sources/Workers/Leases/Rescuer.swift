import PostgresStore
import Transport

/// Puts back the jobs of lost workers. Every worker does this; the statement keeps them out of each other's way.
///
/// Belongs to the engine's event loop.
final class Rescuer {
    private static let interval = Duration.seconds(2)

    private let store: RetryingConnection
    private let settings: EngineSettings
    private let report: (EngineEvent) -> Void
    private let mayHaveWork: Signal
    private let signal: Signal
    private var isStopping = false
    /// The time before which leases are left alone: PostgreSQL was away, and the workers that hold leases must be able
    /// to renew them first.
    private var holdUntil = ContinuousClock.now
    /// Whether the last search was refused or got no answer. The holders of leases could not renew them either.
    private var hasFailed = false
    /// Leases that ran out this long ago are put back in any case.
    private static let longAgo = Duration.seconds(86_400)

    init(_ context: EngineContext) {
        store = context.postgres.claims
        settings = context.settings
        report = context.report
        mayHaveWork = context.mayHaveWork
        signal = Signal(loop: context.loop)
    }

    /// Notes that a connection to PostgreSQL is back. Workers that held leases when it went away get time to renew
    /// them: as long as a holder trusts its lease. This worker, too, may get its connection for claims before the one
    /// for leases.
    func holdOff() { holdUntil = .now + settings.lease * 2 / 3 }

    func stop() {
        isStopping = true
        signal.raise()
    }

    /// Looks for expired leases until ``stop()``. A worker that starts does not know whether PostgreSQL was away until
    /// a moment ago.
    func run() async {
        holdOff()
        while !isStopping {
            await signal.wait(atMost: Self.interval)
            guard !isStopping, ContinuousClock.now >= holdUntil else { continue }
            await rescue()
        }
    }

    private func rescue() async {
        do throws(PostgresError) {
            var count = PostgresConnection.maximumRescued
            // A worker may have held ten thousand jobs of one recipient each.
            while count == PostgresConnection.maximumRescued, !isStopping {
                let connection = try await store.connection()
                // Getting the connection may have taken until PostgreSQL was back.
                guard ContinuousClock.now >= holdUntil else { return }
                if hasFailed {
                    // PostgreSQL may have begun to accept statements at this moment.
                    _ = try await connection.rescue(grace: Self.longAgo)
                    hasFailed = false
                    return holdOff()
                }
                count = try await connection.rescue(grace: settings.rescueGrace)
                guard count > 0 else { return }
                report(.jobsRescued(count))
                mayHaveWork.raise()
            }
        } catch {
            hasFailed = true
            holdOff()
        }
    }
}
