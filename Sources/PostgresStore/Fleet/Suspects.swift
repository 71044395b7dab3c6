import QueueCore

extension Statement {
    /// Judges devices whose tokens APNs called bad. Deactivated one by one in the settle, a queue with the wrong environment set
    /// would lose all of its devices; so each queue's share of suspects among its last answers decides.
    ///
    /// A device or queue that somebody is writing in a transaction of their own is left for the next time.
    ///
    /// $1 answers looked at; $2 answers needed to judge early; $3 age at which suspects are judged in any case; $4 the share from
    /// which the queue is to blame; $5 suspects below which it is not; $6 codes of the reasons.
    static let judgeSuspects = Statement(
        "judge_suspects",
        #"""
        with accused as (
          select queue_id, min(recorded_at) as since
          from pushq.feedback
          where verdict = 'suspect' and day >= pushq.today() - 1
          group by queue_id),
        days as materialized (
          select pushq.today() - n as day from generate_series(0, 1) n),
        -- However many results and reports a day has, the last of each queue are read by key: a probe for each day.
        seen as materialized (
          select a.queue_id, a.since, coalesce(r.answers, 0) as answers,
                 (select count(*)
                  from days d
                  cross join lateral (
                    select f.reason, f.recorded_at
                    from pushq.feedback f
                    where f.day = d.day and f.queue_id = a.queue_id
                    order by f.id desc
                    limit 2 * $1) f
                  where f.reason = any ($6::smallint[]) and f.recorded_at >= r.from_at) as suspects
          from accused a
          cross join lateral (
            select sum(answers) as answers, min(ended_at) as from_at
            from (
              select delivered + rejected as answers, ended_at,
                     sum(delivered + rejected) over (order by job_id desc) as so_far
              from (
                select r.job_id, r.delivered, r.rejected, r.ended_at
                from days d
                cross join lateral (
                  select r.job_id, r.delivered, r.rejected, r.ended_at
                  from pushq.result r
                  where r.day = d.day and r.queue_id = a.queue_id
                  order by r.job_id desc
                  limit $1) r
                order by r.job_id desc
                limit $1) l) w
            where so_far - answers < $1) r),
        judged as materialized (
          select queue_id, answers, suspects, suspects >= $5::int and suspects >= answers * $4::float8 as queue_is_wrong
          from seen
          where answers >= $2::int or since < now() - $3::interval),
        free_queue as materialized (
          select q.id
          from pushq.queue q
          join judged j on j.queue_id = q.id
          where j.queue_is_wrong and q.paused_at is null
          for no key update of q skip locked),
        free_device as materialized (
          select d.queue_id, d.id
          from pushq.device d
          join (
            select distinct f.queue_id, f.device_id
            from pushq.feedback f
            join judged j on j.queue_id = f.queue_id
            where f.day >= pushq.today() - 1 and f.verdict = 'suspect' and not j.queue_is_wrong) s on s.queue_id = d.queue_id and s.device_id = d.id
          for no key update of d skip locked),
        paused as (
          update pushq.queue q
          set paused_at = now(),
              paused_reason = format('%s of the last %s answers said that the device token is bad or of another topic: is this the '
                                     'wrong environment or app? No device was deactivated', j.suspects, j.answers),
              paused_credential_version = null
          from judged j
          where q.id = j.queue_id and q.id in (select id from free_queue)),
        verdict as (
          update pushq.feedback f
          set verdict = case when j.queue_is_wrong then 'kept' else 'deactivated' end
          from judged j
          where f.day >= pushq.today() - 1 and f.queue_id = j.queue_id and f.verdict = 'suspect'
            and (j.queue_is_wrong
              or (f.queue_id, f.device_id) in (select queue_id, id from free_device)
              or not exists (select from pushq.device d where d.queue_id = f.queue_id and d.id = f.device_id))
          returning f.queue_id, f.device_id, f.reason, f.reported_at, j.queue_is_wrong),
        dead as (
          update pushq.device d
          set active = false, inactive_since = v.reported_at, inactive_reason = v.reason
          from (select distinct on (queue_id, device_id) * from verdict
                where not queue_is_wrong order by queue_id, device_id, reported_at desc) v
          where d.queue_id = v.queue_id and d.id = v.device_id and d.active
            and coalesce(greatest(d.registered_at, d.reactivated_at), '-infinity') <= v.reported_at
          returning d.id)
        select (select count(*) from dead) as deactivated, (select count(*) from judged where queue_is_wrong) as paused
        """#)
}

/// When a queue, and not its devices, is to blame for bad tokens.
package struct SuspectPolicy: Sendable {
    /// How many of the last answers are looked at.
    package var window = 1000
    /// Answers that must be there before anything is judged, …
    package var enoughAnswers = 200
    /// … unless suspects have waited for so long.
    package var patience = Duration.seconds(600)
    /// The share of suspects from which the queue is to blame.
    package var share = 0.1
    /// Fewer suspects than this never pause a queue.
    package var fewest = 10

    package init() {}
}

extension PostgresConnection {
    /// Deactivates suspects of queues that have few, and pauses queues that have many. Returns the numbers of both.
    package func judgeSuspects(
        _ policy: SuspectPolicy = SuspectPolicy()
    ) async throws(PostgresError) -> (deactivated: Int, pausedQueues: Int) {
        let reasons = Reason.table.indices.filter { Reason.table[$0].action == .suspect }.map { Int16($0) }
        let rows = try await execute(
            .judgeSuspects,
            [
                .int8(Int64(policy.window)), .int4(Int32(policy.enoughAnswers)), .interval(policy.patience),
                .float8(policy.share), .int4(Int32(policy.fewest)), .int2Array(reasons),
            ])
        return rows.first.map { (Int($0.int8(0)), Int($0.int8(1))) } ?? (0, 0)
    }
}
