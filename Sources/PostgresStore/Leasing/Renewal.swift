extension Statement {
    /// The end of the statements that renew leases. It returns the jobs that are still held, whether their lease was
    /// written, and whether their campaign, send or job was cancelled meanwhile. A lease that another transaction has
    /// locked is skipped: it is held, but not renewed.
    static let keptLeases = #"""

        select k.queue_id, k.job_id, k.epoch, true as written,
               c.cancelled_at is not null
                 or exists (select from pushq.cancelled x
                            where x.queue_id = k.queue_id and x.id in (k.root_id, k.job_id)) as cancelled,
               c.paused_at is not null as paused,
               -- The campaign has got a lane of its own or another end: the job must be claimed again.
               coalesce(f.lane <> k.lane or k.job_id < f.new_end_before and k.send_by <> f.send_by, false)
                 as is_elsewhere
        from kept k
        left join pushq.campaign c on c.queue_id = k.queue_id and c.id = k.campaign_id
        left join pushq.fan_out f on f.queue_id = k.queue_id and f.campaign_id = k.campaign_id
        union all
        select g.queue_id, g.job_id, g.epoch, false, false, false, false
        from given g
        cross join lateral (
          select
          from pushq.lease l
          where l.queue_id = g.queue_id and l.job_id = g.job_id and l.epoch = g.epoch and l.worker_id = $worker_id
          limit 1) l
        where (select count(*) from kept) < (select count(*) from given)
          and not exists (select from kept k where k.queue_id = g.queue_id and k.job_id = g.job_id)
        """#

    /// Writes the progress of many jobs and renews their leases. Values are absolute, so that repeating a flush is
    /// harmless. Flushes are numbered because PostgreSQL may still execute a flush that the worker gave up after its
    /// repetition; it would set the watermark back below what was sent since.
    static let flush = Statement(
        "flush",
        #"""
        with given as materialized (
          select g.*
          from unnest($queue_ids::int[], $job_ids::bigint[], $epochs::int[], $watermarks::smallint[],
                      $outcomes::bytea[])
            as g(queue_id, job_id, epoch, watermark, outcomes)
          -- Called once for the statement: the table of leases may have grown since it was planned.
          cross join pushq.fit_plans()),
        -- Each lease is found by its key and then by its ctid, as when jobs end (Settling/Ending.swift).
        free as materialized (
          select g.*, l.spot
          from given g
          cross join lateral (
            select ctid as spot
            from pushq.lease l
            where l.queue_id = g.queue_id and l.job_id = g.job_id and l.epoch = g.epoch
              and l.worker_id = $worker_id and l.flush <= $number
            limit 1
            for no key update skip locked) l),
        kept as (
          update pushq.lease l
          set watermark = f.watermark, outcomes = f.outcomes, deadline = now() + $lease::interval, flush = $number
          from free f
          where l.ctid = f.spot
          returning l.queue_id, l.job_id, l.epoch, l.root_id, l.campaign_id, l.lane, l.send_by)
        """# + keptLeases)

    /// Renews leases without new outcomes: 7 µs each.
    static let renew = Statement(
        "renew",
        #"""
        with given as materialized (
          select g.*
          from unnest($queue_ids::int[], $job_ids::bigint[], $epochs::int[]) as g(queue_id, job_id, epoch)
          cross join pushq.fit_plans()),
        free as materialized (
          select l.spot
          from given g
          cross join lateral (
            select ctid as spot
            from pushq.lease l
            where l.queue_id = g.queue_id and l.job_id = g.job_id and l.epoch = g.epoch
              and l.worker_id = $worker_id
            limit 1
            for no key update skip locked) l),
        kept as (
          update pushq.lease l
          set deadline = now() + $lease::interval
          from free f
          where l.ctid = f.spot
          returning l.queue_id, l.job_id, l.epoch, l.root_id, l.campaign_id, l.lane, l.send_by)
        """# + keptLeases)
}

/// The result of a renewal. Leases that are missing here are lost, and nothing more may be sent for them.
package struct KeptLeases: Sendable {
    /// The renewed leases.
    package private(set) var keys: Set<LeaseKey> = []
    /// The leases that are still held but were not renewed, because another transaction has locked their row.
    package private(set) var locked: Set<LeaseKey> = []
    /// The renewed leases whose campaign, send or job was cancelled.
    package private(set) var cancelled: Set<LeaseKey> = []
    /// The renewed leases whose campaign is paused.
    package private(set) var paused: Set<LeaseKey> = []
    /// The renewed leases whose campaign has got a lane of its own, or another end. Their jobs must be claimed again.
    package private(set) var elsewhere: Set<LeaseKey> = []

    package init(
        keys: Set<LeaseKey>, locked: Set<LeaseKey> = [], cancelled: Set<LeaseKey> = [], paused: Set<LeaseKey> = [],
        elsewhere: Set<LeaseKey> = []
    ) {
        self.keys = keys
        self.locked = locked
        self.cancelled = cancelled
        self.paused = paused
        self.elsewhere = elsewhere
    }

    init(_ rows: Rows) {
        for row in rows {
            let key = LeaseKey(row)
            guard row.bool("written") else {
                locked.insert(key)
                continue
            }
            keys.insert(key)
            if row.bool("cancelled") { cancelled.insert(key) }
            if row.bool("paused") { paused.insert(key) }
            if row.bool("is_elsewhere") { elsewhere.insert(key) }
        }
    }
}

extension PostgresConnection {
    /// Writes progress and renews the leases for the time `lease`.
    /// - Parameter number: grows with every flush of this worker; a number below the last one written changes nothing.
    package func flush(
        _ jobs: [LeaseProgress], workerID: Int64, lease: Duration, number: Int64
    ) async throws(PostgresError) -> KeptLeases {
        let parameters: Parameters = [
            "worker_id": .int8(workerID), "lease": .interval(lease), "number": .int8(number),
            "watermarks": .int2Array(jobs.map { Int16($0.watermark) }),
            "outcomes": .byteaArray(jobs.map(\.outcomes)),
        ]
        return KeptLeases(try await execute(.flush, parameters + jobs.map(\.key).parameters))
    }

    /// Renews leases that have no progress to write.
    package func renew(_ keys: [LeaseKey], workerID: Int64, lease: Duration) async throws(PostgresError) -> KeptLeases {
        let parameters: Parameters = ["worker_id": .int8(workerID), "lease": .interval(lease)]
        return KeptLeases(try await execute(.renew, parameters + keys.parameters))
    }
}
