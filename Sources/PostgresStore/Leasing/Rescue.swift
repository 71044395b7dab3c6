extension Statement {
    /// Deletes leases past their deadline and puts their jobs back with their stored progress. Only the deadline
    /// decides. The former holder's writes then find no row with its epoch.
    ///
    /// A deadline far in the future was written before the database's clock was set back. The statement replaces it by
    /// one that a live holder has time to renew.
    ///
    /// If two workers were lost while they held a job, the job may be the cause. From then on it comes back at a random
    /// time, within a span that doubles, so that it is not held together with the same other jobs each time.
    static let rescue = Statement(
        "rescue",
        #"""
        with beyond as materialized (
          select ctid as spot
          from pushq.lease
          where deadline > now() + 2 * interval '\#(PostgresConnection.longestLeaseSeconds) seconds'
          for update skip locked),
        -- By ctid, like the delete below: with a join by key, the planner was seen to search the whole table again for
        -- each lease, when statistics said that it is empty.
        ahead as (
          update pushq.lease
          set deadline = now() + interval '\#(PostgresConnection.longestLeaseSeconds) seconds'
          where ctid = any (array(select spot from beyond))),
        late as materialized (
          select ctid as spot
          from pushq.lease
          where deadline < now() - $grace::interval
          limit \#(PostgresConnection.maximumRescued)
          for update skip locked),
        lost as (
          delete from pushq.lease
          where ctid = any (array(select spot from late))
          returning *)
        insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, campaign_id, root_id, body_day,
                               recipient_count, attempt, losses, epoch, at_most_once, watermark, outcomes)
        select queue_id, job_id, lane,
               case when losses = 0 or pushq.undecided_since(queue_id) is not null then run_at
                    else greatest(run_at, now() + random() * least(2 ^ losses, 60) * interval '1 second') end,
               send_by, message_id, campaign_id, root_id, body_day, recipient_count, attempt, losses + 1, epoch,
               at_most_once, watermark, outcomes
        from lost
        returning id
        """#)
}

extension PostgresConnection {
    /// The maximum number of leases that one rescue deletes.
    package static let maximumRescued = 500

    /// The maximum length of a lease. If a lease ends much later, the clock was ahead when it was taken.
    package static let longestLease = Duration.seconds(longestLeaseSeconds)
    fileprivate static let longestLeaseSeconds = 300

    /// Puts back the jobs of leases that expired more than `grace` ago, at most ``maximumRescued``. Returns the number
    /// of jobs.
    package func rescue(grace: Duration) async throws(PostgresError) -> Int {
        try await execute(.rescue, ["grace": .interval(grace)]).count
    }
}
