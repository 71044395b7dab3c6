package import FoundationEssentials
package import QueueCore

extension Statement {
    /// The latest first: of all queues, of `$queue`, or the one under `$key`.
    static let campaigns = Statement(
        "campaigns",
        #"""
        select tenant, app, environment, campaign_key as key, campaign_id, state, total, waiting, delivered, rejected,
               failed, suppressed, expired, cancelled, unknown, retried, finished, created_at, fanned_out_at, cut_short,
               max_rate, stop_at_errors, paused_reason, filter, nullif(local_time, '') as local_time, next_wave_at,
               left_out, held_out, in_quiet_hours, released_at
        from pushq.show_campaigns($queue, $key, $limit, $matching, $state)
        """#)

    static let whyNobody = Statement("why_nobody", "select why_nobody from pushq.status($queue, $root)")

    static let pauseCampaign = Statement("pause_campaign", "select pushq.pause_campaign($queue, $key)")
    static let resumeCampaign = Statement("resume_campaign", "select pushq.resume_campaign($queue, $key, $send_by)")
    static let setCampaignRate = Statement(
        "set_campaign_rate", "select pushq.set_campaign_rate($queue, $key, $rate)")
    static let cancelCampaign = Statement("cancel_campaign", "select pushq.cancel_campaign($queue, $key)")

    /// Why recipients of a root did not get it, and how many of each: of the outcomes those with a reason that were an
    /// end, without the failures that were sent again by hand.
    static let refusals = Statement(
        "refusals",
        #"""
        select outcome, count
        from pushq.show_refusals(
          $queue, $root, \#(Outcome.rejections.lowerBound), \#(Outcome.rejections.upperBound),
          \#(Outcome.failures.upperBound), \#(Outcome.heldBack.lowerBound), \#(Outcome.heldBack.upperBound))
        """#)

    /// When the last job of a root ended.
    static let lastEnd = Statement("last_end", "select pushq.show_last_end($queue, $root) as ended_at")
}

/// How far a campaign is.
package enum CampaignState: String, CaseIterable, Sendable {
    case running, paused, cancelled, finished
}

/// A campaign as an operator sees it: `total` is the sum of the outcomes and of what waits, at every instant.
package struct CampaignSummary: Sendable {
    package let queue: QueueName
    package let key: String
    package let id: Int64
    /// A ``CampaignState``.
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
    /// Pushes per second that it may have over all workers; nil: no limit of its own.
    package let maxRate: Double?
    /// It pauses itself when a larger share of its answers is bad; nil: never. And why it did so.
    package let stopAtErrors: Double?
    package let pausedReason: String?
    /// Which devices it is for; nil: all, or those of a list.
    package let filter: String?
    /// At which local time it is sent; nil: at none. Then, when its next wave is due, once its devices are sorted, and
    /// how many devices are in no wave.
    package let localTime: String?
    package let nextWaveAt: Date?
    package let leftOut: Int
    /// How many devices are in its holdout so far.
    package let heldOut: Int
    /// How many of those that wait do so until their quiet hours end, and when the first of them are sent to.
    package let inQuietHours: Int
    package let releasedAt: Date?

    package var isCancelled: Bool { state == "cancelled" }
    /// Of a cancelled one, how many were not sent to, in words.
    package var notSentTo: String {
        if isCutShort, total == 0 { return "nobody was sent to: it was cancelled before its recipients were known" }
        let known = "\(tally.cancelled) recipients were not sent to"
        return isCutShort ? "\(known), nor all others, who were not known yet" : known
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
    /// - Parameters:
    ///   - matching: only those with this text in their keys.
    ///   - state: only those in this state. Both are looked for among the latest 10,000.
    package func campaigns(
        ofQueue queue: QueueName?, matching: String? = nil, state: CampaignState? = nil, limit: Int
    ) async throws(PostgresError) -> [CampaignSummary] {
        let parameters: Parameters = [
            "queue": .queue(queue), "limit": .int8(Int64(limit)), "key": .text(nil), "matching": .text(matching),
            "state": .text(state?.rawValue),
        ]
        return try await execute(.campaigns, parameters).compactMap(CampaignSummary.init)
    }

    /// A campaign of a queue; nil without one of that key.
    package func campaign(_ key: String, ofQueue queue: QueueName) async throws(PostgresError) -> CampaignSummary? {
        let parameters: Parameters = [
            "queue": .queue(queue), "limit": .int8(1), "key": .text(key), "matching": .text(nil), "state": .text(nil),
        ]
        return try await execute(.campaigns, parameters).first.flatMap(CampaignSummary.init)
    }

    /// Why a campaign that has ended has no recipient; nil if it has some.
    package func whyNobody(
        isReachedBy root: Int64, inQueue queue: QueueName
    ) async throws(PostgresError) -> String? {
        try await execute(.whyNobody, ["queue": .queue(queue), "root": .int8(root)]).first?.optionalText("why_nobody")
    }

    /// Carries out an order. False if the campaign's state does not allow it.
    package func order(
        _ order: CampaignOrder, campaign key: String, ofQueue queue: QueueName
    ) async throws(PostgresError) -> Bool {
        switch order {
        case .pause:
            let parameters: Parameters = ["queue": .queue(queue), "key": .text(key)]
            return try await execute(.pauseCampaign, parameters).one().bool("pause_campaign")
        case .resume(let sendBy):
            let parameters: Parameters = ["queue": .queue(queue), "key": .text(key), "send_by": .time(sendBy)]
            return try await execute(.resumeCampaign, parameters).one().bool("resume_campaign")
        case .cancel:
            let parameters: Parameters = ["queue": .queue(queue), "key": .text(key)]
            return try await execute(.cancelCampaign, parameters).one().bool("cancel_campaign")
        }
    }

    /// Sets the rate of a campaign, in pushes per second over all workers; nil lifts it. False if it has ended, and
    /// nothing of it can be sent again.
    package func setRate(
        _ rate: Double?, ofCampaign key: String, ofQueue queue: QueueName
    ) async throws(PostgresError) -> Bool {
        let parameters: Parameters = ["queue": .queue(queue), "key": .text(key), "rate": .float8(rate)]
        return try await execute(.setCampaignRate, parameters).one().bool("set_campaign_rate")
    }

    /// Why recipients of a campaign or send were refused for good, or could not get a personal message, and how many of
    /// each.
    package func refusals(ofRoot root: Int64, inQueue queue: QueueName) async throws(PostgresError) -> [String: Int] {
        let rows = try await execute(.refusals, ["queue": .queue(queue), "root": .int8(root)])
        let counts = rows.compactMap { row in
            Outcome(rawValue: UInt8(truncatingIfNeeded: row.int4("outcome"))).reasonText.map {
                ($0, row.count("count"))
            }
        }
        return Dictionary(counts, uniquingKeysWith: +)
    }

    /// When the last job of a campaign or send ended; nil if none has.
    package func lastEnd(ofRoot root: Int64, inQueue queue: QueueName) async throws(PostgresError) -> Date? {
        try await execute(.lastEnd, ["queue": .queue(queue), "root": .int8(root)]).first?.optionalTime("ended_at")
    }
}

extension CampaignSummary {
    fileprivate init?(_ row: Row) {
        guard let queue = QueueName(row) else { return nil }
        self.init(
            queue: queue, key: row.text("key"), id: row.int8("campaign_id"), state: row.text("state"),
            total: row.count("total"), waiting: row.count("waiting"), tally: OutcomeTally(row),
            isFinished: row.bool("finished"), createdAt: row.time("created_at"),
            fannedOutAt: row.optionalTime("fanned_out_at"), isCutShort: row.bool("cut_short"),
            maxRate: row.optionalFloat8("max_rate"), stopAtErrors: row.optionalFloat8("stop_at_errors"),
            pausedReason: row.optionalText("paused_reason"), filter: row.optionalText("filter"),
            localTime: row.optionalText("local_time"), nextWaveAt: row.optionalTime("next_wave_at"),
            leftOut: row.count("left_out"), heldOut: row.count("held_out"),
            inQuietHours: row.count("in_quiet_hours"), releasedAt: row.optionalTime("released_at"))
    }
}
