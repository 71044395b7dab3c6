extension Statement {
    static let partitionsToMake = Statement(
        "partitions_to_make",
        "select statement from pushq.partitions_to_make(coalesce($today::date, pushq.today()), $days_ahead::int)")
    static let partitionsToDrop = Statement(
        "partitions_to_drop",
        #"""
        select parent, name, state
        from pushq.partitions_to_drop(coalesce($today::date, pushq.today()), $days::int, $feedback_days::int)
        """#)
    static let longestRetention = Statement(
        "longest_retention", "select keep, keep_feedback from pushq.longest_retention($days::int, $feedback_days::int)")
    static let daysToClear = Statement(
        "days_to_clear",
        #"""
        select parent, day, queues
        from pushq.days_to_clear(coalesce($today::date, pushq.today()), $days::int, $feedback_days::int)
        """#)
    static let clearDay = Statement("clear_day", "select pushq.clear_day($parent, $day::date, $queues::int[], 5000)")
    static let hasOldDays = Statement(
        "has_old_days", "select pushq.has_old_days(coalesce($today::date, pushq.today()), $days::int)")
    static let moveWaiting = Statement(
        "move_waiting",
        #"""
        select after_queue, after_job
        from pushq.move_waiting(
          coalesce($today::date, pushq.today()), $days::int, 5000, $after_queue::int, $after_job::bigint)
        """#)
    static let moveScheduled = Statement(
        "move_scheduled", "select pushq.move_scheduled(coalesce($today::date, pushq.today()), $days::int)")
}

extension PostgresConnection {
    /// Makes the partitions that will be needed and drops those that are past retention, without stopping anybody: what
    /// cannot be had soon is left to the next round. From days that some tenants keep longer than others, the rows of
    /// these are deleted.
    ///
    /// Needs a connection outside of a transaction, since `detach … concurrently` runs in none, and one that may be
    /// lost by it.
    /// - Parameters:
    ///   - today: the day to do it for; nil for the database's own.
    ///   - patience: how long a detach may wait for transactions that have looked at the table. Past it the connection
    ///     is lost.
    ///   - goesOn: asked before each step of what may take long; where it says no, the rest is left to the next round.
    /// - Returns: the names of partitions made or dropped.
    package func maintainPartitions(
        _ retention: Retention = Retention(), today: CalendarDay? = nil, patience: Duration = .seconds(5),
        while goesOn: () async throws(PostgresError) -> Bool = { true }
    ) async throws(PostgresError) -> [String] {
        var changed: [String] = []
        let making = try await execute(
            .partitionsToMake, ["today": .date(today), "days_ahead": .int4(Int32(retention.daysAhead))])
        for statement in making.map({ $0.text("statement") }) {
            try await change(statement)
            changed.append(statement)
        }
        let usual = retention
        let retention = try await longest(retention)
        try await moveOutOfOldDays(retention, today: today, while: goesOn)
        let dropping = try await execute(
            .partitionsToDrop,
            [
                "today": .date(today), "days": .int4(Int32(retention.days)),
                "feedback_days": .int4(Int32(retention.feedbackDays)),
            ])
        for partition in dropping.map({ (parent: $0.text("parent"), name: $0.text("name"), state: $0.text("state")) }) {
            guard try await goesOn() else { break }
            let detach = "alter table pushq.\(partition.parent) detach partition pushq.\(partition.name)"
            switch partition.state {
            // It cannot be in a transaction, so no limit for locks can be set for it alone. A setting of the session
            // would stay for the next client of a pooler.
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
        let parameters: Parameters = [
            "days": .int4(Int32(usual.days)), "feedback_days": .int4(Int32(usual.feedbackDays)),
        ]
        let row = try await execute(.longestRetention, parameters).one()
        var longest = usual
        (longest.days, longest.feedbackDays) = (Int(row.int4("keep")), Int(row.int4("keep_feedback")))
        return longest
    }

    /// Deletes what tenants keep no longer from days that others keep.
    private func clearDays(
        _ usual: Retention, today: CalendarDay?, while goesOn: () async throws(PostgresError) -> Bool
    ) async throws(PostgresError) {
        let parameters: Parameters = [
            "today": .date(today), "days": .int4(Int32(usual.days)), "feedback_days": .int4(Int32(usual.feedbackDays)),
        ]
        let days = try await execute(.daysToClear, parameters).map { row in
            (parent: row.text("parent"), day: row.date("day"), queues: row.int4Array("queues"))
        }
        for (parent, day, queues) in days {
            _ = try await clearDay(day, of: parent, queues: queues, while: goesOn) { _, _ in }
        }
    }

    /// Deletes what these queues have in a day of history, but for what still waits. Returns whether all of it is gone.
    /// - Parameters:
    ///   - parent: the table.
    ///   - goesOn: asked before each step.
    ///   - count: is told of each step how many rows of which table it has deleted.
    func clearDay(
        _ day: CalendarDay, of parent: String, queues: [Int32], while goesOn: () async throws(PostgresError) -> Bool,
        count: (String, Int) -> Void
    ) async throws(PostgresError) -> Bool {
        let part: Parameters = ["parent": .text(parent), "day": .date(day), "queues": .int4Array(queues)]
        var gone = 5000
        while gone == 5000 {
            guard try await goesOn() else { return false }
            gone = try await execute(.clearDay, part).one().count("clear_day")
            count(parent, gone)
        }
        return true
    }

    /// Moves what still waits to today, if its day is past retention.
    private func moveOutOfOldDays(
        _ retention: Retention, today: CalendarDay?, while goesOn: () async throws(PostgresError) -> Bool
    ) async throws(PostgresError) {
        let period: Parameters = ["today": .date(today), "days": .int4(Int32(retention.days))]
        guard try await execute(.hasOldDays, period).one().bool("has_old_days") else { return }
        _ = try await execute(.moveScheduled, period)
        var last: (queue: Int32, job: Int64)? = (-1, 0)
        while let (queue, job) = last, try await goesOn() {
            let parameters = period + ["after_queue": .int4(queue), "after_job": .int8(job)]
            let row = try await execute(.moveWaiting, parameters).one()
            last = row.optionalInt4("after_queue").map { ($0, row.int8("after_job")) }
        }
    }

    /// Runs a statement that waits for its locks half a second at most: others wait behind it.
    private func change(_ statement: String) async throws(PostgresError) {
        try await runScript("set local lock_timeout = '500ms'; \(statement)")
    }
}
