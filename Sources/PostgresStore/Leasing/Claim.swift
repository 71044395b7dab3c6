package import QueueCore

extension Statement {
    /// Moves ready jobs from `job` to `lease`. Returns their recipients, with the tokens of those that are active.
    ///
    /// `$quotas`: the number of jobs of each lane. `$run_ats` and `$job_ids`: where each lane begins, as a poll has
    /// just found it. Jobs that were claimed earlier leave index entries, which the probe then need not pass over.
    /// `$at_most_once_window`: how many recipients of a job that is sent at most once may be sent to before its first
    /// flush.
    /// `$translation_room`, `$translation_rooms`: how many bytes of translations the claim may return, in all and of
    /// the tenant of each lane. `$longest_message`: the bytes of a message in all languages, at most.
    static let claim = Statement(
        "claim",
        #"""
        with want as materialized (
          select *
          from unnest($queue_ids::int[], $lanes::int[], $quotas::int[], $run_ats::timestamptz[],
                      $job_ids::bigint[], $translation_rooms::int[])
            as w(queue_id, lane, quota, run_at, id, room)
          -- Skips queues that were paused after the worker last read their settings, and queues that do not exist here:
          -- an operator removed them, or their tenant has moved to another database, whose workers send for it.
          where exists (
            select
            from pushq.queue q
            join pushq.tenant t on t.id = q.tenant_id
            where q.id = w.queue_id and q.paused_at is null and t.suspended_at is null)),
        pick as materialized (
          select j.*, w.queue_id, w.room
          from want w
          cross join lateral (
            select ctid as spot, run_at, campaign_id, body_day, message_id
            from pushq.job
            where queue_id = w.queue_id and lane = w.lane and run_at <= now() and (run_at, id) >= (w.run_at, w.id)
            order by run_at, id
            limit w.quota
            for update skip locked) j),
        -- The messages that the claim may return. Only those of campaigns have translations.
        said as materialized (
          select queue_id, body_day, message_id, min(run_at) as run_at, min(room) as room
          from pick
          where campaign_id is not null
          group by queue_id, body_day, message_id),
        -- The translated messages for which the worker has no room: their jobs stay where they are. Each tenant's
        -- oldest messages come first, and of all tenants those that take least. Messages are looked up only if there
        -- are so many that they might not fit if each was as long as one may be.
        excess as materialized (
          select queue_id, body_day, message_id
          from (
            select *,
                   sum(bytes) filter (where of_tenant <= room) over (order by of_tenant, run_at, message_id) as in_all
            from (
              select s.*, m.bytes,
                     sum(m.bytes) over (partition by q.tenant_id order by s.run_at, s.message_id, s.body_day)
                       as of_tenant
              from said s
              cross join lateral (select tenant_id from pushq.queue where id = s.queue_id limit 1) q
              cross join lateral (
                select translated_bytes as bytes
                from pushq.message m
                where m.day = s.body_day and m.queue_id = s.queue_id and m.id = s.message_id
                  and m.translated_bytes is not null
                limit 1) m
              where (
                select count(*) * $longest_message::bigint > least(min(room), $translation_room::int)
                from said)) t) a
          where of_tenant > room or in_all > $translation_room::int),
        -- Deletes by ctid: with a join by key, the planner was seen to switch to a hash join over the whole table.
        taken as (
          delete from pushq.job j
          where j.ctid = any (array(
            select p.spot
            from pick p
            where p.campaign_id is null
              or (p.queue_id, p.body_day, p.message_id) not in (select * from excess)))
          returning j.*),
        held as (
          insert into pushq.lease (queue_id, job_id, worker_id, epoch, deadline, watermark, outcomes, lane, run_at,
                                   send_by, message_id, campaign_id, root_id, body_day, recipient_count, attempt,
                                   losses, at_most_once)
          select queue_id, id, $worker_id, epoch + 1, now() + $lease::interval,
                 case when at_most_once then least(recipient_count, watermark + $at_most_once_window::int)
                      else recipient_count end,
                 coalesce(outcomes, decode(repeat('00', recipient_count), 'hex')),
                 lane, run_at, send_by, message_id, campaign_id, root_id, body_day, recipient_count, attempt, losses,
                 at_most_once
          from taken)
        -- The columns are in the order in which ClaimedJob reads them, so that each look-up succeeds at once.
        select m.id as message_id, b.device_ids, m.push_type, m.expiration, m.payload::text, m.priority, m.collapse_id,
               m.is_broadcast, m.replaces, t.recipient_count, t.queue_id, t.id as job_id, t.epoch + 1 as epoch, t.lane,
               t.root_id, t.attempt, t.losses, t.at_most_once, t.watermark as previous_watermark, t.outcomes,
               -- A push that APNs was told to forget by a certain time need not be sent after that time.
               (extract(epoch from least(case when t.id < f.new_end_before then f.send_by else t.send_by end,
                                         to_timestamp(nullif(m.expiration, 0))) - now()) * 1000000)::bigint
                 as send_within,
               c.cancelled_at is not null
                 or exists (select from pushq.cancelled x where x.queue_id = t.queue_id and x.id in (t.root_id, t.id))
                   as cancelled,
               c.paused_at is not null as paused, c.stop_at_errors is not null as is_judged,
               c.quiet_hours <> 'none' as has_quiet_hours,
               coalesce(f.lane <> t.lane, false) as is_elsewhere, coalesce(b.slice < 0, false) as is_continued,
               (extract(epoch from m.created_at) * 1000000)::bigint as made_at,
               (extract(epoch from now() - m.created_at) * 1000000)::bigint as age,
               (extract(epoch from now() - t.run_at) * 1000000)::bigint as waited,
               -- Without ids, all recipients have a token.
               case when e.tokens is null then d.ids else nullif(e.ids, b.device_ids) end as active_ids,
               e.tokens as equally_long_tokens, d.tokens,
               m.badge_increment, m.languages is not null as is_translated, m.placeholders,
               p.ids as profile_ids, p.versions, p.texts,
               -- The jobs of a campaign that is being paused have 'infinity', which becomes a time that sorts last.
               coalesce((extract(epoch from nullif(t.run_at, 'infinity')) * 1000000)::bigint, 9223372036854775807)
                 as run_at,
               -- Hundreds of kilobytes for a message, so only one of its jobs brings them. PostgreSQL makes the list of
               -- these jobs when it comes to the first translated message: a claim without any does not pay for it. The
               -- day is part of the key because a message may have rows on several days.
               case when m.languages is null then null
                    when (t.queue_id, t.id) in (
                      select x.queue_id, min(x.id)
                      from taken x
                      group by x.queue_id, x.body_day, x.message_id) then m.translations end as translations
        from taken t
        left join lateral (
          select *, pushq.message_kind(push_type, payload) as kind
          from pushq.message m
          where m.day = t.body_day and m.queue_id = t.queue_id and m.id = t.message_id
          limit 1) m on true
        left join pushq.campaign c on c.queue_id = t.queue_id and c.id = t.campaign_id
        left join pushq.fan_out f on f.queue_id = t.queue_id and f.campaign_id = t.campaign_id
        -- The lateral join has a limit because the planner may otherwise hash-join all of history (seen with fresh
        -- partitions).
        left join lateral (
          select device_ids, first_device_id, last_device_id, slice
          from pushq.body b
          where b.day = t.body_day and b.queue_id = t.queue_id and b.job_id = t.id
          limit 1) b on true
        -- Only active devices, and none that its app has registered for pushes of another kind. For a message to a
        -- user, or a campaign to a list of users, only devices that still belong to the user: a phone may have changed
        -- hands since. A recipient that is missing from the answer is suppressed.
        --
        -- This is the cost of a campaign, so most jobs take a short way. If the job's range of device ids, which are
        -- 1024 apart at least, is dense, one range scan reads it, which also returns devices of other jobs:
        -- RecipientTokens picks the job's own by id. It is in the order of its index, and its tokens become one value,
        -- unless they differ in length. This takes 0.3 to 0.5 µs a recipient, where a sorted union of all cases with an
        -- array of tokens takes 0.9.
        cross join lateral (
          select array_agg(v.id) as ids,
                 case when octet_length(string_agg(v.token, '')) = max(octet_length(v.token)) * count(*)
                      then string_agg(v.token, '') end as tokens
          from (
            select d.id, d.token
            from pushq.device d
            where b.last_device_id - b.first_device_id < 5 * 1024 * t.recipient_count
              and m.push_type <> 'liveactivity'
              and d.queue_id = t.queue_id and d.id between b.first_device_id and b.last_device_id and d.active
              and (d.kind is null or d.kind = m.kind or d.registered_at is null)
              and \#(belongsToItsUser("d"))
            order by d.id) v) e
        -- All others probe each device (1.9 µs a recipient). Live Activities, to devices or to a channel, have a
        -- function of their own (migrations/functions/supersede.sql): as branches here, they would cost each claim the
        -- set-up of their tables. Each job matches one of the two; PostgreSQL evaluates the conditions on its message
        -- once.
        cross join lateral (
          select array_agg(v.id) as ids, array_agg(v.token) as tokens
          from (
            select * from (
              select d.id, d.token, d.user_key
              from pushq.device d
              where m.push_type <> 'liveactivity'
                and d.queue_id = t.queue_id and d.id = any (b.device_ids) and d.active
                and (d.kind is null or d.kind = m.kind or d.registered_at is null)
              union all
              select r.id, r.token, r.user_key
              from pushq.update_recipients(
                t.queue_id, t.root_id, t.id, m.id, m.due_at, m.kind, m.is_broadcast, f.clock is not null,
                b.device_ids) r
              where m.push_type = 'liveactivity' or m.is_broadcast) u
            where \#(belongsToItsUser("u"))
            order by u.id) v
          -- Out here, it also spares the other jobs the set-up of the sort.
          where e.tokens is null) d
        -- For a personal message: the version that each recipient gets, and the values of its placeholders. The limit
        -- makes PostgreSQL evaluate the condition before it calls the function, so other messages do not call it.
        left join lateral (
          select r.ids, r.versions, r.texts
          from pushq.recipient_values(t.queue_id, b.device_ids, m.languages, m.placeholders) r
          where m.languages is not null or m.placeholders is not null
          limit 1) p on true
        """#)

    /// The condition that a device still belongs to the user of a message, or to one on a campaign's list of users.
    private static func belongsToItsUser(_ device: String) -> String {
        """
        (m.user_key is null or \(device).user_key = m.user_key)
              and (f.is_for_users is not true
                or exists (
                  select
                  from pushq.list_user l
                  where l.queue_id = t.queue_id and l.list_id = f.list_id and l.user_key = \(device).user_key))
        """
    }

    /// Finds the recipients of jobs that were created without any (migrations/functions/recipients.sql).
    static let findRecipients = Statement(
        "find_recipients",
        "select from pushq.find_recipients($queue_ids::int[], $job_ids::bigint[], $epochs::int[], $worker_id::bigint)")
}

/// The number of jobs to claim in one lane.
package struct ClaimQuota: Equatable, Sendable {
    package let queueID: Int32
    package let lane: Lane
    package let jobs: Int32
    /// The first job of the lane, if a poll has just found it.
    package let head: LaneHead?

    package init(queueID: Int32, lane: Lane, jobs: Int32, head: LaneHead? = nil) {
        self.queueID = queueID
        self.lane = lane
        self.jobs = jobs
        self.head = head
    }
}

extension PostgresConnection {
    /// Claims jobs for `workerID` for the time `lease`, and returns them in the order in which they are to be sent: by
    /// `run_at`, then by id. Skips jobs that other workers are claiming at this moment.
    /// - Parameters:
    ///   - translationRoom: how many bytes of translations the claim may return. Jobs of further translated messages
    ///     stay where they are; all other jobs are claimed.
    ///   - tenantRoom: how many bytes of translations the claim may return of all messages of a lane's tenant.
    package func claim(
        _ quotas: [ClaimQuota], workerID: Int64, lease: Duration, atMostOnceWindow: Int, translationRoom: Int = .max,
        tenantRoom: (ClaimQuota) -> Int = { _ in .max }
    ) async throws(PostgresError) -> [ClaimedJob] {
        let rows = try await claimRows(
            quotas, workerID: workerID, lease: lease, atMostOnceWindow: atMostOnceWindow,
            translationRoom: translationRoom, tenantRoom: tenantRoom)
        // PostgreSQL returns the rows in the order in which they lie in the table, where vacuum may put new rows before
        // old ones. They are sorted here because PostgreSQL would sort them on disk: a batch exceeds its work_mem.
        var messages = PersonalMessages(rows)
        let jobs = rows.compactMap { row in
            ClaimedJob(row, &messages).map { (runAt: row.int8("run_at"), job: $0) }
        }
        return jobs.sorted { ($0.runAt, $0.job.key.jobID) < ($1.runAt, $1.job.key.jobID) }.map(\.job)
    }

    /// What `claim` reads from PostgreSQL: a row for each job, in no order.
    package func claimRows(
        _ quotas: [ClaimQuota], workerID: Int64, lease: Duration, atMostOnceWindow: Int, translationRoom: Int = .max,
        tenantRoom: (ClaimQuota) -> Int = { _ in .max }
    ) async throws(PostgresError) -> Rows {
        try await execute(
            .claim,
            [
                "queue_ids": .int4Array(quotas.map(\.queueID)), "lanes": .int4Array(quotas.map(\.lane.rawValue)),
                "quotas": .int4Array(quotas.map(\.jobs)),
                // 1970 is earlier than the time of any job.
                "run_ats": .timestamptzArray(quotas.map { $0.head?.runAt ?? 0 }),
                "job_ids": .int8Array(quotas.map { $0.head?.jobID ?? 0 }),
                "translation_rooms": .int4Array(quotas.map { Int32(clamping: tenantRoom($0)) }),
                "translation_room": .int4(Int32(clamping: translationRoom)),
                "longest_message": .int8(Int64(CampaignMessage.maximumBytes)),
                "worker_id": .int8(workerID), "lease": .interval(lease),
                "at_most_once_window": .int4(Int32(atMostOnceWindow)),
            ])
    }

    /// Finds the recipients of jobs that were created without any. The jobs are then claimed again, for these
    /// recipients; without recipients they are deleted.
    package func findRecipients(of keys: [LeaseKey], workerID: Int64) async throws(PostgresError) {
        _ = try await execute(.findRecipients, ["worker_id": .int8(workerID)] + keys.parameters)
    }
}

extension ClaimedJob {
    fileprivate init?(_ row: Row, _ messages: inout PersonalMessages) {
        let missing: Missing? = row.isNull("message_id") ? .message : row.isNull("device_ids") ? .body : nil
        // A job of a push type or lane that only a newer version knows is left to a worker of that version.
        guard let message = missing == .message ? .missing : StoredMessage(row),
            let lane = Lane(rawValue: row.int4("lane"))
        else { return nil }
        let deviceIDs = row.optionalInt8Array("device_ids") ?? []
        let statedCount = Int(row.int2("recipient_count"))
        self.init(
            key: LeaseKey(row), lane: lane, message: message,
            rootID: row.int8("root_id"), attempt: Int(row.int2("attempt")), losses: Int(row.int2("losses")),
            isAtMostOnce: row.bool("at_most_once"), previousWatermark: Int(row.int2("previous_watermark")),
            outcomes: row.optionalBytes("outcomes") ?? [], sendWithin: .microseconds(row.int8("send_within")),
            isCancelled: row.bool("cancelled"), isPaused: row.bool("paused"), isElsewhere: row.bool("is_elsewhere"),
            isContinued: row.bool("is_continued"),
            judgedCampaign: row.bool("is_judged") ? row.int8("root_id") : nil, deviceIDs: deviceIDs,
            statedCount: statedCount == deviceIDs.count ? nil : statedCount, missing: missing,
            hasOwnQuietHours: row.isNull("has_quiet_hours") ? nil : row.bool("has_quiet_hours"),
            madeAt: row.optionalInt8("made_at") ?? 0, age: .microseconds(row.optionalInt8("age") ?? 0),
            waited: .microseconds(row.int8("waited")),
            tokens: RecipientTokens(row, recipients: deviceIDs),
            personal: messages.message(of: row, payload: message.payload).map {
                PersonalPayloads(row, of: $0, recipients: deviceIDs)
            },
            badgeIncrement: row.optionalInt2("badge_increment").map { Int($0) })
    }
}

extension RecipientTokens {
    fileprivate init(_ row: Row, recipients: [Int64]) {
        let ids = row.optionalInt8Array("active_ids")
        if let tokens = row.optionalBytes("equally_long_tokens") {
            let ids = ids ?? recipients
            self.init(of: recipients, among: ids, ByteArrays(equallyLong: tokens, count: ids.count))
        } else {
            self.init(of: recipients, among: ids ?? [], row.byteArrays("tokens"))
        }
    }
}
