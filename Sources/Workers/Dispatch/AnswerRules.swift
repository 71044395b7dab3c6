import APNs
import PostgresStore
import QueueCore

/// What an answer, or its absence, means for the recipient. `QueueCore.Reason` says what follows from each reason, by its `table`
/// and by that of broadcasts; here it is done.
struct AnswerRules {
    /// What the engine must do beyond the job's own record.
    enum Consequence: Equatable {
        case none
        /// The queue's credential is at fault: it must not go on sending with it.
        case pauseQueue(Reason)
        /// The provider token has expired: a new one is needed.
        case renewToken
        /// Provider tokens came too often: the present one is to stay.
        case keepToken
    }

    /// Answers in a row that blame the message before the rest of the job is refused without being sent.
    private static let faultsThatRefuseAll = 3
    /// Times that a recipient goes back at once to another connection, before that counts as an attempt.
    private static let mostReturns = 3

    /// Records that APNs took the push.
    static func accepted(_ ordinal: Int, of job: HeldJob) {
        job.record(.delivered, for: ordinal)
        _ = job.countMessageFault(false)
    }

    /// Records a refusal.
    static func refused(_ ordinal: Int, of job: HeldJob, _ refusal: Refusal) -> Consequence {
        let reason = refusal.reason
        switch job.claim.message.isBroadcast ? reason.broadcastAction : reason.row.action {
        case .reject:
            reject(ordinal, of: job, refusal)
        case .deactivate, .suspect:
            job.record(.rejected(reason), for: ordinal)
            job.reports.append(
                .init(
                    deviceID: job.claim.deviceIDs[ordinal], reason: reason,
                    reportedAt: refusal.deadSinceMilliseconds.map { $0 * 1000 }))
        case .retry:
            retry(ordinal, of: job, refusal)
        case .reconnect:
            sendBack(ordinal, of: job, refusal)
        case .renewToken:
            sendBack(ordinal, of: job, refusal)
            return .renewToken
        case .keepToken:
            retry(ordinal, of: job, refusal)
            return .keepToken
        case .reconnectOnce:
            let isFirst = job.countReturn(of: ordinal) == 1
            job.putBack(ordinal)
            return isFirst ? .none : .pauseQueue(reason)
        case .pause:
            job.putBack(ordinal)
            return .pauseQueue(reason)
        case .retireChannel:
            reject(ordinal, of: job, refusal)
            job.channelNews = .isGone(reason)
        case .throttleChannel:
            retry(ordinal, of: job, refusal)
            job.channelNews = .isThrottled(reason)
        }
        return .none
    }

    /// Records that a request went out and no answer came: sent again, unless that is forbidden or has been tried enough.
    static func unanswered(_ ordinal: Int, of job: HeldJob) {
        let losses = job.countLoss(of: ordinal)
        if job.claim.isAtMostOnce || losses >= EngineSettings.mostLosses {
            job.record(.unknown, for: ordinal)
        } else if losses == 1 {
            job.putBack(ordinal)
        } else {
            // Whatever loses connections must not do so again in the same company.
            job.recordRetry(
                .init(
                    deviceID: job.claim.deviceIDs[ordinal], backoff: .connection, step: losses, atLeast: .zero,
                    attempts: 0,
                    losses: losses - job.claim.rescues, group: ordinal % 2),
                because: .noAnswer, for: ordinal)
        }
    }

    /// A request that APNs has not looked at: it goes out again as if nothing had been.
    static func untouched(_ ordinal: Int, of job: HeldJob) {
        job.putBack(ordinal)
    }

    private static func reject(_ ordinal: Int, of job: HeldJob, _ refusal: Refusal) {
        job.record(.rejected(refusal.reason), for: ordinal)
        noteText(of: refusal, for: ordinal, of: job)
        if job.countMessageFault(refusal.reason.row.blamesMessage) >= faultsThatRefuseAll {
            job.close(.refused(refusal.reason))
        }
    }

    private static func retry(_ ordinal: Int, of job: HeldJob, _ refusal: Refusal) {
        guard job.claim.attempt < job.queue.settings.maxAttempts else {
            noteText(of: refusal, for: ordinal, of: job)
            return job.record(.failed(refusal.reason), for: ordinal)
        }
        job.recordRetry(
            .init(
                deviceID: job.claim.deviceIDs[ordinal], backoff: .refusal, step: job.claim.attempt,
                atLeast: refusal.retryAfter ?? .zero, attempts: 1, losses: 0),
            because: refusal.reason, for: ordinal)
    }

    private static func sendBack(_ ordinal: Int, of job: HeldJob, _ refusal: Refusal) {
        if job.countReturn(of: ordinal) <= mostReturns {
            job.putBack(ordinal)
        } else {
            retry(ordinal, of: job, refusal)
        }
    }

    /// Keeps the words of an answer that is final and whose reason the table does not know.
    private static func noteText(of refusal: Refusal, for ordinal: Int, of job: HeldJob) {
        guard [.other, .otherPassing].contains(refusal.reason), let text = refusal.text else { return }
        job.notes[ordinal] = text
    }
}
