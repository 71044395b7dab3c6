import FoundationEssentials
import PostgresStore
import QueueCore

/// The forms in which a job is written: its progress, its end, and what is given back.
extension HeldJob {
    /// Gives every waiting recipient the outcome that follows from the reason for closing the job.
    func endWaitingAsClosed() {
        switch closing {
        case .expired: endWaiting(as: .expired)
        case .cancelled: endWaiting(as: .cancelled)
        case .refused(let reason): endWaiting(as: .rejected(reason))
        case .yielded, .lost, nil: precondition(waiting == 0, "a job ends when nobody waits")
        }
    }

    /// Gives waiting recipients an outcome. Recipients that may have been sent to become `unknown` instead.
    private func endWaiting(as outcome: Outcome) {
        precondition(inFlight == 0, "what is in flight is awaited first")
        for ordinal in outcomes.indices where outcomes[ordinal] == 0 {
            record(isUncertain(ordinal) ? .unknown : outcome, for: ordinal)
        }
    }

    /// What is known of the job, with the watermark that writing this commits.
    ///
    /// A recipient that is to continue in another job is written as waiting until that other job exists: the end of
    /// this job creates it, or a hand-over before. Until then, the next holder of this job must send to the recipient.
    func progress(watermark: Int) -> LeaseProgress {
        var outcomes = storableOutcomes
        for retry in retries { outcomes[retry.ordinal] = 0 }
        return LeaseProgress(key: claim.key, watermark: watermark, outcomes: outcomes)
    }

    /// The outcomes that a lease may have before the job ends. An outcome has no place for losses, and a recipient that
    /// has failed may have got the push. If this worker is lost, that is as uncertain as of those in flight.
    var storableOutcomes: [UInt8] {
        guard claim.losses + maximumLossesInLease > 0 else { return outcomes }
        return outcomes.indices.map { ordinal in
            let hasFailedInDoubt = Outcome(rawValue: outcomes[ordinal]).kind == .failed && losses(of: ordinal) > 0
            return hasFailedInDoubt ? 0 : outcomes[ordinal]
        }
    }

    /// Whether the whole job can be given back: it has no news that only the end of a job can write, and its waiting
    /// recipients were lost equally often. A job has one count, and no recipient may get the losses of another.
    var canBeYielded: Bool {
        guard retries.isEmpty, reports.isEmpty, channelNews == nil, notes.isEmpty else { return false }
        // Bad answers count against a campaign when their job ends. Those of a job that went back would count after the
        // campaign was resumed, when earlier answers are to be forgiven.
        guard claim.judgedCampaign == nil || !outcomes.contains(where: { Outcome(rawValue: $0).isBadAnswer }) else {
            return false
        }
        let losses = lossesOfWaiting
        return losses.lowerBound == losses.upperBound && storableOutcomes == outcomes
    }

    /// Moves the waiting recipients that are not in flight to another job, which knows what became of their sends.
    func splitWaiting(after delay: Duration) {
        for ordinal in unsentRecipients {
            recordRetry(
                Retry(
                    deviceID: claim.deviceIDs[ordinal], delay: .fixed(delay), losses: lossesInLease(of: ordinal)),
                because: reasonToContinue(of: ordinal), for: ordinal)
        }
    }

    /// The job in the form in which it is given back. The watermark is lowered to the first recipient that is to be
    /// sent to, so that a deployment leaves no recipient uncertain, and so that the job does not look like one with
    /// which a worker was lost. The losses tell of pushes that stayed unanswered.
    func yielded(after delay: Duration) -> YieldedLease {
        precondition(inFlight == 0, "what is in flight is awaited first")
        let watermark = outcomes.indices.first(where: isToBeSentTo) ?? outcomes.count
        return YieldedLease(
            progress: progress(watermark: watermark), addedLosses: lossesOfWaiting.upperBound, delay: delay,
            capNews: capNews(isGivenBack: true), givenBackBadges: badgesGivenBack(whileWaiting: delay))
    }

    /// What the queue's frequency cap has to learn: which recipients got nothing, which may have got the push and
    /// continue in another job or not and, if the job is given back, which got the push. The places of the others count
    /// once the job has ended.
    private func capNews(isGivenBack: Bool) -> [CapNews] {
        capNews(of: outcomes.indices.filter { !handedOver.contains($0) }, isGivenBack: isGivenBack)
    }

    /// The same about these recipients.
    func capNews(of recipients: [Ordinal], isGivenBack: Bool) -> [CapNews] {
        guard let answer = claim.capAnswer, claim.damage == nil,
            answer.wasAsked || claim.previousWatermark > 0 || claim.losses > 0
        else { return [] }
        return recipients.compactMap { ordinal in
            let outcome = Outcome(rawValue: outcomes[ordinal])
            let hasArrived: Bool?
            switch outcome.kind {
            case .delivered:
                guard isGivenBack else { return nil }
                hasArrived = true
            // Its place may still be open since the recipient's job before: this job has not asked about a recipient to
            // whom it does not send.
            case .unknown: hasArrived = true
            case .rejected, .expired, .cancelled: hasArrived = false
            case .suppressed:
                guard outcome != .capped else { return nil }
                hasArrived = false
            case .failed: hasArrived = losses(of: ordinal) > 0
            case .retried, .postponed: hasArrived = losses(of: ordinal) == 0 ? false : nil
            case .waiting, nil:
                guard !isUncertain(ordinal) else { return nil }
                hasArrived = false
            }
            return CapNews(deviceID: claim.deviceIDs[ordinal], hasArrived: hasArrived)
        }
    }

    /// The job in the form in which it is ended.
    func settled(delay: (Retry) -> Duration) -> SettledJob {
        let again = continuing(delay: delay)
        return SettledJob(
            key: claim.key, outcomes: outcomes, again: again, reports: reports,
            channelReport: channelReport(pause: again.first?.delay), notes: notesAsJSON,
            losses: lossesOfAll, capNews: capNews(isGivenBack: false), givenBackBadges: badgesGivenBackByEnd)
    }

    /// The recipients that continue in other jobs, which do not exist yet.
    func continuing(delay: (Retry) -> Duration) -> [ContinuingRecipient] {
        retries.map {
            ContinuingRecipient(
                ordinal: $0.ordinal, deviceID: $0.deviceID, delay: delay($0), attempts: $0.attempts,
                losses: $0.losses, group: $0.group, quietUntil: $0.quietUntil)
        }
    }

    /// - Parameter pause: the time until this broadcast is sent again; nil if it is not.
    private func channelReport(pause: Duration?) -> SettledJob.ChannelReport? {
        switch (channelNews, pause) {
        case (.isGone(let reason), _): .init(channelID: claim.deviceIDs[0], reason: reason, pause: nil)
        case (.isThrottled(let reason), let pause?):
            .init(channelID: claim.deviceIDs[0], reason: reason, pause: pause)
        case (.isThrottled, nil), (nil, _): nil
        }
    }

    /// Raw texts of reasons as a JSON object; nil if there are none. PostgreSQL accepts no zero byte in a text, and an
    /// answer that is not JSON may contain one.
    private var notesAsJSON: String? {
        guard !notes.isEmpty else { return nil }
        let texts = Dictionary(
            uniqueKeysWithValues: notes.map { (String($0.key), $0.value.replacing("\0", with: "\u{FFFD}")) })
        return (try? JSONEncoder().encode(texts)).map { String(decoding: $0, as: UTF8.self) }
    }

    /// How often each recipient was sent to without an answer; nil if nobody was. What may be sent once only was not
    /// sent before.
    private var lossesOfAll: [UInt8]? {
        guard !claim.isAtMostOnce, claim.losses + maximumLossesInLease > 0 else { return nil }
        return outcomes.indices.map { UInt8(clamping: losses(of: $0)) }
    }

    /// Moves the waiting recipients into two jobs, to find the recipient that costs workers. The last worker's loss was
    /// that of all of them, and does not count against a single one. Earlier losses do: they may be answers that never
    /// came.
    func splitInHalves() {
        let losses = max(EngineSettings.lossesBeforeSplit, claim.losses - 1)
        let half = waiting / 2
        var seen = 0
        for ordinal in outcomes.indices where outcomes[ordinal] == 0 {
            recordRetry(
                Retry(
                    deviceID: claim.deviceIDs[ordinal], delay: .backoff(.connection, step: claim.losses),
                    losses: losses - claim.losses, group: seen < half ? 0 : 1),
                because: .givenBack, for: ordinal)
            seen += 1
        }
    }
}
