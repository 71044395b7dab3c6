package import FoundationEssentials
package import QueueCore

extension Statement {
    fileprivate static let isStandby = Statement("is_standby", "select pg_is_in_recovery() as is_standby")

    fileprivate static let copy = Statement(
        "copy", "select pushq.current_lineage() as name, pushq.current_timeline() as timeline")

    /// When another server replaced the copy `$copy`, and the identifier from which on that copy drew different ones. A
    /// standby has a sequence up to 32 numbers ahead of the primary before it skips some.
    fileprivate static let takeover = Statement(
        "takeover",
        #"""
        select l.back_to, l.lost_id - (64 << 10) as first_id
        from pushq.lineage l
        where l.id > (select max(o.id) from pushq.lineage o where o.name = $copy)
        order by l.id
        limit 1
        """#)

    /// The days on which a job can have ended that the statements below ask about, as a condition on results `r`.
    private static let isOfTheseDays =
        "r.day >= (($since::timestamptz - interval '1 minute') at time zone 'UTC')::date"

    /// What ended only at the old server, as a condition on results `r`.
    private static let isDiverged =
        #"""
        \#(isOfTheseDays)
          and (r.ended_at > $since or (r.ended_at > $since - interval '1 minute' and r.job_id = any($jobs::bigint[])))
        """#

    /// Jobs that ended in the last minute before the two servers diverged. A transaction that was open then may have
    /// been committed only at the old server.
    private static let lastMinute =
        #"""
        select r.job_id
        from pushq.result r
        where \#(isOfTheseDays)
          and r.ended_at between $since - interval '1 minute' and $since
        """#

    fileprivate static let jobsBeforeTakeover = Statement("jobs_before_takeover", lastMinute)

    fileprivate static let missingJobs = Statement(
        "missing_jobs", "select unnest($jobs::bigint[]) as job_id except \(lastMinute)")

    /// For each send or campaign: what has ended since `$since`, and what waits, if the send is from after the
    /// takeover. Recipients below a watermark do not wait, because their pushes may have been sent.
    ///
    /// Pushes of jobs that have not ended are not counted. The new primary may have had the same progress when it took
    /// over, and nothing tells once it has gone on with such a job.
    fileprivate static let divergedSends = Statement(
        "diverged_sends",
        #"""
        with ended as (
          select r.queue_id, r.root_id, sum(r.delivered) as delivered, sum(r.rejected) as rejected,
                 sum(r.unknown) as unknown
          from pushq.result r
          where \#(isDiverged)
          group by 1, 2
        ), waiting as (
          select w.queue_id, w.root_id, sum(w.recipients)::bigint as waiting
          from (
            select b.queue_id, b.root_id,
                   case when b.outcomes is null then b.recipient_count - b.watermark
                        else (select count(*) from generate_series(b.watermark, octet_length(b.outcomes) - 1) n
                              where get_byte(b.outcomes, n) = 0) end as recipients
            from (
              select queue_id, root_id, recipient_count, watermark, outcomes
              from pushq.job
              where root_id >= $first_id
              union all
              select queue_id, root_id, recipient_count, watermark, outcomes
              from pushq.lease
              where root_id >= $first_id) b
            union all
            -- Campaigns without jobs, or without all of them: workers that follow the new primary make none here.
            select f.queue_id, f.campaign_id, pushq.fan_out_left(f, 'infinity')
            from pushq.fan_out f
            where f.campaign_id >= $first_id and not f.done) w
          group by 1, 2)
        select n.tenant, n.app, n.environment, n.queue_id, root_id, c.key, coalesce(e.delivered, 0) as delivered,
               coalesce(e.rejected, 0) as rejected, coalesce(e.unknown, 0) as unknown, coalesce(w.waiting, 0) as waiting
        from ended e
        full join waiting w using (queue_id, root_id)
        join pushq.queue_name n using (queue_id)
        left join pushq.campaign c on c.queue_id = n.queue_id and c.id = root_id
        order by n.tenant, n.app, n.environment, c.key, root_id
        """#)

    /// Which of these sends and campaigns exist, by their positions in the lists.
    fileprivate static let knownSends = Statement(
        "known_sends",
        #"""
        select k.place
        from unnest($queues::int[], $roots::bigint[]) with ordinality as k (queue_id, root_id, place)
        where exists (select from pushq.body b where b.queue_id = k.queue_id and b.root_id = k.root_id)
          or exists (select from pushq.campaign c where c.queue_id = k.queue_id and c.id = k.root_id)
        """#)

    /// A page of jobs in the order of their keys, with the pushes that may have reached their devices: delivered pushes
    /// and pushes without an answer.
    fileprivate static let divergedJobs = Statement(
        "diverged_jobs",
        #"""
        select r.day, r.queue_id, r.job_id, n.tenant, n.app, n.environment, r.root_id, c.key, r.ended_at,
               array(
                 select pushq.apns_id(r.root_id, b.device_ids[i + 1])::text
                 from generate_series(0, cardinality(b.device_ids) - 1) i
                 where get_byte(r.outcomes, i) = \#(Outcome.delivered.rawValue)) as delivered,
               array(
                 select pushq.apns_id(r.root_id, b.device_ids[i + 1])::text
                 from generate_series(0, cardinality(b.device_ids) - 1) i
                 where get_byte(r.outcomes, i) = \#(Outcome.unknown.rawValue)) as unknown
        from pushq.result r
        join pushq.body b on b.day = r.body_day and b.queue_id = r.queue_id and b.job_id = r.job_id
        join pushq.queue_name n on n.queue_id = r.queue_id
        left join pushq.campaign c on c.queue_id = r.queue_id and c.id = r.root_id
        where \#(isDiverged)
          and (r.day, r.queue_id, r.job_id) > ($day::date, $queue::int, $job::bigint)
        order by r.day, r.queue_id, r.job_id
        limit 500
        """#)
}

/// What an old primary did after another server had replaced it. The new primary does not know of it.
///
/// The old primary records when jobs ended, not when each push was sent. So a job that began before the takeover counts
/// in full, and one that has not ended does not count.
package struct Divergence: Sendable {
    /// What the old primary did for a campaign, or for all other sends of a queue.
    package struct Total: Sendable {
        package let queue: QueueName
        /// Nil for sends that belong to no campaign.
        package let campaignKey: String?
        package fileprivate(set) var sends = 0
        package fileprivate(set) var delivered = 0
        package fileprivate(set) var rejected = 0
        /// Pushes that may have been sent: no answer came.
        package fileprivate(set) var unknown = 0
        /// Delivered or unknown pushes whose send the new primary knows and carries out, too.
        package fileprivate(set) var maybeSentTwice = 0
        /// Recipients of sends that only the old primary knows, without those whose push may have been sent. They get
        /// nothing once it is gone.
        package fileprivate(set) var waiting = 0
    }

    /// The pushes of a job.
    package struct Job: Sendable {
        package let queue: QueueName
        package let root: Int64
        package let campaignKey: String?
        package let endedAt: Date
        /// The `apns-id`s of delivered pushes, and of pushes without an answer.
        package let delivered: [String]
        package let unknown: [String]
    }

    /// The last moment that both servers share.
    package let since: Date
    /// Ordered by queue and campaign.
    package let totals: [Total]
    /// Jobs of the old primary that ended before that moment, in a transaction that was committed after it.
    private let earlierJobs: [Int64]
}

/// Why two servers cannot be compared.
package enum DivergenceError: Error, CustomStringConvertible {
    case standby
    case notOlder(old: Int, new: Int)
    case unrelated

    package var description: String {
        switch self {
        case .standby:
            "the server given by --old is a standby: it follows another server, and has nothing that this one lacks"
        case .notOlder(let old, let new):
            "the server given by --old has timeline \(old), and the primary has \(new): it is not an old primary"
        case .unrelated: "the primary has not taken the place of the server given by --old: it does not know that copy"
        }
    }
}

extension PostgresConnection {
    /// Returns the timeline of a primary.
    package func currentTimeline() async throws(PostgresError) -> Int32 {
        try await execute(.copy).one().int4("timeline")
    }
}

extension Divergence {
    private static let patience = Duration.seconds(600)

    /// Compares an old primary, which is only read, with the server that has replaced it.
    package init(of old: PostgresConnection, from new: PostgresConnection) async throws {
        try await new.followTimeline()
        if try await old.execute(.isStandby).one().bool("is_standby") { throw DivergenceError.standby }
        let (copy, current) = (try await old.execute(.copy).one(), try await new.execute(.copy).one())
        guard copy.int4("timeline") < current.int4("timeline") else {
            throw DivergenceError.notOlder(old: Int(copy.int4("timeline")), new: Int(current.int4("timeline")))
        }
        let takeover = try await new.execute(.takeover, ["copy": .text(copy.text("name"))]).first
        guard let takeover, let since = takeover.optionalTime("back_to") else { throw DivergenceError.unrelated }
        self.since = since
        let jobs = try await old.execute(.jobsBeforeTakeover, ["since": .time(since)], within: Self.patience)
            .map { $0.int8("job_id") }
        earlierJobs = try await new.execute(
            .missingJobs, ["jobs": .int8Array(jobs), "since": .time(since)], within: Self.patience
        ).map { $0.int8("job_id") }
        let rows = try await old.execute(
            .divergedSends,
            ["since": .time(since), "jobs": .int8Array(earlierJobs), "first_id": .int8(takeover.int8("first_id"))],
            within: Self.patience)
        let known = try await new.execute(
            .knownSends,
            [
                "queues": .int4Array(rows.map { $0.int4("queue_id") }),
                "roots": .int8Array(rows.map { $0.int8("root_id") }),
            ], within: Self.patience)
        let places = Set(known.map { $0.int8("place") })
        var totals: [Total] = []
        for (index, row) in rows.enumerated() {
            let isKnown = places.contains(Int64(index + 1))
            // Both servers know the send, and the old one did nothing for it.
            if isKnown, row.count("delivered") + row.count("rejected") + row.count("unknown") == 0 { continue }
            guard let queue = QueueName(row) else { continue }
            let total = Total(queue: queue, campaignKey: row.optionalText("key"))
            if totals.last?.isOfSame(total) != true { totals.append(total) }
            totals[totals.count - 1].add(row, isKnown: isKnown)
        }
        self.totals = totals
    }

    /// Calls `body` with each job that ended at the old primary.
    /// - Parameter old: the old primary.
    package func forEachJob(in old: PostgresConnection, _ body: (Job) throws -> Void) async throws {
        var last = (day: CalendarDay(daysSince2000: 0), queue: Int32(0), job: Int64(0))
        while true {
            let page = try await old.execute(
                .divergedJobs,
                [
                    "since": .time(since), "jobs": .int8Array(earlierJobs), "day": .date(last.day),
                    "queue": .int4(last.queue), "job": .int8(last.job),
                ], within: Self.patience)
            for row in page {
                last = (row.date("day"), row.int4("queue_id"), row.int8("job_id"))
                if let job = Job(row) { try body(job) }
            }
            if page.isEmpty { return }
        }
    }
}

extension Divergence.Total {
    fileprivate func isOfSame(_ other: Self) -> Bool { queue == other.queue && campaignKey == other.campaignKey }

    /// - Parameter isKnown: whether the new primary knows the send.
    fileprivate mutating func add(_ row: Row, isKnown: Bool) {
        sends += 1
        delivered += row.count("delivered")
        rejected += row.count("rejected")
        unknown += row.count("unknown")
        if isKnown {
            maybeSentTwice += row.count("delivered") + row.count("unknown")
        } else {
            waiting += row.count("waiting")
        }
    }
}

extension Divergence.Job {
    fileprivate init?(_ row: Row) {
        guard let queue = QueueName(row) else { return nil }
        self.init(
            queue: queue, root: row.int8("root_id"), campaignKey: row.optionalText("key"),
            endedAt: row.time("ended_at"), delivered: row.textArray("delivered"), unknown: row.textArray("unknown"))
    }
}
