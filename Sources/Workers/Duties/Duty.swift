import PostgresStore
import Transport

/// Work that runs once for the fleet. A worker that finds it due leases it, like a job. There is no leader.
protocol Duty {
    /// The name of its row in `pushq.duty`.
    var name: String { get }
    /// The time from the end of a run until the duty is due again.
    var pause: Duration { get }
    /// The time for which the duty is put off, without a run, if it has nothing to do (`pushq.duty_has_work`).
    var idlePause: Duration { get }
    /// The maximum of ``pause``.
    var longestPause: Duration { get }
    /// Runs the duty once. A duty that takes longer than a few statements asks `lease` between its steps whether it may
    /// go on.
    func run(_ lease: DutyLease) async throws(PostgresError)
    /// Ends a run soon, if the duty is running.
    func stop()
    /// Waits for what runs have left under way. Called when the worker drains, and has given the duty back.
    func settle() async
}

extension Duty {
    /// Most pauses are the same after each run.
    var idlePause: Duration { pause }
    /// Most pauses never change.
    var longestPause: Duration { pause }
    /// Most duties take one statement.
    func stop() {}
    /// Most runs leave nothing.
    func settle() async {}
}
