package import FoundationEssentials
package import QueueCore

extension Statement {
    /// Counts what is due and waits, lane by lane. A loose scan of `job_ready` finds the first job of each of 30,000
    /// lanes, so that lanes that are due later do not displace lanes that are due now. The statement returns the
    /// `$lanes` lanes that have waited longest. It reads about `$rows` jobs in all, at least 50 of each lane: the age
    /// of a lane's first job is exact, and the counts of long lanes are lower bounds. It ignores suspended tenants:
    /// their jobs do not wait for workers, and would alert an operator to what an operator has ordered. If there is no
    /// lane to return, there is a row without a queue.
    static let backlog = Statement(
        "backlog",
        #"""
        with recursive first_job as (
          select n.* from pushq.next_lane(-1, 0, 2147483647) n
          union all
          select n.* from first_job f cross join lateral pushq.next_lane(f.queue_id, f.lane, 2147483647) n),
        seen as materialized (select * from first_job limit 30000),
        due as materialized (
          select f.queue_id, f.lane, f.run_at, n.tenant, n.app, n.environment
          from seen f
          join pushq.queue_name n on n.queue_id = f.queue_id and n.suspended_at is null
          where f.run_at <= now()
          order by f.run_at
          limit $lanes::int + 1),
        bound as materialized (
          select greatest($rows::int / greatest(count(*), 1), 50) as rows,
                 count(*) > $lanes or (select count(*) from seen) >= 30000 as is_more
          from due)
        select w.tenant, w.app, w.environment, w.lane, coalesce(w.jobs, 0) as jobs,
               coalesce(w.recipients, 0) as recipients, b.is_more or coalesce(w.jobs >= b.rows, false) as is_bounded,
               coalesce(extract(epoch from now() - w.oldest), 0)::float8 as oldest_seconds
        from bound b
        left join lateral (
          select f.tenant, f.app, f.environment, f.lane, j.jobs, j.recipients, f.run_at as oldest
          from (select * from due order by run_at limit $lanes) f
          cross join lateral (
            select count(*) as jobs,
                   coalesce(sum(pushq.waiting_recipients(recipient_count, outcomes)), 0)::bigint as recipients
            from (
              select j.recipient_count, j.outcomes
              from pushq.job j
              where j.queue_id = f.queue_id and j.lane = f.lane and j.run_at <= now()
              order by j.run_at, j.id
              limit b.rows) j) j) w on true
        order by w.tenant, w.app, w.environment, w.lane
        """#)
    /// Campaigns that have started, but for which no worker has created a job yet: their recipients are not counted
    /// yet.
    static let unbegunCampaigns = Statement(
        "unbegun_campaigns",
        #"""
        select n.tenant, n.app, n.environment, f.lane,
               extract(epoch from now() - min(f.start_at))::float8 as oldest_seconds
        from (
          select f.queue_id, f.lane, f.start_at, pushq.is_unbegun(f) as is_unbegun
          from pushq.fan_out f
          where not f.done and not f.paused and f.start_at <= now()
          limit 10000) f
        join pushq.queue_name n on n.queue_id = f.queue_id and n.suspended_at is null
        where f.is_unbegun
        group by n.tenant, n.app, n.environment, f.lane
        order by min(f.start_at)
        limit $lanes
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
    /// Only certificates that a queue uses: no push fails when any other certificate expires.
    static let endOfCertificates = Statement(
        "end_of_certificates",
        #"""
        select t.name as tenant, c.name, c.not_after
        from pushq.credential c join pushq.tenant t on t.id = c.tenant_id
        where c.not_after is not null
          and exists (select from pushq.queue q where q.tenant_id = c.tenant_id and q.credential_id = c.id)
        order by c.not_after, c.id
        limit $limit
        """#)
    static let fleetCounts = Statement(
        "fleet_counts",
        #"""
        select count(*) filter (where not w.draining) as working, count(*) filter (where w.draining) as draining,
               (select count(*)
                from (
                  select
                  from pushq.stuck_job k
                  join pushq.job j on j.queue_id = k.queue_id and j.id = k.job_id
                  where k.set_aside_at is not null
                  limit 1000) k) as set_aside
        from pushq.worker w
        where pushq.is_alive(w.seen_at)
        """#)
}

/// What one worker reads from the database about the fleet, on behalf of all workers.
package struct FleetFigures: Sendable {
    /// What is due in one lane of a queue: unclaimed jobs, and campaigns that are due and not begun. A campaign's own
    /// lane counts as the shared lane of the same urgency.
    package struct Backlog: Sendable {
        package let queue: QueueName
        package let lane: Lane
        package fileprivate(set) var jobs: Int
        package fileprivate(set) var recipients: Int
        /// How long the first job or campaign has been due.
        package fileprivate(set) var oldest: Duration
    }

    /// A certificate that a queue uses, and when it expires.
    package struct CertificateEnd: Sendable {
        package let tenant: String
        package let name: String
        package let notAfter: Date
    }

    package var backlogs: [Backlog] = []
    /// Whether there is more than ``backlogs`` contains: further lanes, or jobs that were not counted.
    package var isPartial = false
    package var pausedQueues: [QueueName] = []
    /// The certificates that expire first.
    package var certificates: [CertificateEnd] = []
    package var workersWorking = 0
    package var workersDraining = 0
    /// At most 1000.
    package var jobsSetAside = 0

    package init() {}

    /// Adds the figures that another database has of the same fleet.
    package mutating func add(_ other: FleetFigures) {
        for backlog in other.backlogs { add(backlog) }
        isPartial = isPartial || other.isPartial
        let known = Set(pausedQueues)
        pausedQueues += other.pausedQueues.filter { !known.contains($0) }
        // After a restore, two databases may contain the same tenant for a while. The earlier expiry counts.
        for end in other.certificates {
            if let index = certificates.firstIndex(where: { $0.tenant == end.tenant && $0.name == end.name }) {
                if end.notAfter < certificates[index].notAfter { certificates[index] = end }
            } else {
                certificates.append(end)
            }
        }
        workersWorking += other.workersWorking
        workersDraining += other.workersDraining
        jobsSetAside += other.jobsSetAside
    }

    /// Adds the row of a lane.
    fileprivate mutating func add(_ row: Row, jobs: Int, recipients: Int) {
        guard let queue = QueueName(row), let lane = Lane(rawValue: row.int4("lane"))?.peer else { return }
        add(
            Backlog(
                queue: queue, lane: lane, jobs: jobs, recipients: recipients,
                oldest: .seconds(row.float8("oldest_seconds"))))
    }

    private mutating func add(_ backlog: Backlog) {
        guard let index = backlogs.lastIndex(where: { $0.queue == backlog.queue && $0.lane == backlog.lane }) else {
            return backlogs.append(backlog)
        }
        backlogs[index].jobs += backlog.jobs
        backlogs[index].recipients += backlog.recipients
        backlogs[index].oldest = max(backlogs[index].oldest, backlog.oldest)
    }

    /// The maximum number of lanes in ``backlogs``, of queues and of certificates.
    package static let maximumLanes = 600
    package static let maximumQueues = 10_000
    package static let maximumCertificates = 200
    /// About how many jobs are read for the backlogs.
    package static let jobsRead = 50_000
}

extension PostgresConnection {
    /// Returns the figures of the fleet. It reads a bounded number of rows, however much waits.
    package func fleetFigures(
        lanes: Int = FleetFigures.maximumLanes, jobs: Int = FleetFigures.jobsRead
    ) async throws(PostgresError) -> FleetFigures {
        var figures = FleetFigures()
        let found = try await execute(.backlog, ["lanes": .int4(Int32(lanes)), "rows": .int4(Int32(jobs))])
        for row in found {
            figures.isPartial = figures.isPartial || row.bool("is_bounded")
            guard row.optionalText("tenant") != nil else { continue }
            figures.add(row, jobs: row.count("jobs"), recipients: row.count("recipients"))
        }
        for row in try await execute(.unbegunCampaigns, ["lanes": .int4(Int32(lanes))]) {
            figures.isPartial = true
            figures.add(row, jobs: 0, recipients: 0)
        }
        let queues: Parameters = ["limit": .int4(Int32(FleetFigures.maximumQueues))]
        figures.pausedQueues = try await execute(.pausedQueues, queues).compactMap(QueueName.init)
        let certificates: Parameters = ["limit": .int4(Int32(FleetFigures.maximumCertificates))]
        figures.certificates = try await execute(.endOfCertificates, certificates).map {
            .init(tenant: $0.text("tenant"), name: $0.text("name"), notAfter: $0.time("not_after"))
        }
        let counts = try await execute(.fleetCounts).one()
        figures.workersWorking = counts.count("working")
        figures.workersDraining = counts.count("draining")
        figures.jobsSetAside = counts.count("set_aside")
        return figures
    }
}
