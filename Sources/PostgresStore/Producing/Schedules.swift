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
        select tenant, app, environment, schedule, cron, time_zone, after_outage, payload::text as payload,
               options::text as options, state,
               array(select key from jsonb_each_text(options) order by key) as option_names,
               array(select value from jsonb_each_text(options) order by key) as option_values,
               array(select jsonb_typeof(value) from jsonb_each(options) order by key) as option_types,
               array(select case when key in ('send_by', 'expiration', 'catch_up')
                                 then extract(epoch from value::interval)::text else '' end
                     from jsonb_each_text(options) order by key) as option_seconds,
               array(select extract(epoch from r)::bigint from unnest(next_runs) r) as next_runs, run_at, campaign,
               missed_at, created_at, problems
        from pushq.show_schedules($queue, $name, $most::int, $matching, $state, $limit)
        """#)
}

/// What happens to runs that no worker could start in time.
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
    /// Further arguments of `pushq.start_campaign` for its campaigns: a JSON object in which times are intervals after
    /// the start.
    package var options: String

    package init(cron: String, timeZone: String, afterOutage: AfterOutage, payload: String, options: String) {
        self.cron = cron
        self.timeZone = timeZone
        self.afterOutage = afterOutage
        self.payload = payload
        self.options = options
    }
}

/// Whether a schedule starts campaigns.
package enum ScheduleState: String, CaseIterable, Sendable {
    case active, paused
    /// The schedule is active, but something prevents its runs.
    case heldUp = "held up"
}

/// The value of an option of a schedule.
package enum ScheduleOption: Sendable {
    case duration(Duration)
    case number(Double)
    case bool(Bool)
    case text(String)
    /// An array or object, on one line.
    case json(String)

    /// - Parameters:
    ///   - type: the type of the JSON value.
    ///   - seconds: the duration, if the option is an interval.
    fileprivate init(_ value: String, ofType type: String, seconds: Double?) {
        self =
            switch type {
            case _ where seconds != nil: .duration(.seconds(seconds ?? 0))
            case "number": Double(value).map(Self.number) ?? .text(value)
            case "boolean": .bool(value == "true")
            case "array", "object": .json(value)
            default: .text(value)
            }
    }
}

/// A schedule as operators see it.
package struct ScheduleSummary: Sendable {
    package let queue: QueueName
    package let name: String
    package let draft: ScheduleDraft
    /// The draft's options, by name.
    package let options: [(name: String, value: ScheduleOption)]
    package let state: ScheduleState
    /// The next runs, as many as asked for. Of a paused schedule, the runs that it would have.
    package let nextRuns: [Date]
    /// The last run that started a campaign, and the campaign's key.
    package let lastRun: (time: Date, campaign: String)?
    /// The last run that was not started because it was too late.
    package let missedAt: Date?
    package let createdAt: Date
    /// Why nothing is started or sent at present, in words.
    package let problems: [String]

    package var isPaused: Bool { state == .paused }

    fileprivate init?(_ row: Row) {
        guard let queue = QueueName(row), let state = ScheduleState(rawValue: row.text("state")) else { return nil }
        self.queue = queue
        self.state = state
        name = row.text("schedule")
        draft = ScheduleDraft(
            cron: row.text("cron"), timeZone: row.text("time_zone"),
            afterOutage: row.value("after_outage", as: AfterOutage.self), payload: row.text("payload"),
            options: row.text("options"))
        let values = zip(
            zip(row.textArray("option_types"), row.textArray("option_values")), row.textArray("option_seconds"))
        options = zip(row.textArray("option_names"), values).map { name, value in
            (name, ScheduleOption(value.0.1, ofType: value.0.0, seconds: Double(value.1)))
        }
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
    /// - Parameter isReplacing: whether a different schedule of that name is replaced; if not, it is an error.
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

    /// Carries out an order. Returns false if the schedule is already in that state or, for `remove`, does not exist.
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

    /// Returns the schedules of a queue or of all queues, by name, or only the one called `name`.
    /// - Parameters:
    ///   - matching: only schedules with this text in their names.
    ///   - state: only schedules in this state.
    ///   - limit: the maximum number of schedules; nil: all.
    ///   - runs: the number of next runs of each schedule.
    package func schedules(
        ofQueue queue: QueueName?, named name: String? = nil, matching: String? = nil, state: ScheduleState? = nil,
        limit: Int? = nil, runs: Int = 1
    ) async throws(PostgresError) -> [ScheduleSummary] {
        let parameters: Parameters = [
            "queue": .queue(queue), "name": .text(name), "most": .int4(Int32(runs)), "matching": .text(matching),
            "state": .text(state?.rawValue), "limit": .int8(limit.map(Int64.init)),
        ]
        return try await execute(.schedules, parameters).compactMap(ScheduleSummary.init)
    }
}
