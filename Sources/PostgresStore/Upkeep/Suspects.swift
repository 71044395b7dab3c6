import QueueCore

extension Statement {
    /// Judges devices whose tokens APNs called bad. If each of them were deactivated when its job ends, a queue with
    /// the wrong environment would lose all of its devices. So the share of suspects among the queue's answers decides.
    ///
    /// Answers and suspects are counted over the same time: from the first suspect that has not been judged to now, or
    /// to the answer that completes the required number. The rest is left to the next call: otherwise, a block of bad
    /// tokens in the middle of a campaign would vanish among all later answers. One statement writes both, with one
    /// time. Suspects from before the queue was resumed are spared: the operator who resumed it has corrected
    /// something.
    ///
    /// A device, report or queue that another transaction is writing is left to the next call.
    ///
    /// The parameters are those of ``SuspectPolicy``.
    static let judgeSuspects = Statement(
        "judge_suspects",
        #"""
        -- Probes by key, queue by queue: during a large campaign, suspects arrive faster than they are judged.
        with recursive suspected as (
          (select f.queue_id
           from pushq.feedback f
           -- Called once for the statement: the day's reports may be many more than when it was planned.
           cross join pushq.fit_report_plans()
           where f.verdict = 'suspect' and f.day >= pushq.today() - 1
           order by f.queue_id
           limit 1)
          union all
          select n.queue_id
          from suspected s
          cross join lateral (
            select f.queue_id
            from pushq.feedback f
            where f.verdict = 'suspect' and f.day >= pushq.today() - 1 and f.queue_id > s.queue_id
            order by f.queue_id
            limit 1) n),
        accused as materialized (
          select q.id as queue_id, t.resumed_at, e.judged_to, j.spared, f.since
          from suspected s
          join pushq.queue q on q.id = s.queue_id
          left join pushq.judgement j on j.queue_id = q.id
          -- Times ahead were written before the database's clock was set back.
          cross join lateral (
            select coalesce(case when q.resumed_at <= now() + interval '1 minute' then q.resumed_at end, '-infinity')
                     as resumed_at,
                   coalesce(case when j.judged_to <= now() + interval '1 minute' then j.judged_to end, '-infinity')
                     as judged_to) t
          -- An earlier judgement leaves devices that were locked. If it found the queue right, and has left as many as
          -- make a queue wrong, they were not committed yet: they are judged, with the answers since then.
          cross join lateral (
            select count(*) as suspects
            from (
              select
              from pushq.feedback f
              where f.verdict = 'suspect' and f.day >= pushq.today() - 1 and f.queue_id = q.id
                and f.recorded_at > t.resumed_at and f.recorded_at <= t.judged_to
              limit $fewest::int) f) l
          cross join lateral (
            select case when j.spared or l.suspects < $fewest::int then t.judged_to else '-infinity' end as judged_to) e
          cross join lateral (
            select min(f.recorded_at) as since
            from pushq.feedback f
            where f.verdict = 'suspect' and f.day >= pushq.today() - 1 and f.queue_id = q.id
              and f.recorded_at > greatest(t.resumed_at, e.judged_to)) f),
        seen as materialized (
          select a.queue_id, a.since, r.answers, r.upto, r.has_more, s.suspects, s.devices, s.reason
          from accused a
          -- A few jobs of a campaign have as many answers as one step counts. More jobs are needed only if they are
          -- single pushes.
          cross join lateral (
            select case when coalesce(sum(s.answers), 0) >= $window_answers::int then $few else $window end as jobs
            from pushq.answers_since(a.queue_id, a.since, $few) s) n
          cross join lateral (
            select coalesce(sum(w.answers) filter (where w.counts), 0)::bigint as answers,
                   max(w.ended_at) filter (where w.counts) as upto,
                   sum(w.jobs) >= n.jobs or bool_or(not w.counts) as has_more
            from (
              select s.ended_at, s.answers, s.jobs,
                     -- The answers that one statement has written are counted as a whole.
                     sum(s.answers) over (order by s.ended_at) - s.answers < $window_answers::int as counts
              from pushq.answers_since(a.queue_id, a.since, n.jobs) s) w) r
          cross join lateral (
            select count(*) as suspects, count(distinct f.device_id) as devices,
                   mode() within group (order by f.reason) as reason
            from pushq.feedback f
            where f.queue_id = a.queue_id and f.verdict = 'suspect' and f.day >= pushq.today() - 1
              and f.recorded_at between a.since and r.upto) s
          where a.since is not null),
        judged as materialized (
          select queue_id, answers, suspects, since, upto, has_more, reason,
                 suspects >= $fewest::int and suspects >= answers * $share::float8
                   and (devices >= $fewest::int or suspects * 2 > answers) as queue_is_wrong
          from seen
          where answers > 0
            and (answers >= $enough_answers::int or since < now() - $patience::interval
              -- A small app gets no more answers, and no later answer could show that the queue is right.
              or devices >= $fewest::int and suspects * 2 > answers and since < now() - $haste::interval)
            -- If most answers call tokens bad but they are few, nothing shows that the queue is right, either.
            and (suspects * 2 <= answers or suspects >= $fewest::int)),
        free_queue as materialized (
          select q.id, q.paused_at
          from pushq.queue q
          join judged j on j.queue_id = q.id
          where j.queue_is_wrong
          for no key update of q skip locked),
        ruling as materialized (
          select j.queue_id, greatest(a.resumed_at, a.judged_to) as after, j.upto, j.queue_is_wrong as spares
          from judged j
          join accused a on a.queue_id = j.queue_id
          where not j.queue_is_wrong or j.queue_id in (select id from free_queue)),
        noted as (
          insert into pushq.judgement as g (queue_id, judged_to, spared)
          select queue_id, upto, spares from ruling
          on conflict on constraint judgement_pkey do update
            set judged_to = excluded.judged_to, spared = excluded.spared),
        suspect as materialized (
          select f.day, f.queue_id, f.id, f.device_id, f.reason, f.reported_at, r.spares
          from (
            select * from ruling
            union all
            -- Suspects that earlier judgements have left.
            select queue_id, resumed_at, judged_to, spared from accused where judged_to > resumed_at
            union all
            select queue_id, '-infinity', resumed_at, true from accused) r
          -- Probes by key: a join would read all suspects of all queues.
          cross join lateral (
            select f.day, f.queue_id, f.id, f.device_id, f.reason, f.reported_at
            from pushq.feedback f
            where f.queue_id = r.queue_id and f.recorded_at > r.after and f.recorded_at <= r.upto
              and f.verdict = 'suspect' and f.day >= pushq.today() - 1
            for no key update skip locked) f),
        free_device as materialized (
          select d.queue_id, d.id
          from pushq.device d
          join (select distinct queue_id, device_id from suspect where not spares) s
            on s.queue_id = d.queue_id and s.device_id = d.id
          for no key update of d skip locked),
        paused as (
          update pushq.queue q
          set paused_at = now(),
              paused_reason = pushq.bad_tokens_problem(
                j.queue_id, case j.reason when $other_topic::smallint then $other_topic_text else $bad_token_text end,
                j.suspects, j.answers,
                array(
                  select d.token
                  from pushq.feedback f
                  join pushq.device d on d.queue_id = f.queue_id and d.id = f.device_id
                  where f.queue_id = j.queue_id and f.verdict = 'suspect' and f.day >= pushq.today() - 1
                    and f.recorded_at between j.since and j.upto
                  limit 100)),
              paused_credential_version = null
          from judged j
          where q.id = j.queue_id and q.id in (select id from free_queue where paused_at is null)
          returning q.id, q.paused_reason, pushq.tell('queue', q.id)),
        dead as (
          update pushq.device d
          set active = false, inactive_since = v.reported_at, inactive_reason = v.reason
          from (
            select distinct on (s.queue_id, s.device_id) s.*
            from suspect s
            join free_device f on f.queue_id = s.queue_id and f.id = s.device_id
            where not s.spares
            order by s.queue_id, s.device_id, s.reported_at desc) v
          where d.queue_id = v.queue_id and d.id = v.device_id and d.active
            and pushq.known_since(d.registered_at, d.reactivated_at) <= v.reported_at
          returning d.queue_id, d.id,
                    pushq.known_since(d.registered_at, d.reactivated_at) as known_since),
        verdict as materialized (
          -- A report from before the device registered did not deactivate it, even if another report did.
          select s.day, s.queue_id, s.id,
                 case when exists (
                        select from dead x
                        where x.queue_id = s.queue_id and x.id = s.device_id and x.known_since <= s.reported_at)
                      then 'deactivated' else 'kept' end as verdict
          from suspect s
          where s.spares
            or (s.queue_id, s.device_id) in (select queue_id, id from free_device)
            or not exists (select from pushq.device d where d.queue_id = s.queue_id and d.id = s.device_id)),
        written as materialized (
          select pushq.write_verdicts(array_agg(day), array_agg(queue_id), array_agg(id), array_agg(verdict))
          from verdict)
        select (select count(*) from dead) as deactivated,
               array(select n.name from paused p join pushq.queue_name n on n.queue_id = p.id order by p.id) as paused,
               array(select p.paused_reason from paused p order by p.id) as problems,
               -- Not if the next step would see the same: more answers were judged, or a verdict was written.
               exists (
                 select
                 from ruling r
                 join judged j on j.queue_id = r.queue_id
                 left join pushq.judgement g on g.queue_id = r.queue_id
                 where j.has_more
                   and (g.queue_id is null or r.upto > g.judged_to
                        or exists (select from verdict v where v.queue_id = r.queue_id))) as has_more
        from written
        """#)
}

/// Decides when a queue, and not its devices, is to blame for bad tokens.
package struct SuspectPolicy: Sendable {
    /// The maximum number of jobs and of their answers that one step reads. The answers of one statement are counted as
    /// a whole, up to the statement that reaches the maximum. If the first `fewJobs` jobs have that many answers, no
    /// more jobs are read.
    package var window = 2000
    package var windowAnswers = 2000
    package var fewJobs = 32
    /// The number of answers since the first suspect that a judgement needs, …
    package var enoughAnswers = 200
    /// … unless the suspect has waited this long: then fewer will do, if at least half of them call no token bad.
    package var patience = Duration.seconds(600)
    /// The time after which fewer answers will also do to pause a queue if most of them call tokens bad.
    package var haste = Duration.seconds(30)
    /// The share of suspects from which the queue is to blame.
    package var share = 0.1
    /// The number of suspects below which a queue is never paused.
    package var fewest = 10

    package init() {}
}

/// The result of judging suspects.
package struct SuspectVerdict: Equatable, Sendable {
    /// A queue that was paused because it is to blame, with the reason as a sentence for operators.
    package struct PausedQueue: Equatable, Sendable {
        package let name: String
        package let problem: String
    }

    /// The number of devices that were deactivated.
    package var deactivated = 0
    package var paused: [PausedQueue] = []
    /// Whether there is more to judge at once.
    package var hasMore = false

    package init(deactivated: Int = 0, paused: [PausedQueue] = [], hasMore: Bool = false) {
        self.deactivated = deactivated
        self.paused = paused
        self.hasMore = hasMore
    }
}

extension PostgresConnection {
    /// Deactivates the suspects of a queue that has few, and pauses a queue that has many.
    package func judgeSuspects(_ policy: SuspectPolicy = SuspectPolicy()) async throws(PostgresError) -> SuspectVerdict
    {
        let otherTopic = Reason.deviceTokenNotForTopic
        let rows = try await execute(
            .judgeSuspects,
            [
                "window": .int8(Int64(policy.window)), "window_answers": .int4(Int32(policy.windowAnswers)),
                "few": .int8(Int64(policy.fewJobs)),
                "enough_answers": .int4(Int32(policy.enoughAnswers)), "patience": .interval(policy.patience),
                "haste": .interval(policy.haste), "share": .float8(policy.share),
                "fewest": .int4(Int32(policy.fewest)), "other_topic": .int2(Int16(otherTopic.code)),
                "other_topic_text": .text(otherTopic.text), "bad_token_text": .text(Reason.badDeviceToken.text),
            ])
        let row = try rows.one()
        return SuspectVerdict(
            deactivated: row.count("deactivated"),
            paused: zip(row.textArray("paused"), row.textArray("problems")).map { .init(name: $0, problem: $1) },
            hasMore: row.bool("has_more"))
    }
}
