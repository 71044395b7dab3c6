package import QueueCore

extension Statement {
    /// Creates a queue. If exactly one credential of the tenant is valid for it, the queue uses that one.
    static let createQueue = Statement(
        "create_queue",
        #"""
        with a as materialized (
          select a.tenant_id, a.id from pushq.app a join pushq.tenant t on t.id = a.tenant_id
          where t.name = $tenant and a.bundle_id = $bundle_id),
        good as materialized (
          select min(c.id) as id from pushq.credential c join a using (tenant_id)
          where pushq.credential_fits(c, $bundle_id, $environment)
          having count(*) = 1),
        made as (
          insert into pushq.queue (tenant_id, app_id, environment, credential_id)
          select a.tenant_id, a.id, $environment, (select id from good) from a
          on conflict on constraint queue_app_environment_once do nothing returning id)
        select exists (select from a) as has_parent, exists (select from made) as was_made
        """#)

    static let queues = Statement(
        "queues",
        #"""
        select tenant_name as tenant, app, environment, rate, burst, weight, connections, max_attempts, credential,
               gateway, frequency_cap, quiet_hours, paused_reason, jobs, recipients, has_more_jobs
        from pushq.show_queues($tenant, $matching, $limit, $counting)
        """#)

    static let queueNames = Statement("queue_names", "select name from pushq.queue_name")

    static let pauseQueue = Statement(
        "pause_queue",
        #"""
        with former as materialized (
          select q.id, q.paused_at, q.paused_reason
          from pushq.queue q
          where q.id = pushq.queue_id($queue)
          for update)
        update pushq.queue q
        set paused_at = coalesce(q.paused_at, now()), paused_reason = $reason, paused_credential_version = null
        from former f
        where q.id = f.id
        returning case when f.paused_at is not null then coalesce(f.paused_reason, '') end as former_reason,
                  pushq.tell('queue', q.id)::text
        """#)

    static let resumeQueue = Statement(
        "resume_queue", "select coalesce(pushq.resume_queue(pushq.queue_id($queue)), false) as was_paused")

    /// Null leaves a setting unchanged.
    static let setQueue = Statement(
        "set_queue",
        #"""
        update pushq.queue
        set weight = coalesce($weight::float8::real, weight), connections = coalesce($connections::int, connections),
            max_attempts = coalesce($max_attempts::int, max_attempts),
            derive_collapse_id = coalesce($derive_collapse_id::boolean, derive_collapse_id),
            gateway = coalesce($gateway, gateway), feedback_every = coalesce($feedback_every::interval, feedback_every)
        where id = pushq.queue_id($queue)
        """#)

    /// By default, the burst is the permits of a tenth of a second: enough for a worker that is a little late, and too
    /// small to be noticed.
    static let setRate = Statement(
        "set_rate",
        #"""
        insert into pushq.rate_limit (tenant_id, queue_id, rate, burst)
        select q.tenant_id, q.id, $rate::float8, coalesce($burst::float8, greatest(1, ceil($rate::float8 / 10)))
        from pushq.queue q
        where q.id = pushq.queue_id($queue)
        on conflict on constraint rate_limit_pkey do update set rate = excluded.rate, burst = excluded.burst
        returning pushq.tell('queue', queue_id)::text
        """#)

    /// Null leaves a setting unchanged; in a new cap, it is the default.
    static let setFrequencyCap = Statement(
        "set_frequency_cap",
        #"""
        insert into pushq.frequency_cap (queue_id, pushes, period, includes_urgent, time_zone)
        select pushq.queue_id($queue), $pushes::smallint, $period::interval,
               coalesce($includes_urgent::boolean, false), $time_zone
        on conflict on constraint frequency_cap_pkey do update
        set pushes = excluded.pushes, period = excluded.period,
            includes_urgent = coalesce($includes_urgent::boolean, frequency_cap.includes_urgent),
            time_zone = coalesce($time_zone, frequency_cap.time_zone), set_at = now()
        returning pushq.tell('queue', queue_id)::text
        """#)

    static let changeFrequencyCap = Statement(
        "change_frequency_cap",
        #"""
        update pushq.frequency_cap
        set includes_urgent = coalesce($includes_urgent::boolean, includes_urgent),
            time_zone = coalesce($time_zone, time_zone), set_at = now()
        where queue_id = pushq.queue_id($queue)
        returning pushq.tell('queue', queue_id)::text
        """#)

    static let liftFrequencyCap = Statement(
        "lift_frequency_cap",
        #"""
        delete from pushq.frequency_cap
        where queue_id = pushq.queue_id($queue)
        returning pushq.tell('queue', queue_id)::text
        """#)

    static let timeZoneProblem = Statement("time_zone_problem", "select pushq.time_zone_problem($time_zone) as problem")

    static let setBurst = Statement(
        "set_burst",
        #"""
        update pushq.rate_limit
        set burst = $burst::float8
        where tenant_id = (select tenant_id from pushq.queue where id = pushq.queue_id($queue))
          and queue_id = pushq.queue_id($queue) and campaign_id = 0
        returning queue_id
        """#)

    static let liftRate = Statement(
        "lift_rate",
        #"""
        delete from pushq.rate_limit
        where tenant_id = (select tenant_id from pushq.queue where id = pushq.queue_id($queue))
          and queue_id = pushq.queue_id($queue) and campaign_id = 0
        returning pushq.tell('queue', queue_id)::text
        """#)
}

/// A queue as an operator sees it.
package struct QueueSummary: Sendable {
    package let name: QueueName
    /// Pushes per second, and how many may be sent at once after a quiet time; nil: no limit.
    package let rate: Double?
    package let burst: Double?
    package let weight: Double
    package let connections: Int
    package let maxAttempts: Int
    package let credential: String?
    /// The interface to APNs that it uses.
    package let gateway: String
    /// Its frequency cap in words; nil: none.
    package let frequencyCap: String?
    /// Its quiet hours in words; nil: none.
    package let quietHours: String?
    /// Why nothing is sent for it; nil if it is not paused.
    package let pausedReason: String?
    /// What waits, counted up to a limit. If `hasMoreJobs`, there may be more.
    package let waitingJobs: Int
    package let waitingRecipients: Int
    package let hasMoreJobs: Bool
}

/// What `queue set` may change; nil leaves a setting as it is.
package struct QueueChange: Sendable {
    package var weight: Double?
    package var connections: Int?
    package var maxAttempts: Int?
    package var derivesCollapseID: Bool?
    package var gateway: GatewayKind?
    /// How often the feedback service of the binary interface is asked: once a minute to once in 30 days.
    package var feedbackEvery: Duration?

    /// No change.
    package init() {}
}

extension PostgresConnection {
    /// Returns the names of all queues.
    package func queueNames() async throws(PostgresError) -> [String] {
        try await execute(.queueNames).map { $0.text("name") }
    }

    /// Creates a queue of an app with a rate from the first moment on; see ``createQueue(_:)``.
    package func createQueue(_ name: QueueName, rate: Double?, burst: Double?) async throws -> CreationResult {
        guard let rate else { return try await createQueue(name) }
        return try await transaction {
            let result = try await createQueue(name)
            if result == .created { try await setRate(rate, burst: burst, of: name) }
            return result
        }
    }

    /// Creates a queue of an app. Throws if the tenant is in another database or is being moved to one.
    package func createQueue(_ name: QueueName) async throws(PostgresError) -> CreationResult {
        let parameters: Parameters = [
            "tenant": .text(name.tenant), "bundle_id": .text(name.app), "environment": .text(name.environment.rawValue),
        ]
        while true {
            do throws(PostgresError) {
                let result = CreationResult(try await execute(.createQueue, parameters).one())
                if result == .parentMissing { try await refuseMoved(name.tenant) }
                return result
            } catch {
                if error.violates("queue_app_exists") { return .parentMissing }
                // The credential that it was to get was removed meanwhile. The next try does not find it.
                guard error.violates("queue_credential_exists") else { throw error }
            }
        }
    }

    /// Returns the queues of one tenant, or of all tenants.
    /// - Parameter counting: the maximum number of waiting jobs to count, shared by the queues; nil: all.
    package func queues(
        of tenant: String?, _ selection: ListSelection = ListSelection(),
        counting: Int? = QueueStatistics.usualLimit
    ) async throws(PostgresError) -> [QueueSummary] {
        let parameters: Parameters = ["tenant": .text(tenant), "counting": .int8(counting.map(Int64.init))]
        return try await execute(
            .queues, parameters + selection.parameters, within: counting == nil ? Self.fileLimit : nil
        ).compactMap(QueueSummary.init)
    }

    /// Pauses a queue until it is resumed. An unknown queue is an error. Returns the reason for which it was paused
    /// already; nil if it was not.
    @discardableResult
    package func pauseQueue(_ name: QueueName, reason: String) async throws(PostgresError) -> String? {
        try await execute(.pauseQueue, ["queue": .queue(name), "reason": .text(reason)]).first?
            .optionalText("former_reason")
    }

    /// Resumes a paused queue. An unknown queue is an error. Returns false if it was not paused.
    @discardableResult
    package func resumeQueue(_ name: QueueName) async throws(PostgresError) -> Bool {
        try await execute(.resumeQueue, ["queue": .queue(name)]).one().bool("was_paused")
    }

    /// Changes settings of a queue. An unknown queue is an error.
    package func setQueue(_ name: QueueName, to change: QueueChange) async throws(PostgresError) {
        _ = try await execute(
            .setQueue,
            [
                "queue": .queue(name), "weight": .float8(change.weight),
                "connections": .int4(change.connections.map(Int32.init)),
                "max_attempts": .int4(change.maxAttempts.map(Int32.init)),
                "derive_collapse_id": .bool(change.derivesCollapseID), "gateway": .text(change.gateway?.rawValue),
                "feedback_every": .interval(change.feedbackEvery),
            ])
    }

    /// Limits a queue to `rate` pushes per second, and `burst` pushes at once after a quiet time.
    package func setRate(_ rate: Double, burst: Double?, of name: QueueName) async throws(PostgresError) {
        _ = try await execute(
            .setRate, ["queue": .queue(name), "rate": .float8(rate), "burst": .float8(burst)])
    }

    /// Changes the burst of a queue that has a rate. Returns false if it has none.
    package func setBurst(_ burst: Double, of name: QueueName) async throws(PostgresError) -> Bool {
        try await execute(.setBurst, ["queue": .queue(name), "burst": .float8(burst)]).count > 0
    }

    /// Gives a queue a frequency cap, or changes it. Nil leaves the other settings of the cap unchanged.
    /// - Parameter timeZone: the zone of devices whose own zone is unknown.
    package func setFrequencyCap(
        _ cap: FrequencyCap, includesUrgent: Bool?, timeZone: String?, of name: QueueName
    ) async throws(PostgresError) {
        _ = try await execute(
            .setFrequencyCap,
            [
                "queue": .queue(name), "pushes": .int2(Int16(cap.pushes)), "period": .interval(cap.period),
                "includes_urgent": .bool(includesUrgent), "time_zone": .text(timeZone),
            ])
    }

    /// Changes the other settings of a queue's frequency cap. Returns false if the queue has none.
    package func changeFrequencyCap(
        includesUrgent: Bool?, timeZone: String?, of name: QueueName
    ) async throws(PostgresError) -> Bool {
        let parameters: Parameters = [
            "queue": .queue(name), "includes_urgent": .bool(includesUrgent), "time_zone": .text(timeZone),
        ]
        return try await execute(.changeFrequencyCap, parameters).count > 0
    }

    /// Removes a queue's frequency cap.
    package func liftFrequencyCap(of name: QueueName) async throws(PostgresError) {
        _ = try await execute(.liftFrequencyCap, ["queue": .queue(name)])
    }

    /// Returns what is wrong with the name of a time zone; nil if it is valid.
    package func timeZoneProblem(_ name: String) async throws(PostgresError) -> String? {
        try await execute(.timeZoneProblem, ["time_zone": .text(name)]).one().optionalText("problem")
    }

    /// Removes a queue's rate limit.
    package func liftRate(of name: QueueName) async throws(PostgresError) {
        _ = try await execute(.liftRate, ["queue": .queue(name)])
    }
}

extension QueueSummary {
    fileprivate init?(_ row: Row) {
        guard let name = QueueName(row) else { return nil }
        self.init(
            name: name, rate: row.optionalFloat8("rate"), burst: row.optionalFloat8("burst"),
            weight: row.float8("weight"), connections: Int(row.int2("connections")),
            maxAttempts: Int(row.int2("max_attempts")), credential: row.optionalText("credential"),
            gateway: row.text("gateway"), frequencyCap: row.optionalText("frequency_cap"),
            quietHours: row.optionalText("quiet_hours"),
            pausedReason: row.optionalText("paused_reason"),
            waitingJobs: row.count("jobs"), waitingRecipients: row.count("recipients"),
            hasMoreJobs: row.bool("has_more_jobs"))
    }
}
