extension Statement {
    /// Gives back what badges of recipients were raised by that got nothing. In the order of devices, in which figures
    /// are taken, too.
    ///
    /// Fenced by the lease, of which the row is only read: a worker writes this right before it ends the job. If that
    /// fails, the next holder takes figures anew for those that it sends to. Done twice, it is as if done once.
    static let giveBackBadges = Statement(
        "give_back_badges",
        #"""
        with given as materialized (
          -- A row for each device: an update changes it once, however many jobs there are that have something to say.
          select l.queue_id, d.device_id, array_agg(l.root_id) as root_ids, array_agg(g.increment) as increments
          from unnest($queue_ids::int[], $job_ids::bigint[], $epochs::int[], $increments::int[], $firsts::int[],
                      $lasts::int[])
            as g(queue_id, job_id, epoch, increment, first, last)
          join pushq.lease l on l.queue_id = g.queue_id and l.job_id = g.job_id and l.epoch = g.epoch
            and l.worker_id = $worker_id
          cross join lateral unnest(($device_ids::bigint[])[g.first : g.last]) d(device_id)
          group by l.queue_id, d.device_id
          order by l.queue_id, d.device_id)
        update pushq.badge b
        set count = greatest(0, b.count - (
              select coalesce(sum(u.increment), 0)
              from unnest(g.root_ids, g.increments) u(root, increment)
              where u.root = any (b.root_ids))),
            (root_ids, figures, kept_until) = (
              select coalesce(array_agg(e.root order by e.place), '{}'),
                     coalesce(array_agg(e.figure order by e.place), '{}'),
                     coalesce(array_agg(e.until order by e.place), '{}')
              from unnest(b.root_ids, b.figures, b.kept_until) with ordinality e(root, figure, until, place)
              where e.root <> all (g.root_ids))
        from given g
        where b.queue_id = g.queue_id and b.device_id = g.device_id and b.root_ids && g.root_ids
        """#)
}

/// Recipients of a job that raises badges, for whom that was done, and who got nothing.
package struct GivenBackBadges: Equatable, Sendable {
    /// By how much the message raises a badge.
    package let increment: Int
    package let deviceIDs: [Int64]

    package init(increment: Int, deviceIDs: [Int64]) {
        self.increment = increment
        self.deviceIDs = deviceIDs
    }
}

extension PostgresConnection {
    /// Lowers badges again that were raised for nothing; does nothing where there are none.
    func giveBack(_ badges: [(key: LeaseKey, badges: GivenBackBadges?)], workerID: Int64) async throws(PostgresError) {
        let told = badges.compactMap { job in job.badges.map { (key: job.key, badges: $0) } }
        guard !told.isEmpty else { return }
        var firsts: [Int32] = []
        var lasts: [Int32] = []
        var count: Int32 = 0
        for (_, badges) in told {
            firsts.append(count + 1)
            count += Int32(badges.deviceIDs.count)
            lasts.append(count)
        }
        let parameters: Parameters = [
            "worker_id": .int8(workerID), "firsts": .int4Array(firsts), "lasts": .int4Array(lasts),
            "device_ids": .int8Array(told.flatMap(\.badges.deviceIDs)),
            "increments": .int4Array(told.map { Int32($0.badges.increment) }),
        ]
        _ = try await execute(.giveBackBadges, parameters + told.map(\.key).parameters)
    }
}
