extension Statement {
    static let fallAsleep = Statement(
        "fall_asleep", "insert into pushq.sleeper (incarnation) values ($1) on conflict do nothing")
    static let wakeUp = Statement("wake_up", "delete from pushq.sleeper where incarnation = $1")
}

extension PostgresConnection {
    /// Tells producers that `incarnation` waits to be notified. Look for work once more afterwards: what was committed before
    /// nobody notified of.
    package func fallAsleep(_ incarnation: Int64) async throws(PostgresError) {
        _ = try await execute(.fallAsleep, [.int8(incarnation)])
    }

    /// Takes that back: producers are spared the notification.
    package func wakeUp(_ incarnation: Int64) async throws(PostgresError) {
        _ = try await execute(.wakeUp, [.int8(incarnation)])
    }
}
