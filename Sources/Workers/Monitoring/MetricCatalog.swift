package import Metrics

/// Every metric of a worker: its name, its meaning, and its labels. docs/metrics.md lists them; a test compares.
///
/// No label is a job, a device or a token. Labels of queues are bounded by `QueueAdmission`, those of the fleet by
/// `FleetFigures`, and all others by tables in this program.
package enum MetricCatalog {
    private static let queue = ["tenant", "app", "environment"]

    // MARK: Queues

    static let pushes = Metric(
        "pushq_pushes", .counter, "Requests that were handed to a connection to APNs.", labels: queue + ["lane"])
    static let answers = Metric(
        "pushq_answers", .counter,
        "What became of requests: accepted, refused for a reason, without an answer, or untouched by APNs.",
        labels: queue + ["result", "reason"])
    static let latency = Metric(
        "pushq_apns_latency_seconds", .histogram, "Time from a request to the answer that accepted or refused it.",
        labels: queue)
    static let age = Metric(
        "pushq_queue_age_seconds", .histogram, "How long pushes had been due when they were sent.",
        labels: queue + ["lane"])
    static let outcomes = Metric(
        "pushq_outcomes", .counter,
        "Outcomes of recipients that were written with the end of their job; retried and postponed ones go on in another job.",
        labels: queue + ["lane", "outcome", "reason"])
    static let permitsLapsed = Metric(
        "pushq_permits_lapsed", .counter, "Permits of a rate limit that were taken and not used in time.",
        labels: queue)

    // MARK: The worker

    static let build = Metric("pushq_build", .info, "The version of this worker.", labels: ["version"])
    static let ready = Metric("pushq_ready", .gauge, "Whether /readyz answers with 200.")
    static let draining = Metric("pushq_draining", .gauge, "Whether the worker claims nothing more.")
    static let engines = Metric("pushq_engines", .gauge, "Engines of this process.")
    static let enginesResponding = Metric(
        "pushq_engines_responding", .gauge, "Engines of this process whose event loop turns.")
    static let enginesReady = Metric(
        "pushq_engines_ready", .gauge,
        "Engines of this process that can work. Where a worker serves several databases, each has engines of its own.")
    static let inFlight = Metric("pushq_in_flight", .gauge, "Requests that wait for an answer of APNs.")
    static let jobsHeld = Metric("pushq_jobs_held", .gauge, "Jobs that this worker has leased.")
    static let recipientsHeld = Metric("pushq_recipients_held", .gauge, "Recipients of them that were not sent to.")
    static let leaseLimit = Metric("pushq_lease_limit", .gauge, "Jobs that it may lease at most, at this moment.")
    static let queuesUnreachable = Metric(
        "pushq_queues_unreachable", .gauge, "Queues for which this worker cannot reach APNs.")
    static let loopLag = Metric(
        "pushq_loop_lag_seconds", .histogram, "How late timers of the event loops fire, measured four times a second.")

    // MARK: Jobs and leases

    static let jobsClaimed = Metric("pushq_jobs_claimed", .counter, "Jobs that were leased.")
    static let jobsEnded = Metric("pushq_jobs_ended", .counter, "Jobs whose end was written.")
    static let jobsGivenBack = Metric(
        "pushq_jobs_given_back", .counter, "Jobs that were given back to those that wait.")
    static let jobsRescued = Metric("pushq_jobs_rescued", .counter, "Jobs of lost workers that were put back.")
    static let jobsQuarantined = Metric("pushq_jobs_quarantined", .counter, "Jobs that ended unsent: they are damaged.")
    static let jobsSetAside = Metric(
        "pushq_jobs_set_aside", .counter, "Jobs whose end PostgreSQL refuses, and that wait for an operator.")
    static let leasesLost = Metric("pushq_leases_lost", .counter, "Leases that ran out and went to other workers.")
    static let leasesFound = Metric(
        "pushq_leases_found", .counter, "Leases in this worker's name that it did not know of, and gave back.")

    // MARK: PostgreSQL

    static let statements = Metric(
        "pushq_statement_seconds", .histogram, "Time from sending a statement to PostgreSQL's answer.",
        labels: ["statement"])
    static let storeRetries = Metric(
        "pushq_statement_retries", .counter, "Statements without a good answer that are tried again.",
        labels: ["statement"])
    static let storeLosses = Metric("pushq_store_losses", .counter, "Times that PostgreSQL went out of reach.")
    static let oldPrimaries = Metric(
        "pushq_old_primaries", .counter, "Times that a server was refused because another one has taken its place.")

    // MARK: Connections to APNs

    static let connections = Metric(
        "pushq_apns_connections", .gauge, "Connections to APNs, those that are being opened among them.")
    static let streams = Metric(
        "pushq_apns_streams", .gauge, "Streams of them: in use, and free as far as APNs allows more.",
        labels: ["state"])
    static let connectionsOpened = Metric("pushq_apns_connections_opened", .counter, "Connections that took pushes.")
    static let connectionsEnded = Metric(
        "pushq_apns_connections_ended", .counter,
        "Connections that take no more pushes: unneeded, used_up, asked by APNs, or failed.", labels: ["cause"])
    static let connectionsFailed = Metric(
        "pushq_apns_connection_failures", .counter, "Attempts to open a connection that failed.")
    static let handshakes = Metric(
        "pushq_apns_handshakes", .counter,
        "TLS handshakes that went well: full, or resumed from an earlier connection of the same gateway.",
        labels: ["kind"])
    static let goAways = Metric("pushq_apns_goaways", .counter, "GOAWAY frames by error code.", labels: ["code"])
    static let outages = Metric(
        "pushq_apns_outages", .counter, "Times that APNs began to refuse most pushes for transient reasons.")

    // MARK: The fleet

    static let fleetJobs = Metric(
        "pushq_fleet_waiting_jobs", .gauge,
        "Jobs that are due and not leased; a lower bound if the backlog is partial.",
        labels: queue + ["lane"])
    static let fleetRecipients = Metric(
        "pushq_fleet_waiting_recipients", .gauge,
        "Recipients of jobs that are due and not leased; a lower bound if the backlog is partial.",
        labels: queue + ["lane"])
    static let fleetOldest = Metric(
        "pushq_fleet_oldest_waiting_seconds", .gauge,
        "How long the first of those jobs has been due, or a campaign that no worker has begun.",
        labels: queue + ["lane"])
    static let fleetPartial = Metric(
        "pushq_fleet_backlog_partial", .gauge, "Whether there is more that waits than was counted.")
    static let fleetPaused = Metric(
        "pushq_fleet_queue_paused", .gauge, "Is 1 for each paused queue, up to 10,000 of them.", labels: queue)
    static let fleetWorkers = Metric(
        "pushq_fleet_workers", .gauge, "Engines that showed themselves in the last 20 seconds.", labels: ["state"])
    static let fleetSetAside = Metric(
        "pushq_fleet_jobs_set_aside", .gauge, "Jobs that are set aside and wait for an operator; at most 1000.")
    static let fleetCertificates = Metric(
        "pushq_fleet_certificate_expiry_timestamp_seconds", .gauge,
        "When a certificate that a queue is sent with ends, in seconds since 1970; of the 200 that end first.",
        labels: ["tenant", "credential"])

    // MARK: The metrics

    static let queueLimit = Metric(
        "pushq_metrics_queue_limit", .gauge, "Queues that may have metrics of their own in this process.")
    static let queuesOverLimit = Metric(
        "pushq_metrics_queues_over_limit", .gauge,
        "Queues that are counted together, with the tenant (others), because the limit is reached.")

    /// The value of the labels `tenant`, `app` and `environment` of queues that are counted together. No tenant, app or
    /// environment can have this name.
    static let others = "(others)"

    /// All metrics, in the order in which they are written.
    package static let all =
        [
            build, ready, draining, engines, enginesResponding, enginesReady, inFlight, jobsHeld, recipientsHeld,
            leaseLimit,
            queuesUnreachable, pushes, answers, latency, age, outcomes, permitsLapsed, jobsClaimed, jobsEnded,
            jobsGivenBack, jobsRescued, jobsQuarantined, jobsSetAside, leasesLost, leasesFound, statements,
            storeRetries,
            storeLosses, oldPrimaries, connections, streams, connectionsOpened, connectionsEnded, connectionsFailed,
            handshakes,
            goAways,
            outages, loopLag, fleetJobs, fleetRecipients, fleetOldest, fleetPartial, fleetPaused, fleetWorkers,
            fleetSetAside,
            fleetCertificates, queueLimit, queuesOverLimit,
        ] + ProcessMetrics.all
}
