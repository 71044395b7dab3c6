extension Statement {
    static let partitionsToMake = Statement(
        "partitions_to_make",
        "select statement from pushq.partitions_to_make(coalesce($1::date, pushq.today()), $2::int)")
    static let partitionsToDrop = Statement(
        "partitions_to_drop",
        "select parent, name, state from pushq.partitions_to_drop(coalesce($1::date, pushq.today()), $2::int, $3::int)")
    static let longestRetention = Statement(
        "longest_retention", "select keep, keep_feedback from pushq.longest_retention($1::int, $2::int)")
    static let daysToClear = Statement(
        "days_to_clear",
        "select parent, day, queues from pushq.days_to_clear(coalesce($1::date, pushq.today()), $2::int, $3::int)")
    static let clearDay = Statement("clear_day", "select pushq.clear_day($1, $2::date, $3::int[], 5000)")
    static let hasOldDays = Statement(
        "has_old_days", "select pushq.has_old_days(coalesce($1::date, pushq.today()), $2::int)")
    static let moveWaiting = Statement(
        "move_waiting",
        #"""
        select after_queue, after_job
        from pushq.move_waiting(coalesce($1::date, pushq.today()), $2::int, 5000, $3::int, $4::bigint)
        """#)
    static let moveScheduled = Statement(
        "move_scheduled", "select pushq.move_scheduled(coalesce($1::date, pushq.today()), $2::int)")
}

extension PostgresConnection {
    /// Makes the partitions that will be needed and drops those that are past retention, without stopping anybody: what cannot be
    /// had soon is left to the next round. From days that some tenants keep longer than others, the rows of these are deleted.
    ///
    /// Needs a connection outside of a transaction, since `detach … concurrently` runs in none, and one that may be lost by it.
    /// - Parameters:
    ///   - today: the day to do it for; nil for the database's own.
    ///   - patience: how long a detach may wait for transactions that have looked at the table. Past it the connection is lost.
    ///   - goesOn: asked before each step of what may take long; where it says no, the rest is left to the next round.
    /// - Returns: the names of partitions made or dropped.
    package func maintainPartitions(
        _ retention: Retention = Retention(), today: CalendarDay? = nil, patience: Duration = .seconds(5),
        while goesOn: () async throws(PostgresError) -> Bool = { true }
    ) async throws(PostgresError) -> [String] {
        var changed: [String] = []
        let making = try await execute(.partitionsToMake, [.date(today), .int4(Int32(retention.daysAhead))])
        for statement in making.map({ $0.text(0) }) {
            try await change(statement)
            changed.append(statement)
        }
        let usual = retention
        let retention = try await longest(retention)
        try await moveOutOfOldDays(retention, today: today, while: goesOn)
        let dropping = try await execute(
            .partitionsToDrop,
            [.date(today), .int4(Int32(retention.days)), .int4(Int32(retention.feedbackDays))])
        for partition in dropping.map({ (parent: $0.text(0), name: $0.text(1), state: $0.text(2)) }) {
            guard try await goesOn() else { break }
            let detach = "alter table pushq.\(partition.parent) detach partition pushq.\(partition.name)"
            switch partition.state {
            // It stands alone, so that no limit for locks can be set: as a setting of the session it would be found by whoever
            // a pooler gives that session to next.
            case "attached": try await runScript("\(detach) concurrently", within: patience)
            case "pending": try await change("\(detach) finalize")
            default: break
            }
            try await change("drop table pushq.\(partition.name)")
            changed.append("drop table pushq.\(partition.name)")
        }
        try await clearDays(usual, today: today, while: goesOn)
        return changed
    }

    /// As long as any tenant keeps what is its own.
    private func longest(_ usual: Retention) async throws(PostgresError) -> Retention {
        let period: [Parameter] = [.int4(Int32(usual.days)), .int4(Int32(usual.feedbackDays))]
        var longest = usual
        if let row = try await execute(.longestRetention, period).first {
            (longest.days, longest.feedbackDays) = (Int(row.int4(0)), Int(row.int4(1)))
        }
        return longest
    }

    /// Deletes what tenants keep no longer from days that others keep.
    private func clearDays(
        _ usual: Retention, today: CalendarDay?, while goesOn: () async throws(PostgresError) -> Bool
    ) async throws(PostgresError) {
        let period: [Parameter] = [.date(today), .int4(Int32(usual.days)), .int4(Int32(usual.feedbackDays))]
        let days = try await execute(.daysToClear, period).map { ($0.text(0), $0.date(1), $0.int4Array(2)) }
        for (parent, day, queues) in days {
            var gone: Int64 = 5000
            while gone == 5000, try await goesOn() {
                let parameters: [Parameter] = [.text(parent), .date(day), .int4Array(queues)]
                gone = try await execute(.clearDay, parameters).first?.int8(0) ?? 0
            }
        }
    }

    /// Moves what still waits to today, if its day is past retention.
    private func moveOutOfOldDays(
        _ retention: Retention, today: CalendarDay?, while goesOn: () async throws(PostgresError) -> Bool
    ) async throws(PostgresError) {
        let period: [Parameter] = [.date(today), .int4(Int32(retention.days))]
        guard try await execute(.hasOldDays, period).first?.bool(0) == true else { return }
        _ = try await execute(.moveScheduled, period)
        var last: (queue: Int32, job: Int64)? = (-1, 0)
        while let (queue, job) = last, try await goesOn() {
            let row = try await execute(.moveWaiting, period + [.int4(queue), .int8(job)]).first
            last = row.flatMap { row in row.optionalInt4(0).map { ($0, row.int8(1)) } }
        }
    }

    /// Runs a statement that waits for its locks half a second at most: others wait behind it.
    private func change(_ statement: String) async throws(PostgresError) {
        try await runScript("set local lock_timeout = '500ms'; \(statement)")
    }
}
