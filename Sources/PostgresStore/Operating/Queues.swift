package import QueueCore

extension Statement {
    /// $1 tenant; $2 bundle ID; $3 environment. If exactly one credential of the tenant is good for the queue, it is taken.
    static let createQueue = Statement(
        "create_queue",
        #"""
        with a as materialized (
          select a.tenant_id, a.id from pushq.app a join pushq.tenant t on t.id = a.tenant_id
          where t.name = $1 and a.bundle_id = $2),
        good as materialized (
          select min(c.id) as id from pushq.credential c join a using (tenant_id)
          where $3 = any (c.environments) and (c.topics = '{}' or $2 = any (c.topics))
            and (c.not_after is null or c.not_after > now())
          having count(*) = 1),
        made as (
          insert into pushq.queue (tenant_id, app_id, environment, credential_id)
          select a.tenant_id, a.id, $3, (select id from good) from a
          on conflict on constraint queue_app_environment_once do nothing returning id)
        select exists (select from a), exists (select from made)
        """#)

    static let queues = Statement(
        "queues",
        #"""
        select n.tenant, n.app, n.environment, p.rate, p.burst, q.weight::float8, q.connections, q.max_attempts, c.name,
               q.gateway,
               case when q.paused_at is not null then q.paused_reason
                    when t.suspended_at is not null then 'the tenant is suspended' end,
               (select count(*) from pushq.job j where j.queue_id = q.id),
               (select coalesce(sum(j.recipient_count), 0) from pushq.job j where j.queue_id = q.id)::bigint
        from pushq.queue q
        join pushq.tenant t on t.id = q.tenant_id
        join pushq.queue_name n on n.queue_id = q.id
        left join pushq.pace p on p.queue_id = q.id
        left join pushq.credential c on c.tenant_id = q.tenant_id and c.id = q.credential_id
        where $1::text is null or t.name = $1
        order by n.tenant, n.app, n.environment
        """#)

    static let queueNames = Statement("queue_names", "select name from pushq.queue_name")

    /// $1 queue; $2 reason.
    static let pauseQueue = Statement(
        "pause_queue",
        #"""
        update pushq.queue set paused_at = coalesce(paused_at, now()), paused_reason = $2, paused_credential_version = null
        where id = pushq.queue_id($1)
        returning pushq.tell('queue', id)::text
        """#)

    static let resumeQueue = Statement(
        "resume_queue",
        #"""
        update pushq.queue
        set paused_at = null, paused_reason = null, paused_credential_version = null, resumed_at = clock_timestamp()
        where id = pushq.queue_id($1)
        returning pushq.tell('queue', id)::text, pushq.wake(id)::text
        """#)

    /// $1 queue; what is null stays: $2 weight; $3 connections; $4 attempts; $5 derive collapse IDs;
    /// $6 gateway; $7 how often the feedback service is asked.
    static let setQueue = Statement(
        "set_queue",
        #"""
        update pushq.queue
        set weight = coalesce($2::float8::real, weight), connections = coalesce($3::int, connections),
            max_attempts = coalesce($4::int, max_attempts), derive_collapse_id = coalesce($5::boolean, derive_collapse_id),
            gateway = coalesce($6, gateway), feedback_every = coalesce($7::interval, feedback_every)
        where id = pushq.queue_id($1)
        """#)

    /// $1 queue; $2 rate; $3 burst. A burst that is not given is a tenth of a second's permits: enough for a worker that comes
    /// a little late, too little to be noticed.
    static let setRate = Statement(
        "set_rate",
        #"""
        insert into pushq.pace as p (queue_id, rate, burst)
        values (pushq.queue_id($1), $2::float8, coalesce($3::float8, greatest(1, ceil($2::float8 / 10))))
        on conflict on constraint pace_pkey do update set rate = excluded.rate, burst = excluded.burst
        """#)

    /// $1 queue; $2 burst.
    static let setBurst = Statement(
        "set_burst", "update pushq.pace set burst = $2::float8 where queue_id = pushq.queue_id($1) returning queue_id")

    static let liftRate = Statement("lift_rate", "delete from pushq.pace where queue_id = pushq.queue_id($1)")
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
    /// Why nothing of it is sent; nil when it is.
    package let pausedReason: String?
    package let waitingJobs: Int
    package let waitingRecipients: Int
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
        try await execute(.queueNames).map { $0.text(0) }
    }

    /// Makes a queue of an app.
    package func createQueue(_ name: QueueName) async throws(PostgresError) -> Creation {
        let parameters: [Parameter] = [.text(name.tenant), .text(name.app), .text(name.environment.rawValue)]
        return Creation(try await execute(.createQueue, parameters).first)
    }

    /// The queues of one tenant, or of all.
    package func queues(of tenant: String?) async throws(PostgresError) -> [QueueSummary] {
        try await execute(.queues, [.text(tenant)]).compactMap(QueueSummary.init)
    }

    /// Stops sending of a queue until it is resumed. An unknown queue is an error.
    package func pauseQueue(_ name: QueueName, reason: String) async throws(PostgresError) {
        _ = try await execute(.pauseQueue, [.text(name.description), .text(reason)])
    }

    /// Lets a paused queue go on. An unknown queue is an error.
    package func resumeQueue(_ name: QueueName) async throws(PostgresError) {
        _ = try await execute(.resumeQueue, [.text(name.description)])
    }

    /// Changes settings of a queue. An unknown queue is an error.
    package func setQueue(_ name: QueueName, to change: QueueChange) async throws(PostgresError) {
        _ = try await execute(
            .setQueue,
            [
                .text(name.description), .float8(change.weight), .int4(change.connections.map(Int32.init)),
                .int4(change.maxAttempts.map(Int32.init)), .bool(change.derivesCollapseID),
                .text(change.gateway?.rawValue), .interval(change.feedbackEvery),
            ])
    }

    /// Limits a queue to `rate` pushes a second, and `burst` at once after a quiet time.
    package func setRate(_ rate: Double, burst: Double?, of name: QueueName) async throws(PostgresError) {
        _ = try await execute(.setRate, [.text(name.description), .float8(rate), .float8(burst)])
    }

    /// Changes the burst of a queue that has a rate. False if it has none.
    package func setBurst(_ burst: Double, of name: QueueName) async throws(PostgresError) -> Bool {
        try await execute(.setBurst, [.text(name.description), .float8(burst)]).count > 0
    }

    /// Takes a queue's limit away.
    package func liftRate(of name: QueueName) async throws(PostgresError) {
        _ = try await execute(.liftRate, [.text(name.description)])
    }
}

extension QueueSummary {
    fileprivate init?(_ row: Row) {
        guard let environment = Environment(rawValue: row.text(2)) else { return nil }
        self.init(
            name: QueueName(tenant: row.text(0), app: row.text(1), environment: environment),
            rate: row.optionalFloat8(3), burst: row.optionalFloat8(4), weight: row.float8(5),
            connections: Int(row.int2(6)), maxAttempts: Int(row.int2(7)), credential: row.optionalText(8),
            gateway: row.text(9), pausedReason: row.optionalText(10), waitingJobs: Int(row.int8(11)),
            waitingRecipients: Int(row.int8(12)))
    }
}
