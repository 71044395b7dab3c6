package import QueueCore

extension Statement {
    /// If exactly one credential of the tenant is good for the queue, it is taken.
    static let createQueue = Statement(
        "create_queue",
        #"""
        with a as materialized (
          select a.tenant_id, a.id from pushq.app a join pushq.tenant t on t.id = a.tenant_id
          where t.name = $tenant and a.bundle_id = $bundle_id),
        good as materialized (
          select min(c.id) as id from pushq.credential c join a using (tenant_id)
          where $environment = any (c.environments) and (c.topics = '{}' or $bundle_id = any (c.topics))
            and (c.not_after is null or c.not_after > now())
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
        update pushq.queue
        set paused_at = coalesce(paused_at, now()), paused_reason = $reason, paused_credential_version = null
        where id = pushq.queue_id($queue)
        returning pushq.tell('queue', id)::text
        """#)

    /// Not one about which somebody has to decide since the database was restored.
    static let resumeQueue = Statement(
        "resume_queue",
        #"""
        update pushq.queue
        set paused_at = null, paused_reason = null, paused_credential_version = null, resumed_at = clock_timestamp()
        where id = pushq.queue_id($queue) and pushq.may_resume(id)
        returning pushq.tell('queue', id)::text, pushq.wake(id)::text
        """#)

    /// What is null stays as it is.
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

    /// A burst that is not given is a tenth of a second's permits: enough for a worker that comes
    /// a little late, too little to be noticed.
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

    /// What is null stays as it was, or is what a cap has by default.
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
    /// Pushes a second and how many at once after a quiet time; nil: no limit.
    package let rate: Double?
    package let burst: Double?
    package let weight: Double
    package let connections: Int
    package let maxAttempts: Int
    package let credential: String?
    /// The interface that it is sent over.
    package let gateway: String
    /// Its frequency cap in words; nil: none.
    package let frequencyCap: String?
    /// Its quiet hours in words; nil: none.
    package let quietHours: String?
    /// Why nothing of it is sent; nil when it is.
    package let pausedReason: String?
    /// What waits, counted up to a bound; then there may be more.
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
    /// How often the feedback service of the binary interface is asked: a minute to 30 days.
    package var feedbackEvery: Duration?

    /// No change.
    package init() {}
}

extension PostgresConnection {
    /// The names of all queues.
    package func queueNames() async throws(PostgresError) -> [String] {
        try await execute(.queueNames).map { $0.text("name") }
    }

    /// Makes a queue of an app.
    package func createQueue(_ name: QueueName) async throws(PostgresError) -> Creation {
        let parameters: Parameters = [
            "tenant": .text(name.tenant), "bundle_id": .text(name.app), "environment": .text(name.environment.rawValue),
        ]
        while true {
            do throws(PostgresError) {
                return Creation(try await execute(.createQueue, parameters).one())
            } catch {
                if error.violates("queue_app_exists") { return .parentMissing }
                // The credential that it was to have was removed meanwhile, and is not found again.
                guard error.violates("queue_credential_exists") else { throw error }
            }
        }
    }

    /// The queues of one tenant, or of all.
    /// - Parameter counting: the most waiting jobs that are counted, shared by the queues; nil: all.
    package func queues(
        of tenant: String?, _ selection: ListSelection = ListSelection(),
        counting: Int? = QueueStatistics.usualLimit
    ) async throws(PostgresError) -> [QueueSummary] {
        let parameters: Parameters = ["tenant": .text(tenant), "counting": .int8(counting.map(Int64.init))]
        return try await execute(.queues, parameters + selection.parameters).compactMap(QueueSummary.init)
    }

    /// Stops sending of a queue until it is resumed. An unknown queue is an error.
    package func pauseQueue(_ name: QueueName, reason: String) async throws(PostgresError) {
        _ = try await execute(.pauseQueue, ["queue": .queue(name), "reason": .text(reason)])
    }

    /// Lets a paused queue go on. An unknown queue is an error.
    package func resumeQueue(_ name: QueueName) async throws(PostgresError) {
        _ = try await execute(.resumeQueue, ["queue": .queue(name)])
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

    /// Limits a queue to `rate` pushes a second, and `burst` at once after a quiet time.
    package func setRate(_ rate: Double, burst: Double?, of name: QueueName) async throws(PostgresError) {
        _ = try await execute(
            .setRate, ["queue": .queue(name), "rate": .float8(rate), "burst": .float8(burst)])
    }

    /// Changes the burst of a queue that has a rate. False if it has none.
    package func setBurst(_ burst: Double, of name: QueueName) async throws(PostgresError) -> Bool {
        try await execute(.setBurst, ["queue": .queue(name), "burst": .float8(burst)]).count > 0
    }

    /// Gives a queue a frequency cap, or another one; nil leaves what else is set of it as it is.
    /// - Parameter timeZone: of devices of which nobody has said one.
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

    /// Changes what else is set of a queue's frequency cap. False if it has none.
    package func changeFrequencyCap(
        includesUrgent: Bool?, timeZone: String?, of name: QueueName
    ) async throws(PostgresError) -> Bool {
        let parameters: Parameters = [
            "queue": .queue(name), "includes_urgent": .bool(includesUrgent), "time_zone": .text(timeZone),
        ]
        return try await execute(.changeFrequencyCap, parameters).count > 0
    }

    /// Takes a queue's frequency cap away.
    package func liftFrequencyCap(of name: QueueName) async throws(PostgresError) {
        _ = try await execute(.liftFrequencyCap, ["queue": .queue(name)])
    }

    /// What is wrong with the name of a time zone; nil if nothing is.
    package func timeZoneProblem(_ name: String) async throws(PostgresError) -> String? {
        try await execute(.timeZoneProblem, ["time_zone": .text(name)]).one().optionalText("problem")
    }

    /// Takes a queue's limit away.
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
