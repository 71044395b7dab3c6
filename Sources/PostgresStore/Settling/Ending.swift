import QueueCore

extension Statement {
    /// Ends jobs: writes results, counts, retries and dead devices in one statement. All of them depend on the fenced
    /// delete, so a lost lease contributes no result, no count, no retry and no deactivation.
    ///
    /// The statement does not wait for locked rows: the transactions that lock them may last, and the worker's next
    /// statement waits behind this one. It skips a locked lease, a lease of a job that is sent again while another
    /// transaction is copying its message to today, and a locked device or channel. It adds counts to a part of the
    /// campaign's tally that is not locked. Any other lock may cost 50 ms.
    ///
    /// The parameters are arrays of four lengths. Arrays without a prefix have one element for each job: its lease, its
    /// outcomes and their counts, the raw texts of unknown reasons, and the losses. The other arrays refer to a job by
    /// its place among these, from 1, because a worker may have two leases of one job, of which it has lost the older
    /// one.
    /// - `$again_…`: the recipients of all jobs that are sent to again: see ``continuingJobs``.
    /// - `$report_…`: what APNs reported about devices. A null time stands for the time of sending; the age is how many
    ///   µs ago the push was sent. With a kind, the report counts only if the token is of this kind, and perhaps
    ///   only if the app itself has registered it so.
    /// - `$channel_…`: what APNs reported about channels. The pause is the time in µs in which nothing new is due; null
    ///   retires the channel.
    static let endJobs = Statement(
        "end_jobs",
        #"""
        with given as materialized (
          select g.*
          from unnest($queue_ids::int[], $job_ids::bigint[], $epochs::int[], $outcomes::bytea[],
                      $recipients::smallint[], $delivered::smallint[], $rejected::smallint[], $failed::smallint[],
                      $suppressed::smallint[], $expired::smallint[], $cancelled::smallint[], $unknown::smallint[],
                      $retried::smallint[], $bad::smallint[], $notes::text[], $losses::bytea[]) with ordinality
            as g(queue_id, job_id, epoch, outcomes, recipients,
                 delivered, rejected, failed, suppressed, expired, cancelled, unknown, retried, bad, notes, losses,
                 place)
          -- Called once for the statement: the table of leases may have grown since it was planned.
          cross join pushq.fit_plans()
          -- Sets the timeout for this transaction only.
          where set_config('lock_timeout', '50ms', true) is not null),
        sent_again as materialized (select distinct place from unnest($again_places::bigint[]) p(place)),
        \#(messagesApart),
        -- Lateral with a limit, so that each lease is found by its key, and then deleted by its ctid: a join by key
        -- would read the whole table if statistics say that it is small, with the dead rows of all leases that have
        -- ended since the last vacuum.
        free as materialized (
          select g.*, l.spot, l.stored
          from given g
          cross join lateral (
            select l.ctid as spot, l.queue_id, l.message_id, l.outcomes as stored
            from pushq.lease l
            where l.queue_id = g.queue_id and l.job_id = g.job_id and l.epoch = g.epoch
              and l.worker_id = $worker_id and l.recipient_count = g.recipients
            limit 1
            for update skip locked) l
          where not exists (select from apart a where a.queue_id = l.queue_id and a.message_id = l.message_id)
            or g.place not in (select place from sent_again)),
        fenced as materialized (
          delete from pushq.lease l
          using free g
          where l.ctid = g.spot
          returning l.queue_id, l.job_id, l.epoch, l.lane, l.run_at, l.send_by, l.message_id, l.campaign_id, l.root_id,
                    l.body_day, l.attempt, l.losses, l.at_most_once,
                    g.outcomes, g.delivered, g.rejected, g.failed, g.suppressed, g.expired, g.cancelled, g.unknown,
                    g.retried, g.bad, g.notes, g.losses as all_losses, g.place, g.stored),
        ended as (
          insert into pushq.result (day, queue_id, job_id, root_id, body_day, message_id, lane, attempt, ended_at,
                                    outcomes, delivered, rejected, failed, suppressed, expired, cancelled, unknown,
                                    retried, notes, losses, worker_id)
          select pushq.today(), queue_id, job_id, root_id, body_day, message_id, lane, attempt, now(), outcomes,
                 delivered, rejected, failed, suppressed, expired, cancelled, unknown, retried, notes::jsonb,
                 all_losses, $worker_id
          from fenced),

        \#(continuingJobs),

        -- Dead devices: all that were reported, except those that an app registered after the reported time.
        report as materialized (
          select distinct on (f.queue_id, x.device_id, x.suspect)
                 f.queue_id, x.device_id, x.reason, t.reported_at, x.suspect, f.root_id, f.job_id
          from unnest($report_places::bigint[], $report_devices::bigint[], $report_reasons::smallint[],
                      $report_times::timestamptz[], $report_suspects::boolean[], $report_ages::bigint[],
                      $report_kinds::text[], $report_registered::boolean[])
            as x(place, device_id, reason, reported_at, suspect, age, kind, is_registered)
          join fenced f on f.place = x.place
          -- The time of a report is at most the time of sending, so a report says nothing about an app that registers
          -- the token while the push is in flight.
          cross join lateral (
            select least(x.reported_at, now() - x.age * interval '1 microsecond') as reported_at) t
          where x.kind is null or exists (
            select
            from pushq.device d
            where d.queue_id = f.queue_id and d.id = x.device_id
              and d.kind in (x.kind, case x.kind when 'liveactivity' then 'liveactivity-start' end)
              and (d.registered_at is not null or not x.is_registered))
          -- A bad token does not tell when it died. If a device is also reported as dead, that report counts, however
          -- old it is.
          order by f.queue_id, x.device_id, x.suspect, t.reported_at desc),
        dying as materialized (
          select d.queue_id, d.id, r.reason, r.reported_at
          from report r
          join pushq.device d on d.queue_id = r.queue_id and d.id = r.device_id
          -- A device that is inactive because of bad tokens is dead from now on: undoing those deactivations does not
          -- reactivate it.
          where (d.active or d.inactive_reason = any ($suspicions::smallint[])) and not r.suspect
            and pushq.known_since(d.registered_at, d.reactivated_at) <= r.reported_at
          for no key update of d skip locked),
        -- By key, not by ctid: the lock above may be on a version of the row that this statement does not see yet.
        dead as (
          update pushq.device d
          set active = false, inactive_since = y.reported_at, inactive_reason = y.reason
          from dying y
          where d.queue_id = y.queue_id and d.id = y.id
          returning d.queue_id, d.id),
        -- The statement does not wait for a device that another transaction is writing: a duty acts on its report
        -- later.
        left_for_later as materialized (
          select r.queue_id, r.device_id, d.token, r.reason, r.reported_at, r.root_id, r.job_id
          from report r
          join pushq.device d on d.queue_id = r.queue_id and d.id = r.device_id
          where (d.active or d.inactive_reason = any ($suspicions::smallint[])) and not r.suspect
            and pushq.known_since(d.registered_at, d.reactivated_at) <= r.reported_at
            and (r.queue_id, r.device_id) not in (select queue_id, id from dying)
            -- Usually all reported devices are dying, and none is looked up again.
            and (select count(*) from dying) < (select count(*) from report where not suspect)),
        kept_for_later as (
          insert into pushq.feedback_record (queue_id, token, reason, reported_at, root_id, job_id)
          select queue_id, token, reason, reported_at, root_id, job_id from left_for_later),
        evidence as (
          insert into pushq.feedback (queue_id, device_id, reason, reported_at, verdict, root_id, job_id)
          select r.queue_id, r.device_id, r.reason, r.reported_at,
                 -- Not a join: the planner does not know how many devices are dead, and would compare each row with
                 -- each.
                 case when r.suspect then 'suspect'
                      when (r.queue_id, r.device_id) in (select queue_id, id from dead) then 'deactivated'
                      else 'kept' end,
                 r.root_id, r.job_id
          from report r
          where r.suspect or (r.queue_id, r.device_id) not in (select queue_id, device_id from left_for_later)),

        -- Channels: only broadcasts report on them, at most once for each job.
        channel_report as materialized (
          select c.queue_id, c.id, x.reason, x.pause
          from unnest($channel_places::bigint[], $channel_ids::bigint[], $channel_reasons::smallint[],
                      $channel_pauses::bigint[])
            as x(place, channel_id, reason, pause)
          join fenced f on f.place = x.place
          join pushq.channel c on c.queue_id = f.queue_id and c.id = x.channel_id
          where c.retired_at is null
          for no key update of c skip locked),
        channel_news as (
          update pushq.channel c
          set throttled_until = now() + x.pause * interval '1 microsecond',
              retired_at = case when x.pause is null then now() end,
              retired_reason = case when x.pause is null then x.reason end
          from channel_report x
          where c.queue_id = x.queue_id and c.id = x.id),

        -- The counts of campaigns are added to a part of the tally that is not locked, or to a new part.
        sums as materialized (
          select queue_id, campaign_id, message_id, sum(delivered) as delivered, sum(rejected) as rejected,
                 sum(failed) as failed, sum(suppressed) as suppressed, sum(expired) as expired,
                 sum(cancelled) as cancelled, sum(unknown) as unknown, sum(retried) as retried, sum(bad) as bad
          from fenced
          where campaign_id is not null
          group by queue_id, campaign_id, message_id),
        part as materialized (
          select s.queue_id, s.campaign_id, s.message_id, t.part
          from sums s
          left join lateral (
            select part
            from pushq.campaign_tally p
            where p.queue_id = s.queue_id and p.campaign_id = s.campaign_id and p.message_id = s.message_id
            order by part
            limit 1
            for no key update skip locked) t on true),
        counted as (
          update pushq.campaign_tally t
          set delivered = t.delivered + s.delivered, rejected = t.rejected + s.rejected, failed = t.failed + s.failed,
              suppressed = t.suppressed + s.suppressed, expired = t.expired + s.expired,
              cancelled = t.cancelled + s.cancelled, unknown = t.unknown + s.unknown, retried = t.retried + s.retried,
              bad = t.bad + s.bad
          from part p
          join sums s on s.queue_id = p.queue_id and s.campaign_id = p.campaign_id and s.message_id = p.message_id
          where t.queue_id = p.queue_id and t.campaign_id = p.campaign_id and t.part = p.part),
        counted_apart as (
          insert into pushq.campaign_tally (queue_id, campaign_id, part, message_id, delivered, rejected, failed,
                                            suppressed, expired, cancelled, unknown, retried, bad)
          select s.queue_id, s.campaign_id, nextval('pushq.id'), s.message_id, s.delivered, s.rejected, s.failed,
                 s.suppressed, s.expired, s.cancelled, s.unknown, s.retried, s.bad
          from part p
          join sums s on s.queue_id = p.queue_id and s.campaign_id = p.campaign_id and s.message_id = p.message_id
          where p.part is null)
        select queue_id, job_id, epoch, true as written from fenced
        union all
        select g.queue_id, g.job_id, g.epoch, false
        from given g
        cross join lateral (
          select
          from pushq.lease l
          where l.queue_id = g.queue_id and l.job_id = g.job_id and l.epoch = g.epoch and l.worker_id = $worker_id
            and l.recipient_count = g.recipients
          limit 1) l
        where (select count(*) from fenced) < (select count(*) from given)
          and not exists (select from fenced f where f.place = g.place)
        """#)
}

extension PostgresConnection {
    /// The reasons that deactivate a device only after it was judged.
    private static let suspicions = Reason.all.filter { $0.row.action == .suspect }.map { Int16($0.code) }

    /// Ends jobs. Jobs that this worker has lost, or whose lease is locked, contribute nothing.
    package func endJobs(_ jobs: [SettledJob], workerID: Int64) async throws(PostgresError) -> WrittenLeases {
        if jobs.contains(where: { !$0.capNews.isEmpty }) {
            try await note(jobs.map { ($0.key, $0.capNews) }, workerID: workerID)
        }
        try await giveBack(jobs.map { ($0.key, $0.givenBackBadges) }, workerID: workerID)
        let places = 1...Int64(max(1, jobs.count))
        let tallies = jobs.map { OutcomeTally(counting: $0.outcomes.span) }
        func counts(_ count: (OutcomeTally) -> Int) -> Parameter { .int2Array(tallies.map { Int16(count($0)) }) }
        let reports = zip(places, jobs).flatMap { place, job in job.reports.map { (place: place, report: $0) } }
        // The database's clock counts. This process knows only how long ago each push was sent.
        let now = ContinuousClock.now
        let channels = zip(places, jobs).compactMap { place, job in
            job.channelReport.map { (place: place, report: $0) }
        }
        let parameters: Parameters = [
            "worker_id": .int8(workerID), "outcomes": .byteaArray(jobs.map(\.outcomes)),
            "recipients": .int2Array(jobs.map { Int16($0.outcomes.count) }),
            "delivered": counts(\.delivered), "rejected": counts(\.rejected), "failed": counts(\.failed),
            "suppressed": counts(\.suppressed), "expired": counts(\.expired), "cancelled": counts(\.cancelled),
            "unknown": counts(\.unknown), "retried": counts(\.retried),
            "bad": .int2Array(jobs.map { job in Int16(job.outcomes.count { Outcome(rawValue: $0).isBadAnswer }) }),
            "notes": .optionalTextArray(jobs.map(\.notes)), "losses": .optionalByteaArray(jobs.map(\.losses)),

            "report_places": .int8Array(reports.map(\.place)),
            "report_devices": .int8Array(reports.map(\.report.deviceID)),
            "report_reasons": .int2Array(reports.map { Int16($0.report.reason.code) }),
            "report_times": .optionalTimestamptzArray(reports.map(\.report.reportedAt)),
            "report_suspects": .boolArray(reports.map { $0.report.reason.row.action == .suspect }),
            "report_ages": .int8Array(reports.map { max(0, $0.report.sentAt.duration(to: now).wholeMicroseconds) }),
            "report_kinds": .optionalTextArray(reports.map(\.report.neededKind)),
            "report_registered": .boolArray(reports.map(\.report.needsRegistration)),

            "suspicions": .int2Array(Self.suspicions),

            "channel_places": .int8Array(channels.map(\.place)),
            "channel_ids": .int8Array(channels.map(\.report.channelID)),
            "channel_reasons": .int2Array(channels.map { Int16($0.report.reason.code) }),
            "channel_pauses": .optionalInt8Array(channels.map { $0.report.pause?.wholeMicroseconds }),
        ]
        return WrittenLeases(
            try await execute(
                .endJobs, parameters + jobs.map(\.again).parameters + jobs.map(\.key).parameters))
    }
}

extension SettledJob.DeviceReport {
    /// The kind of token for which the report counts, as `pushq.device_kind` names it; nil: for any.
    fileprivate var neededKind: String? {
        switch accused {
        case .deviceOfKind(let type), .deviceRegistered(let type): type.rawValue
        case .device, .nobody: nil
        }
    }

    /// Whether it counts only if the app has registered the token.
    fileprivate var needsRegistration: Bool {
        if case .deviceRegistered = accused { true } else { false }
    }
}
