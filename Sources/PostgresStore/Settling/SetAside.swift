import QueueCore

extension Statement {
    /// Gives back a job whose end was refused, and counts the refusals. After `$most` refusals, the job is due at
    /// infinity until an operator resumes it. Before that it is due again after a pause, which is four times as long
    /// after each refusal.
    ///
    /// The statement is fenced like every end. It skips a lease that another transaction has locked, or has changed
    /// since the statement began.
    static let setAside = Statement(
        "set_aside",
        #"""
        with free as materialized (
          select l.queue_id, l.job_id, l.ctid as spot
          from pushq.lease l
          where l.queue_id = $queue_id and l.job_id = $job_id and l.epoch = $epoch and l.worker_id = $worker_id
          for update skip locked),
        back as (
          delete from pushq.lease l
          -- By ctid: a join by key may read the whole table when statistics say that it is empty.
          where l.ctid = any (array(select spot from free))
          returning l.*),
        noted as (
          insert into pushq.stuck_job as s (queue_id, job_id, problem, set_aside_at)
          select queue_id, job_id, $problem, case when $most::int = 1 then now() end
          from back
          on conflict on constraint stuck_job_pkey do update
            set tries = s.tries + 1, problem = excluded.problem, refused_at = now(),
                set_aside_at = case when s.tries + 1 >= $most then now() end
          returning tries, set_aside_at is not null as is_aside),
        given_back as (
          insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, campaign_id, root_id, body_day,
                                 recipient_count, attempt, losses, epoch, at_most_once, watermark, outcomes)
          select queue_id, job_id, lane,
                 case when is_aside then 'infinity'
                      else greatest(run_at, now() + $pause::interval * 4 ^ (tries - 1)) end,
                 send_by, message_id, campaign_id, root_id, body_day, recipient_count, attempt,
                 losses + $losses::smallint, epoch, at_most_once, $watermark::smallint,
                 -- A recipient of whom the lease says that it continues elsewhere has its job, even if the worker did
                 -- not learn of that. A damaged row may have fewer outcomes.
                 (select string_agg(substr(case when octet_length(back.outcomes) <= n then $outcomes::bytea
                                                when get_byte(back.outcomes, n) < \#(Outcome.retries.lowerBound)
                                                then $outcomes else back.outcomes end, n + 1, 1), '' order by n)
                  from generate_series(0, recipient_count - 1) n)
          from back, noted)
        select is_aside, false as is_locked from noted
        union all
        select false, true
        from pushq.lease l
        where l.queue_id = $queue_id and l.job_id = $job_id and l.epoch = $epoch and l.worker_id = $worker_id
          and not exists (select from back)
        """#)
}

/// What happened to a job whose end PostgreSQL refuses.
package enum SetAsideAnswer: Equatable, Sendable {
    /// The job waits, and its end is tried again.
    case triedAgain
    /// The job's end is not tried again until an operator resumes the job.
    case setAside
    /// Another transaction has locked the job's lease or changed it meanwhile.
    case locked
    /// Another worker holds the job.
    case lost
}

/// How often the end of a job is tried if PostgreSQL refuses it.
package struct SetAsidePolicy: Sendable {
    /// The number of refused tries after which the end is not tried again.
    package var maximumTries = 3
    /// The time before the end is tried again after the first refusal.
    package var pause = Duration.seconds(10)

    package init() {}
}

extension PostgresConnection {
    /// Gives back a job whose end PostgreSQL refuses, with the known progress of its recipients.
    /// - Parameter problem: why PostgreSQL refuses the end.
    package func setAside(
        _ job: YieldedLease, because problem: String, _ policy: SetAsidePolicy = SetAsidePolicy(), workerID: Int64
    ) async throws(PostgresError) -> SetAsideAnswer {
        let key = job.progress.key
        try await note([(key, job.capNews)], workerID: workerID)
        let rows = try await execute(
            .setAside,
            [
                "queue_id": .int4(key.queueID), "job_id": .int8(key.jobID), "epoch": .int4(key.epoch),
                "worker_id": .int8(workerID), "problem": .text(problem), "most": .int4(Int32(policy.maximumTries)),
                "pause": .interval(policy.pause), "losses": .int2(Int16(job.addedLosses)),
                "watermark": .int2(Int16(job.progress.watermark)), "outcomes": .bytea(job.progress.outcomes),
            ])
        guard let row = rows.first else { return .lost }
        if row.bool("is_locked") { return .locked }
        return row.bool("is_aside") ? .setAside : .triedAgain
    }
}
