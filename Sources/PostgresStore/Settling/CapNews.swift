extension Statement {
    /// What has become of places under frequency caps: those of recipients that got nothing are given up, and those of
    /// recipients that got it are marked as final. In the order of devices, in which places are taken, too.
    ///
    /// Fenced by the lease, of which the row is only read: a worker writes this right before it ends the job or gives
    /// it back. If that fails, the next holder takes places anew.
    static let noteCapped = Statement(
        "note_capped",
        #"""
        with given as materialized (
          -- A row for each device: an update changes it once, however many jobs there are that have something to say.
          select l.queue_id, d.device_id, array_agg(l.root_id) as root_ids,
                 coalesce(array_agg(l.root_id) filter (where d.arrived), '{}') as arrived
          from unnest($queue_ids::int[], $job_ids::bigint[], $epochs::int[], $firsts::int[], $lasts::int[])
            as g(queue_id, job_id, epoch, first, last)
          join pushq.lease l on l.queue_id = g.queue_id and l.job_id = g.job_id and l.epoch = g.epoch
            and l.worker_id = $worker_id
          cross join lateral unnest(($device_ids::bigint[])[g.first : g.last], ($arrived::boolean[])[g.first : g.last])
            as d(device_id, arrived)
          group by l.queue_id, d.device_id
          order by l.queue_id, d.device_id)
        update pushq.recent_push r
        set (root_ids, job_ids, sent_at) = (
          select coalesce(array_agg(e.root order by e.at), '{}'),
                 coalesce(array_agg(case when e.root = any (g.arrived) then 0 else e.job end order by e.at), '{}'),
                 coalesce(array_agg(e.at order by e.at), '{}')
          from unnest(r.root_ids, r.job_ids, r.sent_at) e(root, job, at)
          where e.root <> all (g.root_ids) or e.root = any (g.arrived))
        from given g
        where r.queue_id = g.queue_id and r.device_id = g.device_id and r.root_ids && g.root_ids
        """#)
}

/// What a frequency cap has to learn of a recipient: that it got the push, or that it did not and will not by this job.
/// Of all others it knows by itself: they have got it once the job is gone, and before that nobody can tell.
package struct CapNews: Equatable, Sendable {
    package let deviceID: Int64
    package let hasArrived: Bool

    package init(deviceID: Int64, hasArrived: Bool) {
        self.deviceID = deviceID
        self.hasArrived = hasArrived
    }
}

extension PostgresConnection {
    /// Tells frequency caps what has become of recipients; does nothing where there is no news.
    func note(_ news: [(key: LeaseKey, news: [CapNews])], workerID: Int64) async throws(PostgresError) {
        let told = news.filter { !$0.news.isEmpty }
        guard !told.isEmpty else { return }
        var firsts: [Int32] = []
        var lasts: [Int32] = []
        var count: Int32 = 0
        for job in told {
            firsts.append(count + 1)
            count += Int32(job.news.count)
            lasts.append(count)
        }
        let parameters: Parameters = [
            "worker_id": .int8(workerID), "firsts": .int4Array(firsts), "lasts": .int4Array(lasts),
            "device_ids": .int8Array(told.flatMap { $0.news.map(\.deviceID) }),
            "arrived": .boolArray(told.flatMap { $0.news.map(\.hasArrived) }),
        ]
        _ = try await execute(.noteCapped, parameters + told.map(\.key).parameters)
    }
}
