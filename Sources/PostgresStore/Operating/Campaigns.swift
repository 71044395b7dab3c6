package import FoundationEssentials
package import QueueCore

extension Statement {
    /// The campaigns of all queues or of `$queue`, or the one under `$key`; the latest first.
    static let campaigns = Statement(
        "campaigns",
        #"""
        select tenant, app, environment, campaign_key as key, campaign_id, state, total, waiting, delivered, rejected,
               failed, suppressed, expired, cancelled, unknown, retried, finished, created_at, fanned_out_at, cut_short,
               max_rate, stop_at_errors, paused_reason, filter, nullif(local_time, '') as local_time, next_wave_at,
               left_out, held_out, in_quiet_hours, released_at, too_many_bad, in_no_job, starts_at,
               failed_in_jobs
        from pushq.show_campaigns($queue, $key, $limit, $matching, $state)
        """#)

    static let whyNobody = Statement("why_nobody", "select why_nobody from pushq.status($queue, $root)")

    static let pauseCampaign = Statement("pause_campaign", "select pushq.pause_campaign($queue, $key)")
    static let resumeCampaign = Statement("resume_campaign", "select pushq.resume_campaign($queue, $key, $send_by)")
    static let setCampaignRate = Statement(
        "set_campaign_rate", "select pushq.set_campaign_rate($queue, $key, $rate)")
    static let cancelCampaign = Statement("cancel_campaign", "select pushq.cancel_campaign($queue, $key)")

    /// The reasons why recipients of a root did not get its push, and how many recipients have each. Counts final
    /// outcomes that have a reason, without failures that an operator retried.
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

/// The state of a campaign.
package enum CampaignState: String, CaseIterable, Sendable {
    case scheduled, running, paused, cancelled, finished
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
    /// When its first recipients go or went into jobs. It is scheduled until then.
    package let startsAt: Date
    /// When its last job was created.
    package let fannedOutAt: Date?
    /// Whether it was cancelled before all of its recipients were known. Then `total` does not include all of them.
    package let isCutShort: Bool
    /// Its own limit in pushes per second over all workers; nil: none.
    package let maxRate: Double?
    /// The campaign pauses itself if a larger share of its answers is bad; nil: never. `pausedReason` says why it did.
    package let stopAtErrors: Double?
    package let pausedReason: String?
    /// Says that the campaign has ended with more bad answers than `stopAtErrors` allows; nil: it has not.
    package let tooManyBad: String?
    /// The filter of its devices; nil: it is for all devices, or for a list.
    package let filter: String?
    /// The local time at which it is sent; nil: none.
    package let localTime: String?
    /// When its next wave is due; nil if there is none, or as long as its devices are not sorted.
    package let nextWaveAt: Date?
    /// The number of devices that are in no wave.
    package let leftOut: Int
    /// The number of devices in its holdout so far.
    package let heldOut: Int
    /// How many of the waiting recipients wait for the end of their quiet hours.
    package let inQuietHours: Int
    /// When the first of these is due; nil if there is none.
    package let releasedAt: Date?
    /// Of the cancelled recipients, those of a list that were in no job yet, and so in no share.
    package let inNoJob: Int
    /// Of the failed recipients, those in jobs that have not ended yet: they cannot be retried before.
    package let failedInJobs: Int

    package var isCancelled: Bool { state == "cancelled" }
    /// How many recipients a cancelled campaign did not send to, in words.
    package var notSentTo: String {
        if isCutShort, total == 0 { return "nobody was sent to: it was cancelled before its recipients were known" }
        let known = "\(tally.cancelled) recipients were not sent to"
        return isCutShort ? "\(known), nor all others, who were not known yet" : known
    }
}

/// What an operator may do to a campaign.
package enum CampaignOrder: Equatable, Sendable {
    case pause
    /// Sets a new time until which the campaign is sent. Nil keeps its present time, which must not have passed.
    case resume(sendBy: Date?)
    case cancel
}

extension PostgresConnection {
    /// Returns the latest campaigns of a queue, or of all queues.
    /// - Parameters:
    ///   - matching: only campaigns with this text in their keys.
    ///   - state: only campaigns in this state. Both search the latest 10,000 campaigns.
    package func campaigns(
        ofQueue queue: QueueName?, matching: String? = nil, state: CampaignState? = nil, limit: Int
    ) async throws(PostgresError) -> [CampaignSummary] {
        let parameters: Parameters = [
            "queue": .queue(queue), "limit": .int8(Int64(limit)), "key": .text(nil), "matching": .text(matching),
            "state": .text(state?.rawValue),
        ]
        return try await execute(.campaigns, parameters).compactMap(CampaignSummary.init)
    }

    /// Returns the campaign with this key; nil if there is none.
    package func campaign(_ key: String, ofQueue queue: QueueName) async throws(PostgresError) -> CampaignSummary? {
        let parameters: Parameters = [
            "queue": .queue(queue), "limit": .int8(1), "key": .text(key), "matching": .text(nil), "state": .text(nil),
        ]
        return try await execute(.campaigns, parameters).first.flatMap(CampaignSummary.init)
    }

    /// Returns why a campaign that has ended has no recipients; nil if it has some.
    package func whyNobody(
        isReachedBy root: Int64, inQueue queue: QueueName
    ) async throws(PostgresError) -> String? {
        try await execute(.whyNobody, ["queue": .queue(queue), "root": .int8(root)]).first?.optionalText("why_nobody")
    }

    /// Carries out an order. Returns false if the campaign's state does not allow it.
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

    /// Sets the rate of a campaign, in pushes per second over all workers; nil removes it. Returns false if the
    /// campaign has ended and nothing of it can be retried.
    package func setRate(
        _ rate: Double?, ofCampaign key: String, ofQueue queue: QueueName
    ) async throws(PostgresError) -> Bool {
        let parameters: Parameters = ["queue": .queue(queue), "key": .text(key), "rate": .float8(rate)]
        return try await execute(.setCampaignRate, parameters).one().bool("set_campaign_rate")
    }

    /// Returns why recipients of a campaign or send were finally refused or could not get a personal message, and how
    /// many recipients have each reason.
    package func refusals(ofRoot root: Int64, inQueue queue: QueueName) async throws(PostgresError) -> [String: Int] {
        let rows = try await execute(.refusals, ["queue": .queue(queue), "root": .int8(root)])
        let counts = rows.compactMap { row in
            Outcome(rawValue: UInt8(truncatingIfNeeded: row.int4("outcome"))).reasonText.map {
                ($0, row.count("count"))
            }
        }
        return Dictionary(counts, uniquingKeysWith: +)
    }

    /// Returns when the last job of a campaign or send ended; nil if none has.
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
            startsAt: row.time("starts_at"),
            fannedOutAt: row.optionalTime("fanned_out_at"), isCutShort: row.bool("cut_short"),
            maxRate: row.optionalFloat8("max_rate"), stopAtErrors: row.optionalFloat8("stop_at_errors"),
            pausedReason: row.optionalText("paused_reason"), tooManyBad: row.optionalText("too_many_bad"),
            filter: row.optionalText("filter"),
            localTime: row.optionalText("local_time"), nextWaveAt: row.optionalTime("next_wave_at"),
            leftOut: row.count("left_out"), heldOut: row.count("held_out"),
            inQuietHours: row.count("in_quiet_hours"), releasedAt: row.optionalTime("released_at"),
            inNoJob: row.count("in_no_job"), failedInJobs: row.count("failed_in_jobs"))
    }
}
