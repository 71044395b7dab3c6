extension Statement {
    static let partitionsToMake = Statement(
        "partitions_to_make",
        "select statement from pushq.partitions_to_make(coalesce($1::date, pushq.today()), $2::int)")
    static let partitionsToDrop = Statement(
        "partitions_to_drop",
        "select parent, name, pending from pushq.partitions_to_drop(coalesce($1::date, pushq.today()), $2::int)")
}

extension PostgresConnection {
    /// Makes the partitions that will be needed and drops those that are past retention, without stopping anybody: each change
    /// waits for its lock half a second at most and is otherwise left to the next round.
    ///
    /// Needs a connection outside a pipeline and a transaction, since `detach … concurrently` runs in neither.
    /// - Parameter today: the day to do it for; nil for the database's own.
    /// - Returns: the names of partitions made or dropped.
    package func maintainPartitions(
        _ retention: Retention = Retention(), today: CalendarDay? = nil
    ) async throws(PostgresError) -> [String] {
        try await runScript("set lock_timeout = '500ms'")
        var changed: [String] = []
        let making = try await execute(.partitionsToMake, [.date(today), .int4(Int32(retention.daysAhead))])
        for statement in making.map({ $0.text(0) }) {
            try await runScript(statement)
            changed.append(statement)
        }
        let dropping = try await execute(.partitionsToDrop, [.date(today), .int4(Int32(retention.days))])
        for partition in dropping.map({ (parent: $0.text(0), name: $0.text(1), isPending: $0.bool(2)) }) {
            // A detach that was interrupted stays pending, and blocks the next one until it is finalized.
            let how = partition.isPending ? "finalize" : "concurrently"
            try await runScript("alter table pushq.\(partition.parent) detach partition pushq.\(partition.name) \(how)")
            try await runScript("drop table pushq.\(partition.name)")
            changed.append("drop table pushq.\(partition.name)")
        }
        return changed
    }
}
