import PostgresStore
import QueueCore

/// What follows from a claim before anything is sent: which recipients get nothing, which continue in another job, and
/// what earlier holders learned.
extension HeldJob {
    /// Gives an outcome, or a later time, to recipients that are not sent to now.
    func ruleOut(_ maximumPayloadBytes: Int) {
        suppressUnreachable()
        if let personal = claim.personal { suppressUnfit(for: personal, maximumPayloadBytes) }
        if !claim.quietHolds.isEmpty { holdInQuietHours() }
        if let answer = claim.capAnswer, !answer.held.isEmpty { holdBack(by: answer) }
        if !claim.lockedBadges.isEmpty { awaitBadges() }
    }

    /// Whether the tokens that the claim has read are too old to be sent to.
    func hasOldTokens(_ settings: EngineSettings, now: ContinuousClock.Instant) -> Bool {
        now >= claimedAt + settings.tokenAge || isSingleUpdate && now >= heldSince + settings.updateAge
    }

    /// Recovers what answers to earlier holders said about devices or the channel. Only the end of a job writes that,
    /// and the earlier holders did not reach it. It is unknown when those pushes were sent, except that it was after
    /// the message was created.
    func recallReports() {
        for (ordinal, byte) in claim.outcomes.enumerated() where Outcome(rawValue: byte).kind == .rejected {
            guard let reason = Outcome(rawValue: byte).reason else { continue }
            if claim.message.isBroadcast {
                if reason.broadcastAction == .retireChannel { channelNews = .isGone(reason) }
                continue
            }
            let accused = reason.accused(byPushOf: claim.message.pushType)
            guard accused != .nobody else { continue }
            reports.append(
                .init(
                    deviceID: claim.deviceIDs[ordinal], reason: reason, accused: accused, reportedAt: claim.madeAt,
                    sentAt: renewedAt))
        }
    }

    /// Gives an outcome to recipients whose device is no longer active, or whose update was replaced by a newer one. If
    /// a newer token has replaced a recipient's token, the recipient continues with that, unless it may have been sent
    /// to.
    private func suppressUnreachable() {
        for ordinal in outcomes.indices where claim.tokens.range(of: ordinal) == nil {
            let isUncertain = isUncertain(ordinal)
            if let successor = claim.successors[claim.deviceIDs[ordinal]], !isUncertain, outcomes[ordinal] == 0 {
                recordRetry(Retry(deviceID: successor, delay: .fixed(.zero)), because: .givenBack, for: ordinal)
            } else {
                record(isUncertain ? .unknown : .suppressed, for: ordinal)
            }
        }
    }

    /// Gives an outcome to recipients for which a personal message cannot be created, or would be too long. Those that
    /// wait for the end of their quiet hours are checked again then: what they lack may be known by that time.
    private func suppressUnfit(for personal: PersonalPayloads, _ maximumPayloadBytes: Int) {
        for ordinal in outcomes.indices where outcomes[ordinal] == 0 {
            let byteCount = personal.byteCount(of: ordinal)
            if let byteCount, byteCount <= maximumPayloadBytes { continue }
            let isToWait = claim.quietHolds[claim.deviceIDs[ordinal]].map { $0 != .forGood } ?? false
            if isToWait, !claim.isAtMostOnce || !isUncertain(ordinal) { continue }
            record(
                isUncertain(ordinal) ? .unknown : byteCount == nil ? .lacksAttribute : .tooLong, for: ordinal)
        }
    }

    /// Moves recipients with quiet hours to jobs that are due when these have ended. Skips recipients of an
    /// at-most-once job that may have been sent to: they end as they do without quiet hours.
    private func holdInQuietHours() {
        for ordinal in outcomes.indices where outcomes[ordinal] == 0 {
            if claim.isAtMostOnce, isUncertain(ordinal) { continue }
            switch claim.quietHolds[claim.deviceIDs[ordinal]] {
            case .forGood: record(isUncertain(ordinal) ? .unknown : .tooLate, for: ordinal)
            case .until(let time): postpone(ordinal, for: .zero, quietUntil: time, because: .quietHours)
            case nil: break
            }
        }
    }

    /// Holds back recipients that the queue's frequency cap stops: for good, or until the cap is asked again.
    private func holdBack(by answer: CapAnswer) {
        for ordinal in outcomes.indices where outcomes[ordinal] == 0 {
            // Another job would not know that the push may have been sent.
            if claim.isAtMostOnce, !answer.isWhole, isUncertain(ordinal) { continue }
            switch answer.held[claim.deviceIDs[ordinal]] {
            case .forGood: record(isUncertain(ordinal) && !answer.isWhole ? .unknown : .capped, for: ordinal)
            case .until(let delay):
                postpone(ordinal, for: claim.keptFor[claim.deviceIDs[ordinal]] ?? delay, because: .givenBack)
            case nil: break
            }
        }
    }

    /// Moves recipients whose badge is locked by another transaction to a job that asks again.
    private func awaitBadges() {
        for ordinal in outcomes.indices where outcomes[ordinal] == 0 {
            guard claim.lockedBadges.contains(claim.deviceIDs[ordinal]) else { continue }
            if claim.isAtMostOnce, isUncertain(ordinal) { continue }
            postpone(ordinal, for: claim.keptFor[claim.deviceIDs[ordinal]] ?? .seconds(1), because: .givenBack)
        }
    }

    /// Moves a recipient to a job that is due after `delay`, or when its quiet hours have ended. Uses no attempt.
    private func postpone(
        _ ordinal: Ordinal, for delay: Duration, quietUntil: Int64? = nil, because reason: Reason
    ) {
        let retry = Retry(deviceID: claim.deviceIDs[ordinal], delay: .fixed(delay), quietUntil: quietUntil)
        recordRetry(retry, because: reason, for: ordinal)
    }
}
