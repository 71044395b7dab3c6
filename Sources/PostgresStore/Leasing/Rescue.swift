extension Statement {
    /// Takes leases past their deadline away and puts their jobs back with the progress they had. The deadline decides
    /// and nothing else; whoever held them finds no row with its epoch any more.
    ///
    /// Whoever was lost with a job a second time may have been lost because of one of those that it held: from then on
    /// they come back one by one, within a time that doubles, so that whoever costs workers is not in the same company
    /// each time.
    static let rescue = Statement(
        "rescue",
        #"""
        with late as materialized (
          select queue_id, job_id
          from pushq.lease
          where deadline < now() - $grace::interval
          limit \#(PostgresConnection.mostRescued)
          for update skip locked),
        lost as (
          delete from pushq.lease l
          using late v
          where l.queue_id = v.queue_id and l.job_id = v.job_id
          returning l.*)
        insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, campaign_id, root_id, body_day,
                               recipient_count, attempt, rescues, epoch, at_most_once, watermark, outcomes)
        select queue_id, job_id, lane,
               case when rescues = 0 then run_at
                    else greatest(run_at, now() + random() * least(2 ^ rescues, 60) * interval '1 second') end,
               send_by, message_id, campaign_id, root_id, body_day, recipient_count, attempt, rescues + 1, epoch,
               at_most_once, watermark, outcomes
        from lost
        returning id
        """#)
}

extension PostgresConnection {
    /// Leases that one rescue takes away, at the most.
    package static let mostRescued = 500

    /// Puts back the jobs of leases that ran out more than `grace` ago; at most ``mostRescued``. Returns how many.
    package func rescue(grace: Duration) async throws(PostgresError) -> Int {
        try await execute(.rescue, ["grace": .interval(grace)]).count
    }
}
