package import QueueCore

extension Statement {
    /// Its cost is bounded, however much waits and however many queues there are: see
    /// `migrations/functions/show_load.sql`.
    static let queueLoads = Statement(
        "queue_loads",
        #"""
        select tenant_name as tenant, app, environment, queues, rate, tenant_rate, paused_reason, is_suspended,
               has_credential, jobs, recipients, is_partial,
               coalesce(extract(epoch from now() - oldest), 0)::float8 as oldest_seconds,
               oldest is not null as is_waiting, unbegun, workers, in_flight, sent_per_second, seconds, accepted,
               unanswered, refused, latency, unreachable, in_outage, unusable
        from pushq.show_load($tenant, $matching, $most)
        """#)
}

/// What waits in a queue, and what workers do for it at present.
package struct QueueLoad: Sendable {
    package let queue: QueueName
    /// The rate limits of the queue, and of all queues of its tenant together, in pushes per second; nil: no limit.
    package var rate: Double?
    package var tenantRate: Double?
    /// Why the queue is paused; nil if it is not. `isSuspended` says whether its tenant is suspended.
    package var pausedReason: String?
    package var isSuspended = false
    package var hasCredential = true
    /// What is due and not claimed; a lower bound if ``isPartial``.
    package var waitingJobs = 0
    package var waitingRecipients = 0
    package var isPartial = false
    /// How long the oldest waiting job, or the oldest of ``unbegunCampaigns``, has been due; nil if nothing is due.
    package var oldest: Duration?
    /// Campaigns that have started and for which no worker has created a job yet.
    package var unbegunCampaigns = 0
    /// Workers that sent for the queue in the last seconds, and what they did.
    package var workers = 0
    package var inFlight = 0
    package var sentPerSecond = 0.0
    /// The period over which answers were counted, and the answers.
    package var seconds = 0.0
    package var accepted = 0
    package var unanswered = 0
    /// The reasons of refusals, the most frequent first.
    package var refused: [ReasonCount] = []
    package var answerTimes = AnswerTimes()
    /// Workers that cannot reach APNs for the queue, workers of which APNs takes hardly any push, and workers
    /// that cannot use its credential.
    package var unreachable = 0
    package var inOutage = 0
    package var unusable = 0

    package init(queue: QueueName) {
        self.queue = queue
    }

    /// The number of refusals.
    package var refusedCount: Int { refused.reduce(0) { $0 + $1.count } }

    /// The queue's state in a word or two.
    package var state: String {
        if pausedReason != nil { return "paused" }
        if isSuspended { return "suspended" }
        // Pushes that are accepted go through other workers.
        if inOutage > 0, accepted == 0 { return "outage" }
        if unreachable > 0, accepted == 0 { return "unreachable" }
        if inFlight > 0 || sentPerSecond > 0 { return "sending" }
        guard oldest != nil else { return "idle" }
        guard hasCredential else { return "no credential" }
        if unusable > 0 { return "credential unusable" }
        return waitingJobs == 0 && unbegunCampaigns > 0 ? "campaign waits" : "waiting"
    }
}

/// The queues with the most to do, and the number of queues.
package struct QueueLoads: Sendable {
    package var queues: [QueueLoad] = []
    /// How many of the requested queues the login may see.
    package var found = 0

    /// The maximum number of queues that are read in detail.
    package static let maximum = 200

    package init() {}

    /// Whether there are queues that ``queues`` does not contain.
    package var hasMore: Bool { found > queues.count }
}

extension PostgresConnection {
    /// Returns the load of the queues of one tenant or of all tenants, if `matching` is in their names.
    package func queueLoads(
        of tenant: String?, matching: String? = nil, limit: Int = QueueLoads.maximum
    ) async throws(PostgresError) -> QueueLoads {
        var loads = QueueLoads()
        let rows = try await execute(
            .queueLoads, ["tenant": .text(tenant), "matching": .text(matching), "most": .int4(Int32(limit))])
        for row in rows {
            loads.found = row.count("queues")
            if let load = QueueLoad(row) { loads.queues.append(load) }
        }
        return loads
    }
}

extension QueueLoad {
    fileprivate init?(_ row: Row) {
        guard let queue = QueueName(row) else { return nil }
        self.init(queue: queue)
        rate = row.optionalFloat8("rate")
        tenantRate = row.optionalFloat8("tenant_rate")
        pausedReason = row.optionalText("paused_reason")
        isSuspended = row.bool("is_suspended")
        hasCredential = row.bool("has_credential")
        waitingJobs = row.count("jobs")
        waitingRecipients = row.count("recipients")
        isPartial = row.bool("is_partial")
        oldest = row.bool("is_waiting") ? .seconds(row.float8("oldest_seconds")) : nil
        unbegunCampaigns = row.count("unbegun")
        workers = row.count("workers")
        inFlight = row.count("in_flight")
        sentPerSecond = row.float8("sent_per_second")
        seconds = row.float8("seconds")
        accepted = row.count("accepted")
        unanswered = row.count("unanswered")
        refused = ReasonCount.list(row.int4Array("refused"))
        answerTimes = AnswerTimes(counts: row.int4Array("latency").map(Int.init))
        unreachable = row.count("unreachable")
        inOutage = row.count("in_outage")
        unusable = row.count("unusable")
    }
}
