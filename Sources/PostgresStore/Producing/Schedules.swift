package import FoundationEssentials
package import QueueCore

extension Statement {
    static let addSchedule = Statement(
        "add_schedule",
        #"""
        select pushq.add_schedule(
          queue => $queue, name => $name, cron => $cron, payload => $payload::json, time_zone => $time_zone,
          after_outage => $after_outage, options => $options::text::jsonb, replaces => $replaces)
        """#)
    static let removeSchedule = Statement("remove_schedule", "select pushq.remove_schedule($queue, $name)")
    static let pauseSchedule = Statement("pause_schedule", "select pushq.pause_schedule($queue, $name)")
    static let resumeSchedule = Statement("resume_schedule", "select pushq.resume_schedule($queue, $name)")
    static let runSchedule = Statement("run_schedule", "select pushq.run_schedule($queue, $name)")
    static let schedules = Statement(
        "schedules",
        #"""
        select schedule, cron, time_zone, after_outage, payload::text as payload, options::text as options, is_paused,
               array(select key from jsonb_each_text(options) order by key) as option_names,
               array(select value from jsonb_each_text(options) order by key) as option_values,
               array(select extract(epoch from r)::bigint from unnest(next_runs) r) as next_runs, run_at, campaign,
               missed_at, created_at, problems
        from pushq.show_schedules($queue, $name, $most::int)
        """#)
}

/// What becomes of runs that nobody could start at their time.
package enum AfterOutage: String, CaseIterable, Sendable {
    case skip, once, all
}

/// A schedule to be added.
package struct ScheduleDraft: Sendable {
    package var cron: String
    package var timeZone: String
    package var afterOutage: AfterOutage
    /// JSON, sent byte for byte.
    package var payload: String
    /// What else its campaigns are started with: a JSON object of arguments of `pushq.start_campaign`, in which times
    /// are intervals from the start on.
    package var options: String

    package init(cron: String, timeZone: String, afterOutage: AfterOutage, payload: String, options: String) {
        self.cron = cron
        self.timeZone = timeZone
        self.afterOutage = afterOutage
        self.payload = payload
        self.options = options
    }
}

/// A schedule as it is shown.
package struct ScheduleSummary: Sendable {
    package let name: String
    package let draft: ScheduleDraft
    /// The draft's options, one by one.
    package let options: [(name: String, value: String)]
    package let isPaused: Bool
    /// The next ones, as far as asked for; of a paused one those that it would have.
    package let nextRuns: [Date]
    /// The last run that a campaign was started for, and the campaign's key.
    package let lastRun: (time: Date, campaign: String)?
    /// The last run that came too late to be started.
    package let missedAt: Date?
    package let createdAt: Date
    /// Why nothing is started, or sent, at present, in words.
    package let problems: [String]

    /// In a word: `paused`, `held up` or `active`.
    package var state: String { isPaused ? "paused" : problems.isEmpty ? "active" : "held up" }

    fileprivate init(_ row: Row) {
        name = row.text("schedule")
        draft = ScheduleDraft(
            cron: row.text("cron"), timeZone: row.text("time_zone"),
            afterOutage: AfterOutage(rawValue: row.text("after_outage")) ?? .skip, payload: row.text("payload"),
            options: row.text("options"))
        options = zip(row.textArray("option_names"), row.textArray("option_values")).map { ($0, $1) }
        isPaused = row.bool("is_paused")
        nextRuns = row.int8Array("next_runs").map { Date(timeIntervalSince1970: Double($0)) }
        lastRun = row.optionalTime("run_at").flatMap { time in
            row.optionalText("campaign").map { (time, $0) }
        }
        missedAt = row.optionalTime("missed_at")
        createdAt = row.time("created_at")
        problems = row.textArray("problems")
    }
}

/// What may be done to a schedule.
package enum ScheduleOrder: Sendable {
    case pause, resume, remove
}

extension PostgresConnection {
    /// Adds a schedule. Repeating it changes nothing.
    /// - Parameter isReplacing: whether a schedule of that name that says something else is replaced, and no error.
    package func addSchedule(
        _ draft: ScheduleDraft, as name: String, ofQueue queue: QueueName, isReplacing: Bool
    ) async throws(PostgresError) {
        let parameters: Parameters = [
            "queue": .queue(queue), "name": .text(name), "cron": .text(draft.cron), "payload": .text(draft.payload),
            "time_zone": .text(draft.timeZone), "after_outage": .text(draft.afterOutage.rawValue),
            "options": .text(draft.options), "replaces": .bool(isReplacing),
        ]
        _ = try await execute(.addSchedule, parameters)
    }

    /// Carries out an order. False if the schedule's state does not need it; of `remove`, if there is none of that
    /// name.
    package func order(
        _ order: ScheduleOrder, schedule name: String, ofQueue queue: QueueName
    ) async throws(PostgresError) -> Bool {
        let parameters: Parameters = ["queue": .queue(queue), "name": .text(name)]
        return switch order {
        case .pause: try await execute(.pauseSchedule, parameters).one().bool("pause_schedule")
        case .resume: try await execute(.resumeSchedule, parameters).one().bool("resume_schedule")
        case .remove: try await execute(.removeSchedule, parameters).one().bool("remove_schedule")
        }
    }

    /// Starts the campaign of a schedule now. Returns its key.
    package func runSchedule(_ name: String, ofQueue queue: QueueName) async throws(PostgresError) -> String {
        try await execute(.runSchedule, ["queue": .queue(queue), "name": .text(name)]).one().text("run_schedule")
    }

    /// The schedules of a queue by name, or only the one with `name`.
    /// - Parameter runs: how many of the next runs of each.
    package func schedules(
        ofQueue queue: QueueName, named name: String? = nil, runs: Int = 1
    ) async throws(PostgresError) -> [ScheduleSummary] {
        let parameters: Parameters = [
            "queue": .queue(queue), "name": .text(name), "most": .int4(Int32(runs)),
        ]
        return try await execute(.schedules, parameters).map(ScheduleSummary.init)
    }
}
