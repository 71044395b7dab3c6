package import FoundationEssentials
package import QueueCore

extension Statement {
    /// What is due and waits, lane by lane. A loose scan of `job_ready` finds the lanes, the first `$lanes` of them,
    /// and about `$rows` jobs are read of all together, at least 50 of each: the age of a lane's first job is exact,
    /// and counts of long lanes are lower bounds. What a suspended tenant has does not wait for workers: it would call
    /// an operator for what an operator has ordered.
    static let backlog = Statement(
        "backlog",
        #"""
        with recursive lane as (
          (select j.queue_id, j.lane from pushq.job j order by j.queue_id, j.lane limit 1)
          union all
          select n.queue_id, n.lane
          from lane l
          cross join lateral (
            select j.queue_id, j.lane
            from pushq.job j
            where (j.queue_id, j.lane) > (l.queue_id, l.lane)
            order by j.queue_id, j.lane
            limit 1) n),
        found as materialized (select * from lane limit $lanes::int + 1),
        bound as materialized (
          select greatest($rows::int / greatest(count(*), 1), 50) as rows, count(*) as lanes from found)
        select n.tenant, n.app, n.environment, f.lane, w.jobs, w.recipients,
               w.jobs >= b.rows or b.lanes > $lanes as is_bounded,
               coalesce(extract(epoch from now() - w.oldest), 0)::float8 as oldest_seconds
        from (select * from found limit $lanes) f
        cross join bound b
        join pushq.queue_name n on n.queue_id = f.queue_id and n.suspended_at is null
        cross join lateral (
          select count(*) as jobs, coalesce(sum(recipient_count), 0)::bigint as recipients, min(run_at) as oldest
          from (
            select j.run_at, j.recipient_count
            from pushq.job j
            where j.queue_id = f.queue_id and j.lane = f.lane and j.run_at <= now()
            order by j.run_at, j.id
            limit b.rows) j) w
        where w.jobs > 0
        order by n.tenant, n.app, n.environment, f.lane
        """#)
    static let pausedQueues = Statement(
        "paused_queues",
        #"""
        select n.tenant, n.app, n.environment
        from pushq.queue q join pushq.queue_name n on n.queue_id = q.id
        where q.paused_at is not null
        order by q.id
        limit $limit
        """#)
    static let endOfCertificates = Statement(
        "end_of_certificates",
        #"""
        select t.name as tenant, c.name, c.not_after
        from pushq.credential c join pushq.tenant t on t.id = c.tenant_id
        where c.not_after is not null
        order by c.not_after, c.id
        limit $limit
        """#)
    static let fleetCounts = Statement(
        "fleet_counts",
        #"""
        select count(*) filter (where not w.draining) as working, count(*) filter (where w.draining) as draining,
               (select count(*)
                from (select from pushq.stuck_job k where k.set_aside_at is not null limit 1000) k) as set_aside
        from pushq.worker w
        where pushq.is_alive(w.seen_at)
        """#)
}

/// What the database tells of the whole fleet, which one worker asks for all.
package struct FleetFigures: Sendable {
    /// What is due in one lane of a queue and not claimed. Lanes of campaigns count as the shared one that is as
    /// urgent.
    package struct Backlog: Sendable {
        package let queue: QueueName
        package let lane: Lane
        package fileprivate(set) var jobs: Int
        package fileprivate(set) var recipients: Int
        /// How long the first of them has been due.
        package fileprivate(set) var oldest: Duration
    }

    /// A certificate and its end.
    package struct CertificateEnd: Sendable {
        package let tenant: String
        package let name: String
        package let notAfter: Date
    }

    package var backlogs: [Backlog] = []
    /// Whether there is more than ``backlogs`` says: lanes that are not in it, or jobs that were not counted.
    package var isPartial = false
    package var pausedQueues: [QueueName] = []
    /// Those that end first.
    package var certificates: [CertificateEnd] = []
    package var workersWorking = 0
    package var workersDraining = 0
    /// At most 1000.
    package var jobsSetAside = 0

    package init() {}

    /// Adds what another database says of the same fleet.
    package mutating func add(_ other: FleetFigures) {
        for backlog in other.backlogs { add(backlog) }
        isPartial = isPartial || other.isPartial
        pausedQueues += other.pausedQueues.filter { !pausedQueues.contains($0) }
        certificates += other.certificates
        workersWorking += other.workersWorking
        workersDraining += other.workersDraining
        jobsSetAside += other.jobsSetAside
    }

    fileprivate mutating func add(_ backlog: Backlog) {
        guard let index = backlogs.lastIndex(where: { $0.queue == backlog.queue && $0.lane == backlog.lane }) else {
            return backlogs.append(backlog)
        }
        backlogs[index].jobs += backlog.jobs
        backlogs[index].recipients += backlog.recipients
        backlogs[index].oldest = max(backlogs[index].oldest, backlog.oldest)
    }

    /// The most lanes of ``backlogs``, and the most queues and certificates.
    package static let maximumLanes = 600
    package static let maximumRows = 200
    /// About how many jobs are read for the backlogs.
    package static let jobsRead = 50_000
}

extension PostgresConnection {
    /// The figures of the fleet. It reads a bounded number of rows, however much there is.
    package func fleetFigures(
        lanes: Int = FleetFigures.maximumLanes, jobs: Int = FleetFigures.jobsRead
    ) async throws(PostgresError) -> FleetFigures {
        var figures = FleetFigures()
        let found = try await execute(.backlog, ["lanes": .int4(Int32(lanes)), "rows": .int4(Int32(jobs))])
        for row in found {
            guard let queue = QueueName(row), let lane = Lane(rawValue: row.int4("lane"))?.peer else { continue }
            figures.isPartial = figures.isPartial || row.bool("is_bounded")
            figures.add(
                FleetFigures.Backlog(
                    queue: queue, lane: lane, jobs: row.count("jobs"), recipients: row.count("recipients"),
                    oldest: .seconds(row.float8("oldest_seconds"))))
        }
        let limit: Parameters = ["limit": .int4(Int32(FleetFigures.maximumRows))]
        figures.pausedQueues = try await execute(.pausedQueues, limit).compactMap(QueueName.init)
        figures.certificates = try await execute(.endOfCertificates, limit).map {
            .init(tenant: $0.text("tenant"), name: $0.text("name"), notAfter: $0.time("not_after"))
        }
        let counts = try await execute(.fleetCounts).one()
        figures.workersWorking = counts.count("working")
        figures.workersDraining = counts.count("draining")
        figures.jobsSetAside = counts.count("set_aside")
        return figures
    }
}
