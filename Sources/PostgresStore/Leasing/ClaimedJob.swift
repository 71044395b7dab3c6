package import QueueCore

/// A job as its claim returned it.
package struct ClaimedJob: Sendable {
    package let key: LeaseKey
    package let lane: Lane
    package let message: StoredMessage
    /// The id from which the recipients' apns-ids derive.
    package let rootID: Int64
    package let attempt: Int
    /// How often a worker was lost while it held the job, or a send of it stayed without an answer.
    package let losses: Int
    package let isAtMostOnce: Bool
    /// An earlier holder may have sent to the recipients below this ordinal that have no outcome.
    package let previousWatermark: Int
    /// One byte per recipient; empty if no recipient has an outcome yet.
    package let outcomes: [UInt8]
    /// How long the job may still be sent, counted from the claim; zero or less: not any more.
    package let sendWithin: Duration
    /// Whether the job, or the campaign, send or broadcast that it descends from, was cancelled.
    package let isCancelled: Bool
    /// Whether the job's campaign is paused: the job came back, or was created, after the pause had put the campaign's
    /// other jobs off.
    package var isPaused = false
    /// Whether the job's campaign got a lane of its own after the job was created. The job then moves to that lane.
    package var isElsewhere = false
    /// Whether the recipients were in another job of the same root before.
    package var isContinued = false
    /// The job's campaign, if it pauses itself when too many of its answers are bad.
    package var judgedCampaign: Int64?
    /// The device ids of the recipients, ascending.
    package let deviceIDs: [Int64]
    /// The recipient count in the job's row, if it differs from the body's.
    package var statedCount: Int?
    /// The row of the job that does not exist in the database any more.
    package var missing: Missing?
    /// Whether the job's campaign has quiet hours of its own; nil: the queue's quiet hours apply.
    package var hasOwnQuietHours: Bool?
    /// Whether to ask which recipients are in quiet hours now; the answer, by device, is in ``quietHolds``.
    package var asksQuietHours = false
    package var quietHolds: [Int64: QuietHold] = [:]
    /// When the message was created, in microseconds since 1970. Nothing of it was sent before.
    package var madeAt: Int64 = 0
    /// The age of the message at the claim.
    package var age = Duration.zero
    /// How long the job had been due at the claim.
    package var waited = Duration.zero
    /// The token of each recipient that may be sent to.
    package let tokens: RecipientTokens
    /// The device whose token replaces that of a recipient that may not be sent to any more, by the recipient's device.
    package var successors: [Int64: Int64] = [:]
    /// The payload of each recipient, if the message is personal or sets badges.
    package var personal: PersonalPayloads?
    /// The number that the message adds to the app icon's badge; nil if it adds none.
    package var badgeIncrement: Int?
    /// Recipients that have no badge number yet, because another transaction has locked their badge.
    package var lockedBadges: Set<Int64> = []
    /// How long recipients wait whose rows another transaction keeps, by device; a second if the device is not in it.
    package var keptFor: [Int64: Duration] = [:]
    /// The answer of the queue's frequency cap about the recipients; nil if no cap applies to them.
    package var capAnswer: CapAnswer?

    /// A row that a job needs.
    package enum Missing: String, Sendable {
        case message, body
    }

    /// Whether the job has no recipients yet. It is a scheduled send to a user; pass it to
    /// ``PostgresConnection/findRecipients(of:workerID:)``.
    package var awaitsRecipients: Bool { missing == nil && deviceIDs.isEmpty }
}

extension ClaimedJob {
    /// Why outcomes cannot be matched to recipients; nil if they can. A damaged row was written by hand, or storage has
    /// failed. Nothing can be sent for such a job, and it must not bring down the worker that claims it.
    package var damage: String? {
        if let missing { return "the job's \(missing) is missing" }
        if awaitsRecipients { return nil }
        if let statedCount { return "the job is for \(statedCount) recipients, but its body has \(deviceIDs.count)" }
        if !outcomes.isEmpty, outcomes.count != deviceIDs.count {
            return "the job has \(deviceIDs.count) recipients, but outcomes of \(outcomes.count)"
        }
        if let unknown = outcomes.first(where: { Outcome(rawValue: $0).kind == nil }) {
            return "the job has an outcome \(unknown), which this version does not know"
        }
        if previousWatermark > deviceIDs.count {
            return "the job has \(deviceIDs.count) recipients, but \(previousWatermark) are marked as sent to"
        }
        return nil
    }

    /// The number of recipients in the job's row, with which the end of the job must agree.
    package var recipientCount: Int { statedCount ?? deviceIDs.count }
}
