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
        /// Provider tokens came too often: the present one is to stay, and its key to rest.
        case keepToken
    }

    /// When a push was sent, and what is known beyond its answer.
    struct Circumstances {
        let sentAt: ContinuousClock.Instant
        /// Whether passing refusals are the pushes' own. During an outage of APNs they are not, and spend no attempts.
        var spendsAttempts = true
    }

    /// Answers in a row that blame the message before the rest of the job is refused without being sent.
    private static let faultsThatRefuseAll = 3
    /// Times that a recipient goes back at once to another connection, before that counts as an attempt.
    private static let maximumReturns = 3
    /// An update of a Live Activity that is to be sent once more comes back after so long.
    private static let updateDelay = Duration.milliseconds(100)

    /// Records that APNs took the push.
    static func accepted(_ ordinal: Int, of job: HeldJob, in queue: QueueState, sentAt: ContinuousClock.Instant) {
        job.record(.delivered, for: ordinal)
        queue.unrelatedKey.noteTaken(sentAt: sentAt)
        _ = job.countMessageFault(false)
    }

    /// Records a refusal.
    static func refused(
        _ ordinal: Int, of job: HeldJob, in queue: QueueState, _ refusal: Refusal, _ circumstances: Circumstances
    ) -> Consequence {
        let reason = refusal.reason
        switch job.claim.message.isBroadcast ? reason.broadcastAction : reason.row.action {
        case .reject:
            reject(ordinal, of: job, refusal)
        case .suspect where !reason.concernsDevice(afterPushOf: job.claim.message.pushType):
            reject(ordinal, of: job, refusal)
        case .deactivate, .suspect:
            job.record(.rejected(reason), for: ordinal)
            job.reports.append(
                .init(
                    deviceID: job.claim.deviceIDs[ordinal], reason: reason,
                    reportedAt: refusal.deadSinceMilliseconds.map { $0 * 1000 }, sentAt: circumstances.sentAt))
        case .retry:
            retry(ordinal, of: job, in: queue, refusal, spendsAttempt: circumstances.spendsAttempts)
        case .reconnect:
            sendBack(ordinal, of: job, in: queue, refusal, spendsAttempt: circumstances.spendsAttempts)
        case .renewToken:
            sendAgain(ordinal, of: job)
            return .renewToken
        case .keepToken:
            sendAgain(ordinal, of: job)
            return .keepToken
        case .reconnectOnce:
            switch queue.unrelatedKey.noteRefused(sentAt: circumstances.sentAt, now: .now) {
            case .sendAgain: sendAgain(ordinal, of: job)
            case .pushIsWrong: retry(ordinal, of: job, in: queue, refusal)
            case .keyIsWrong:
                job.putBack(ordinal)
                return .pauseQueue(reason)
            }
        case .pause:
            job.putBack(ordinal)
            return .pauseQueue(reason)
        case .retireChannel:
            reject(ordinal, of: job, refusal)
            job.channelNews = .isGone(reason)
        case .throttleChannel:
            retry(ordinal, of: job, in: queue, refusal)
            job.channelNews = .isThrottled(reason)
        }
        return .none
    }

    /// Records that a request went out and no answer came: sent again, unless that is forbidden or has been tried enough.
    static func unanswered(_ ordinal: Int, of job: HeldJob) {
        let losses = job.countLoss(of: ordinal)
        if job.claim.isAtMostOnce || losses >= EngineSettings.maximumLosses {
            job.record(.unknown, for: ordinal)
        } else if losses == 1 {
            sendAgain(ordinal, of: job)
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
        sendAgain(ordinal, of: job)
    }

    /// Has a recipient sent to once more. An update of a Live Activity is claimed anew for that, since a newer one may have been sent
    /// meanwhile; every claim looks for it.
    private static func sendAgain(_ ordinal: Int, of job: HeldJob) {
        guard job.claim.message.pushType == .liveactivity else { return job.putBack(ordinal) }
        job.recordRetry(
            .init(
                deviceID: job.claim.deviceIDs[ordinal], backoff: nil, step: 0, atLeast: updateDelay, attempts: 0,
                losses: job.lossesInLease(of: ordinal)),
            because: .givenBack, for: ordinal)
    }

    private static func reject(_ ordinal: Int, of job: HeldJob, _ refusal: Refusal) {
        job.record(.rejected(refusal.reason), for: ordinal)
        noteText(of: refusal, for: ordinal, of: job)
        if job.countMessageFault(refusal.reason.row.blamesMessage) >= faultsThatRefuseAll {
            job.close(.refused(refusal.reason))
        }
    }

    private static func retry(
        _ ordinal: Int, of job: HeldJob, in queue: QueueState, _ refusal: Refusal, spendsAttempt: Bool = true
    ) {
        guard !spendsAttempt || job.claim.attempt < queue.settings.maxAttempts else {
            noteText(of: refusal, for: ordinal, of: job)
            return job.record(.failed(refusal.reason), for: ordinal)
        }
        job.recordRetry(
            .init(
                deviceID: job.claim.deviceIDs[ordinal], backoff: .refusal, step: job.claim.attempt,
                atLeast: refusal.retryAfter ?? .zero, attempts: spendsAttempt ? 1 : 0,
                losses: job.lossesInLease(of: ordinal)),
            because: refusal.reason, for: ordinal)
    }

    private static func sendBack(
        _ ordinal: Int, of job: HeldJob, in queue: QueueState, _ refusal: Refusal, spendsAttempt: Bool
    ) {
        let isUpdate = job.claim.message.pushType == .liveactivity
        if !isUpdate, job.noteReturn(of: ordinal, because: refusal) <= maximumReturns {
            job.putBack(ordinal)
        } else {
            retry(ordinal, of: job, in: queue, refusal, spendsAttempt: spendsAttempt)
        }
    }

    /// What a job that is given back knows of recipients who were sent back to go over another connection would be forgotten: that spends
    /// an attempt, or a push that ends every connection would hold up its queue for ever.
    static func spendAttemptsOfReturned(of job: HeldJob, in queue: QueueState) {
        let spendsAttempt = queue.circuit?.spendsAttempts ?? true
        for (ordinal, refusal) in job.returned {
            retry(ordinal, of: job, in: queue, refusal, spendsAttempt: spendsAttempt)
        }
    }

    /// Keeps the words of an answer that is final and whose reason the table does not know.
    private static func noteText(of refusal: Refusal, for ordinal: Int, of job: HeldJob) {
        guard [.other, .otherPassing].contains(refusal.reason), let text = refusal.text else { return }
        job.notes[ordinal] = text
    }
}
