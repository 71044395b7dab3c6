extension Statement {
    static let hasToday = Statement("has_today", "select pushq.has_today()")
    static let makePartition = Statement(
        "make_partition", "select pushq.make_partition($today::date, $days_ahead::int)")
    static let dropPartition = Statement(
        "drop_partition", "select pushq.drop_partition($parent, $today::date, $days::int, $feedback_days::int)")
    static let longestRetention = Statement(
        "longest_retention", "select keep, keep_feedback from pushq.longest_retention($days::int, $feedback_days::int)")
    static let daysToClear = Statement(
        "days_to_clear",
        #"""
        select parent, day, queues
        from pushq.days_to_clear(coalesce($today::date, pushq.today()), $days::int, $feedback_days::int)
        """#)
    static let clearDay = Statement(
        "clear_day",
        #"""
        select after_queue, after_id, gone
        from pushq.clear_day($parent, $day::date, $queues::int[], 5000, $after_queue::int, $after_id::bigint)
        """#)
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
    /// Creates the partitions that will be needed, and drops those that are past retention, without blocking other
    /// transactions for long: it leaves what it cannot lock soon to the next round. If some tenants keep a day longer
    /// than others, the rows of those others are deleted from it.
    /// - Parameters:
    ///   - today: the current day; nil: the database's.
    ///   - tries: how often to try to drop days that other transactions use. Each try blocks all others for 50 ms.
    ///   - mayContinue: asked before each long step; if false, the rest is left to the next round.
    /// - Returns: what was created or dropped, such as `made body_20260301`.
    package func maintainPartitions(
        _ retention: Retention = Retention(), today: CalendarDay? = nil, tries: Int = 20,
        while mayContinue: () async throws(PostgresError) -> Bool = { true }
    ) async throws(PostgresError) -> [String] {
        var changed = try await makePartitions(retention, today: today)
        var problems = Problems()
        // A job that cannot be moved keeps only its own day, and a day that is in use does not keep other days from
        // being cleared.
        await problems.note { () async throws(PostgresError) in
            try await moveOutOfOldDays(try await longest(retention), today: today, while: mayContinue)
        }
        await problems.note { () async throws(PostgresError) in
            changed += try await dropPartitions(retention, today: today, tries: tries, while: mayContinue)
        }
        await problems.note { () async throws(PostgresError) in
            try await clearDays(retention, today: today, while: mayContinue)
        }
        try problems.throwFirst()
        return changed
    }

    /// Whether history has partitions for today.
    package func hasToday() async throws(PostgresError) -> Bool {
        try await execute(.hasToday).one().bool("has_today")
    }

    /// Creates the partitions that will be needed.
    /// - Returns: what was created, such as `made body_20260301`.
    package func makePartitions(
        _ retention: Retention = Retention(), today: CalendarDay? = nil
    ) async throws(PostgresError) -> [String] {
        var made: [String] = []
        let ahead: Parameters = ["today": .date(today), "days_ahead": .int4(Int32(retention.daysAhead))]
        while let name = try await execute(.makePartition, ahead).one().optionalText("make_partition") {
            made.append("made \(name)")
        }
        return made
    }

    /// Drops the days that are past retention. Tries several times if other transactions use a table, and meanwhile
    /// drops the days of the other tables.
    /// - Returns: what was dropped, such as `dropped body_20260301`.
    private func dropPartitions(
        _ retention: Retention, today: CalendarDay?, tries: Int,
        while mayContinue: () async throws(PostgresError) -> Bool
    ) async throws(PostgresError) -> [String] {
        let period: Parameters = [
            "today": .date(today), "days": .int4(Int32(retention.days)),
            "feedback_days": .int4(Int32(retention.feedbackDays)),
        ]
        var dropped: [String] = []
        var failures = 0
        while true {
            let before = dropped.count
            var contention: ServerError?
            // Drops recipients before their messages and outcomes.
            for parent in ["body", "feedback", "message", "result"] {
                do throws(PostgresError) {
                    while try await mayContinue() {
                        let row = try await execute(.dropPartition, period + ["parent": .text(parent)]).one()
                        guard let name = row.optionalText("drop_partition") else { break }
                        dropped.append("dropped \(name)")
                    }
                } catch .contended(let error) {
                    contention = error
                }
            }
            guard let contention else { return dropped }
            failures = dropped.count > before ? 1 : failures + 1
            guard failures < tries else { throw .contended(contention) }
            // Lets the transactions that waited behind this one go first.
            try? await Task.sleep(for: .milliseconds(250))
        }
    }

    /// The retention of the tenant that keeps its rows longest.
    private func longest(_ usual: Retention) async throws(PostgresError) -> Retention {
        let parameters: Parameters = [
            "days": .int4(Int32(usual.days)), "feedback_days": .int4(Int32(usual.feedbackDays)),
        ]
        let row = try await execute(.longestRetention, parameters).one()
        var longest = usual
        (longest.days, longest.feedbackDays) = (Int(row.int4("keep")), Int(row.int4("keep_feedback")))
        return longest
    }

    /// Deletes rows that their tenants no longer keep from days that other tenants keep.
    private func clearDays(
        _ usual: Retention, today: CalendarDay?, while mayContinue: () async throws(PostgresError) -> Bool
    ) async throws(PostgresError) {
        let parameters: Parameters = [
            "today": .date(today), "days": .int4(Int32(usual.days)), "feedback_days": .int4(Int32(usual.feedbackDays)),
        ]
        let days = try await execute(.daysToClear, parameters).map { row in
            (parent: row.text("parent"), day: row.date("day"), queues: row.int4Array("queues"))
        }
        for (parent, day, queues) in days {
            _ = try await clearDay(day, of: parent, queues: queues, while: mayContinue) { _, _ in }
        }
    }

    /// Deletes the rows of these queues in a day of history, except what still waits. Returns whether all of them are
    /// gone.
    /// - Parameters:
    ///   - parent: the partitioned table.
    ///   - mayContinue: asked before each step.
    ///   - count: is called after each step with the table and the number of rows deleted.
    func clearDay(
        _ day: CalendarDay, of parent: String, queues: [Int32],
        while mayContinue: () async throws(PostgresError) -> Bool,
        count: (String, Int) -> Void
    ) async throws(PostgresError) -> Bool {
        let part: Parameters = ["parent": .text(parent), "day": .date(day), "queues": .int4Array(queues)]
        var last: (queue: Int32, id: Int64)? = (0, 0)
        while let (queue, id) = last {
            guard try await mayContinue() else { return false }
            let row = try await execute(.clearDay, part + ["after_queue": .int4(queue), "after_id": .int8(id)]).one()
            last = row.optionalInt4("after_queue").map { ($0, row.int8("after_id")) }
            count(parent, row.count("gone"))
        }
        return true
    }

    /// Moves waiting jobs to today if their day is past retention or if they are due soon.
    private func moveOutOfOldDays(
        _ retention: Retention, today: CalendarDay?, while mayContinue: () async throws(PostgresError) -> Bool
    ) async throws(PostgresError) {
        let period: Parameters = ["today": .date(today), "days": .int4(Int32(retention.days))]
        guard try await execute(.hasOldDays, period).one().bool("has_old_days") else { return }
        var problems = Problems()
        await problems.note { () async throws(PostgresError) in
            _ = try await execute(.moveScheduled, period)
        }
        var last: (queue: Int32, job: Int64)? = (-1, 0)
        while let (queue, job) = last, try await mayContinue() {
            let parameters = period + ["after_queue": .int4(queue), "after_job": .int8(job)]
            let row = try await execute(.moveWaiting, parameters).one()
            last = row.optionalInt4("after_queue").map { ($0, row.int8("after_job")) }
        }
        try problems.throwFirst()
    }
}
