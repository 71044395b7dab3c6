package import FoundationEssentials
package import QueueCore

extension Statement {
    /// $1 queue or null; $2 how many, the latest first; $3 the key of the only one that is wanted, or null. Campaigns are kept for years:
    /// each of the branches reads so many from an index, and all but one are not begun.
    static let campaigns = Statement(
        "campaigns",
        #"""
        select n.tenant, n.app, n.environment, c.key, c.campaign_id,
               case when c.cancelled_at is not null then 'cancelled' when c.finished then 'finished'
                    when c.paused_at is not null then 'paused' else 'running' end,
               c.total, c.waiting, c.delivered, c.rejected, c.failed, c.suppressed, c.expired, c.cancelled, c.unknown, c.retried,
               c.finished, c.created_at, c.fanned_out_at,
               c.cancelled_at is not null and exists (
                 select from pushq.fan_out f
                 where f.queue_id = c.queue_id and f.campaign_id = c.campaign_id and f.list_id is null and f.done_at = c.cancelled_at)
        from (
          (select queue_id, id from pushq.campaign where $1::text is null and $3::text is null order by id desc limit $2)
          union all
          -- Between, and in the order of both: with the queue given as equal, the index of all campaigns would look as good.
          (select c.queue_id, c.id
           from (select case when $1 is not null and $3 is null then pushq.queue_id($1) end as id) q
           cross join lateral (
             select queue_id, id from pushq.campaign
             where queue_id between q.id and q.id
             order by queue_id desc, id desc
             limit $2) c)
          union all
          (select c.queue_id, c.id
           from (select case when $1 is not null and $3 is not null then pushq.queue_id($1) end as id) q
           join pushq.campaign c on c.queue_id = q.id and c.key = $3)) k
        join pushq.campaign_progress c on c.queue_id = k.queue_id and c.campaign_id = k.id
        join pushq.queue_name n on n.queue_id = c.queue_id
        order by c.campaign_id desc
        """#)

    static let pauseCampaign = Statement("pause_campaign", "select pushq.pause_campaign($1, $2)")
    static let resumeCampaign = Statement("resume_campaign", "select pushq.resume_campaign($1, $2, $3)")
    static let cancelCampaign = Statement("cancel_campaign", "select pushq.cancel_campaign($1, $2)")

    /// The reasons of a root's refusals that were an end, and how often each: bytes 64 to 191 of the outcomes, without the failures
    /// that were sent again by hand. $1 queue; $2 root.
    static let refusals = Statement(
        "refusals",
        #"""
        select get_byte(r.outcomes, i) & 63, count(*)
        from pushq.result r
        cross join lateral generate_series(0, octet_length(r.outcomes) - 1) i
        where r.queue_id = pushq.queue_id($1) and r.root_id = $2 and r.rejected + r.failed > 0
          and get_byte(r.outcomes, i) between 64 and case when r.retried_at is null then 191 else 127 end
        group by 1
        """#)

    /// When the last job of a root ended. $1 queue; $2 root.
    static let lastEnd = Statement(
        "last_end",
        #"""
        select max(r.ended_at)
        from pushq.result r where r.queue_id = pushq.queue_id($1) and r.root_id = $2
        """#)
}

/// A campaign as an operator sees it: `total` is the sum of the outcomes and of what waits, at every instant.
package struct CampaignSummary: Sendable {
    package let queue: QueueName
    package let key: String
    package let id: Int64
    /// `running`, `paused`, `cancelled` or `finished`.
    package let state: String
    /// Recipients in jobs so far.
    package let total: Int
    package let waiting: Int
    package let tally: OutcomeTally
    /// Whether all recipients have an outcome.
    package let isFinished: Bool
    package let createdAt: Date
    /// When its last job was made.
    package let fannedOutAt: Date?
    /// It was cancelled before all of its recipients were known, so that its total does not count them all.
    package let isCutShort: Bool

    package var isCancelled: Bool { state == "cancelled" }
    /// Of a cancelled one, how many were not sent to, in words.
    package var notSentTo: String {
        let known = "\(tally.cancelled) recipients were not sent to"
        return isCutShort ? "\(known), and nobody of those who were in no job yet" : known
    }
}

/// What an operator may do to a campaign.
package enum CampaignOrder: Equatable, Sendable {
    case pause
    /// With a new time until which it is sent; nil for the one that it has, which must not have passed.
    case resume(sendBy: Date?)
    case cancel
}

extension PostgresConnection {
    /// The latest campaigns of a queue, or of all.
    package func campaigns(ofQueue queue: String?, limit: Int) async throws(PostgresError) -> [CampaignSummary] {
        try await execute(.campaigns, [.text(queue), .int8(Int64(limit)), .text(nil)])
            .compactMap(CampaignSummary.init)
    }

    /// A campaign of a queue; nil without one of that key.
    package func campaign(_ key: String, ofQueue queue: String) async throws(PostgresError) -> CampaignSummary? {
        try await execute(.campaigns, [.text(queue), .int8(1), .text(key)]).first
            .flatMap(CampaignSummary.init)
    }

    /// Carries out an order. False if there is no such campaign, or if its state does not allow it.
    package func order(
        _ order: CampaignOrder, campaign key: String, ofQueue queue: String
    ) async throws(PostgresError) -> Bool {
        let rows =
            switch order {
            case .pause: try await execute(.pauseCampaign, [.text(queue), .text(key)])
            case .resume(let sendBy): try await execute(.resumeCampaign, [.text(queue), .text(key), .time(sendBy)])
            case .cancel: try await execute(.cancelCampaign, [.text(queue), .text(key)])
            }
        return rows.first?.bool(0) ?? false
    }

    /// Why recipients of a campaign or send were refused for good, and how many of each.
    package func refusals(ofRoot root: Int64, inQueue queue: String) async throws(PostgresError) -> [(Reason, Int)] {
        try await execute(.refusals, [.text(queue), .int8(root)]).map { row in
            (Reason(code: UInt8(truncatingIfNeeded: row.int4(0))), Int(row.int8(1)))
        }
    }

    /// When the last job of a campaign or send ended; nil if none has.
    package func lastEnd(ofRoot root: Int64, inQueue queue: String) async throws(PostgresError) -> Date? {
        try await execute(.lastEnd, [.text(queue), .int8(root)]).first?.optionalTime(0)
    }
}

extension CampaignSummary {
    fileprivate init?(_ row: Row) {
        guard let environment = Environment(rawValue: row.text(2)) else { return nil }
        self.init(
            queue: QueueName(tenant: row.text(0), app: row.text(1), environment: environment), key: row.text(3),
            id: row.int8(4), state: row.text(5), total: Int(row.int8(6)), waiting: Int(row.int8(7)),
            tally: OutcomeTally(row, from: 8),
            isFinished: row.bool(16), createdAt: row.time(17), fannedOutAt: row.optionalTime(18),
            isCutShort: row.bool(19))
    }
}
