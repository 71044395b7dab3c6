extension Statement {
    static let hasToday = Statement(
        "has_today",
        "select to_regclass('pushq.result' || to_char(pushq.today(), '_YYYYMMDD')) is not null as has_today")
    static let makePartition = Statement(
        "make_partition", "select pushq.make_partition($today::date, $days_ahead::int)")
    static let dropPartition = Statement(
        "drop_partition", "select pushq.drop_partition($today::date, $days::int, $feedback_days::int)")
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
    /// - Parameters:
    ///   - today: the day to do it for; nil for the database's own.
    ///   - tries: how often a day is tried that other transactions have open. Each try holds up everybody for 50 ms.
    ///   - goesOn: asked before each step of what may take long; where it says no, the rest is left to the next round.
    /// - Returns: what was made or dropped, as `made body_20260301`.
    package func maintainPartitions(
        _ retention: Retention = Retention(), today: CalendarDay? = nil, tries: Int = 20,
        while goesOn: () async throws(PostgresError) -> Bool = { true }
    ) async throws(PostgresError) -> [String] {
        let made = try await makePartitions(retention, today: today)
        try await moveOutOfOldDays(try await longest(retention), today: today, while: goesOn)
        let dropped: Result<[String], PostgresError>
        do throws(PostgresError) {
            dropped = .success(try await dropPartitions(retention, today: today, tries: tries, while: goesOn))
        } catch {
            dropped = .failure(error)
        }
        // A day that is in use keeps no other from being cleared.
        try await clearDays(retention, today: today, while: goesOn)
        return try made + dropped.get()
    }

    /// Whether history has a partition for today.
    package func hasToday() async throws(PostgresError) -> Bool {
        try await execute(.hasToday).one().bool("has_today")
    }

    /// Makes the partitions that will be needed.
    /// - Returns: what was made, as `made body_20260301`.
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

    /// Drops the days that are past retention. A day that other transactions have open is tried several times.
    /// - Returns: what was dropped, as `dropped body_20260301`.
    private func dropPartitions(
        _ retention: Retention, today: CalendarDay?, tries: Int, while goesOn: () async throws(PostgresError) -> Bool
    ) async throws(PostgresError) -> [String] {
        let period: Parameters = [
            "today": .date(today), "days": .int4(Int32(retention.days)),
            "feedback_days": .int4(Int32(retention.feedbackDays)),
        ]
        var dropped: [String] = []
        var failures = 0
        while try await goesOn() {
            do throws(PostgresError) {
                guard let name = try await execute(.dropPartition, period).one().optionalText("drop_partition") else {
                    break
                }
                dropped.append("dropped \(name)")
                failures = 0
            } catch .contended(let error) {
                failures += 1
                guard failures < tries else { throw .contended(error) }
                // Those who waited behind this one go first.
                try? await Task.sleep(for: .milliseconds(250))
            }
        }
        return dropped
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
}
