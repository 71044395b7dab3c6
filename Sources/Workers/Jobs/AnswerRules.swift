import APNs
import PostgresStore
import QueueCore

/// What an answer, or its absence, means for the recipient. `QueueCore.Reason` says what follows from each reason, by
/// its `table` and by that of broadcasts; here it is done.
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
        /// Whether a transient refusal is about the push. During an outage of APNs it is not, and uses no attempt.
        var spendsAttempts = true
        /// Whether the gateway takes nearly all else, so that the push may be sent again soon.
        var isRare = false
    }

    /// After this number of answers in a row that blame the message, the rest of the job is refused without being sent.
    private static let faultsThatRefuseAll = 3
    /// Times that a recipient goes back at once to another connection, before that counts as an attempt.
    private static let maximumReturns = 3
    /// The delay before an update of a Live Activity is sent again.
    private static let updateDelay = Duration.milliseconds(100)

    /// Records that APNs took the push.
    static func accepted(
        _ ordinal: Int, of job: HeldJob, in queue: QueueState, sentAt: @autoclosure () -> ContinuousClock.Instant
    ) {
        job.record(.delivered, for: ordinal)
        if queue.unrelatedKey.wasRefused { queue.unrelatedKey.noteTaken(sentAt: sentAt()) }
        if !job.hasBeenTaken || queue.topicRefusals.wantsAll {
            job.hasBeenTaken = true
            queue.topicRefusals.noteTaken(job.claim.message.topicSuffix, sentAt: sentAt())
        }
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
            retry(
                ordinal, of: job, in: queue, refusal, spendsAttempt: circumstances.spendsAttempts,
                isRare: circumstances.isRare)
        case .reconnect:
            sendBack(ordinal, of: job, in: queue, refusal, spendsAttempt: circumstances.spendsAttempts)
        case .renewToken:
            sendAgain(ordinal, of: job)
            return .renewToken
        case .keepToken:
            sendAgain(ordinal, of: job)
            return .keepToken
        case .reconnectOnce:
            let suffix = job.claim.message.topicSuffix
            if reason.mayDependOnTopic, queue.topicRefusals.isAtFault(suffix, now: .now) {
                reject(ordinal, of: job, refusal)
                return .none
            }
            switch queue.unrelatedKey.noteRefused(sentAt: circumstances.sentAt, now: .now) {
            case .sendAgain: sendAgain(ordinal, of: job)
            case .pushIsWrong:
                if !isAboutTopic(ordinal, of: job, in: queue, refusal, circumstances) {
                    retry(ordinal, of: job, in: queue, refusal)
                }
            case .keyIsWrong: return blame(ordinal, of: job, in: queue, refusal, circumstances)
            }
        case .pause: return blame(ordinal, of: job, in: queue, refusal, circumstances)
        case .retireChannel:
            reject(ordinal, of: job, refusal)
            job.channelNews = .isGone(reason)
        case .throttleChannel:
            retry(ordinal, of: job, in: queue, refusal)
            job.channelNews = .isThrottled(reason)
        }
        return .none
    }

    /// Has the queue pause for its credential, unless the refusal is about the push's topic alone.
    private static func blame(
        _ ordinal: Int, of job: HeldJob, in queue: QueueState, _ refusal: Refusal, _ circumstances: Circumstances
    ) -> Consequence {
        guard !isAboutTopic(ordinal, of: job, in: queue, refusal, circumstances) else { return .none }
        job.putBack(ordinal)
        return .pauseQueue(refusal.reason)
    }

    /// Whether a refusal is about the push's topic alone, or may be: then the push is rejected, or sent again.
    private static func isAboutTopic(
        _ ordinal: Int, of job: HeldJob, in queue: QueueState, _ refusal: Refusal, _ circumstances: Circumstances
    ) -> Bool {
        guard refusal.reason.mayDependOnTopic else { return false }
        let verdict = queue.topicRefusals.noteRefused(
            job.claim.message.topicSuffix, sentAt: circumstances.sentAt, now: .now)
        switch verdict {
        case .credentialIsWrong: return false
        case .topicIsWrong: reject(ordinal, of: job, refusal)
        case .wait: sendAgain(ordinal, of: job, after: TopicRefusals.patience)
        }
        return true
    }

    /// Records that a request was sent and not answered. It is sent again, unless that is forbidden or was tried often
    /// enough.
    static func unanswered(_ ordinal: Int, of job: HeldJob) {
        let losses = job.countLoss(of: ordinal)
        if job.claim.isAtMostOnce || losses >= EngineSettings.maximumLosses {
            job.record(.unknown, for: ordinal)
        } else if losses == 1 {
            sendAgain(ordinal, of: job)
        } else {
            // A push that makes connections break must not be sent with the same others again.
            job.recordRetry(
                .init(
                    deviceID: job.claim.deviceIDs[ordinal], backoff: .connection, step: losses, atLeast: .zero,
                    attempts: 0,
                    losses: losses - job.claim.rescues, group: ordinal % 2),
                because: .noAnswer, for: ordinal)
        }
    }

    /// Handles a request that APNs has not processed: it is sent again as if it had not been sent.
    static func untouched(_ ordinal: Int, of job: HeldJob) {
        sendAgain(ordinal, of: job)
    }

    /// Sends to a recipient again. An update of a Live Activity is claimed again first, because a newer one may have
    /// been sent meanwhile, and every claim checks for that.
    private static func sendAgain(_ ordinal: Int, of job: HeldJob) {
        guard job.claim.message.pushType == .liveactivity else { return job.putBack(ordinal) }
        sendAgain(ordinal, of: job, after: updateDelay)
    }

    /// Sends to a recipient again in another job, without an attempt spent.
    private static func sendAgain(_ ordinal: Int, of job: HeldJob, after delay: Duration) {
        job.recordRetry(
            .init(
                deviceID: job.claim.deviceIDs[ordinal], backoff: nil, step: 0, atLeast: delay, attempts: 0,
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
        _ ordinal: Int, of job: HeldJob, in queue: QueueState, _ refusal: Refusal, spendsAttempt: Bool = true,
        isRare: Bool = false
    ) {
        guard !spendsAttempt || job.claim.attempt < queue.settings.maxAttempts else {
            noteText(of: refusal, for: ordinal, of: job)
            return job.record(.failed(refusal.reason), for: ordinal)
        }
        job.recordRetry(
            .init(
                deviceID: job.claim.deviceIDs[ordinal], backoff: isRare ? .rareRefusal : .refusal,
                step: job.claim.attempt,
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

    /// Uses an attempt of each recipient that was sent back to use another connection. A job that is given back forgets
    /// how often that happened; without this, a push that ends every connection would block its queue for ever.
    static func spendAttemptsOfReturned(of job: HeldJob, in queue: QueueState) {
        let spendsAttempt = queue.circuit?.spendsAttempts ?? true
        for (ordinal, refusal) in job.returned {
            retry(ordinal, of: job, in: queue, refusal, spendsAttempt: spendsAttempt)
        }
    }

    /// Keeps the text of a final answer if the table does not know its reason.
    private static func noteText(of refusal: Refusal, for ordinal: Int, of job: HeldJob) {
        guard [.other, .otherPassing].contains(refusal.reason), let text = refusal.text else { return }
        job.notes[ordinal] = text
    }
}

extension StoredMessage {
    /// What the topic of a push to a device has behind the app's bundle ID. A broadcast names the bundle ID alone.
    var topicSuffix: String { isBroadcast ? "" : pushType.topicSuffix }
}
