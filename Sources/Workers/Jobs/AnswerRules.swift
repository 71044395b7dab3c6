import APNs
import PostgresStore
import QueueCore

/// Applies an answer, or its absence, to the recipient. `QueueCore.Reason` says what follows from each reason: its
/// `table` for pushes to devices, and its table for broadcasts.
enum AnswerRules {
    /// What the engine must do in addition to updating the job.
    enum Consequence: Equatable {
        case none
        /// The queue's credential is at fault: the queue must stop sending with it.
        case pauseQueue(Reason)
        /// The provider token has expired, so a new one is needed.
        case renewToken
        /// APNs received new provider tokens too often: the present token stays, and its key rests.
        case keepToken
    }

    /// The circumstances of an answer: when the push was sent and answered, and what else is known.
    struct Circumstances {
        let sentAt: ContinuousClock.Instant
        let now: ContinuousClock.Instant
        /// Whether a transient refusal concerns this push. During an outage of APNs it does not, and uses no attempt.
        var spendsAttempts = true
        /// Whether the gateway's other pushes are nearly all accepted, so that this one may be sent again soon.
        var isRare = false
        /// Whether the push was sent with a credential that was replaced meanwhile. What APNs says about the old
        /// credential says nothing about the new one.
        var isOfFormerCredential = false
        /// When the last push that was accepted over the gateway was sent; nil for none.
        var lastAcceptedAt: ContinuousClock.Instant?
    }

    /// The delay before an update of a Live Activity is sent again.
    private static let updateDelay = Duration.milliseconds(100)

    /// Records that APNs accepted the push.
    /// - Parameter isOfFormerCredential: see ``Circumstances``.
    static func accepted(
        _ ordinal: Int, of job: HeldJob, in queue: QueueState, isOfFormerCredential: Bool = false,
        sentAt: @autoclosure () -> ContinuousClock.Instant
    ) {
        job.record(.delivered, for: ordinal)
        _ = job.countMessageFault(false)
        guard !isOfFormerCredential else { return }
        if queue.unrelatedKey.wasRefused { queue.unrelatedKey.noteAccepted(sentAt: sentAt()) }
        if !job.hasBeenAccepted || queue.topicRefusals.wantsAll {
            job.hasBeenAccepted = true
            queue.topicRefusals.noteAccepted(job.claim.message.topicSuffix, sentAt: sentAt())
        }
    }

    /// Records a refusal.
    static func refused(
        _ ordinal: Int, of job: HeldJob, in queue: QueueState, _ refusal: Refusal, _ circumstances: Circumstances
    ) -> Consequence {
        RefusedPush(ordinal: ordinal, job: job, queue: queue, refusal: refusal, circumstances: circumstances).follow()
    }

    /// Records that a request was sent but not answered. Sends the push again, unless that is forbidden or was tried
    /// often enough.
    static func unanswered(_ ordinal: Int, of job: HeldJob) {
        let losses = job.countLoss(of: ordinal)
        if job.claim.isAtMostOnce || losses >= EngineSettings.maximumLosses {
            job.record(.unknown, for: ordinal)
        } else if losses == 1 {
            sendAgain(ordinal, of: job, because: .noAnswer)
        } else {
            // A push that breaks connections must not be sent with the same other pushes again.
            job.recordRetry(
                .init(
                    deviceID: job.claim.deviceIDs[ordinal], delay: .backoff(.connection, step: losses),
                    losses: losses - job.claim.losses, group: ordinal % 2),
                because: .noAnswer, for: ordinal)
        }
    }

    /// Handles a request that APNs has certainly not acted on. Sends the push again as if it had not been sent.
    static func untouched(_ ordinal: Int, of job: HeldJob) {
        sendAgain(ordinal, of: job)
    }

    /// Handles a request whose stream alone was refused. Sends the push again at once for the first time. Returns what
    /// the refusal counts as otherwise: APNs may refuse this push for ever.
    static func streamRefused(
        _ ordinal: Int, of job: HeldJob, in queue: QueueState, now: ContinuousClock.Instant
    ) -> Refusal? {
        guard noteReturn(of: ordinal, of: job, in: queue, now: now) == 1 else { return .streamRefused }
        sendAgain(ordinal, of: job)
        return nil
    }

    /// Counts that a recipient was sent back at once, and returns how often that has happened.
    /// - Parameter refusal: the answer, if the recipient uses an attempt in case the job is given back.
    fileprivate static func noteReturn(
        of ordinal: Int, of job: HeldJob, in queue: QueueState, because refusal: Refusal? = nil,
        now: ContinuousClock.Instant
    ) -> Int {
        guard job.claim.message.pushType == .liveactivity else {
            return job.noteReturn(of: ordinal, because: refusal, now: now)
        }
        return queue.returnedUpdates.noteReturn(
            rootID: job.claim.rootID, deviceID: job.claim.deviceIDs[ordinal], now: now)
    }

    /// Sends to a recipient again. Puts an update of a Live Activity into another job, because a newer update may have
    /// been sent meanwhile, and every claim checks for that.
    /// - Parameter reason: what became of the push; nil if APNs has not acted on it.
    fileprivate static func sendAgain(_ ordinal: Int, of job: HeldJob, because reason: Reason? = nil) {
        guard job.claim.message.pushType == .liveactivity else { return job.putBack(ordinal, because: reason) }
        sendAgain(ordinal, of: job, because: reason, after: updateDelay)
    }

    /// Sends to a recipient again in another job, without using an attempt.
    fileprivate static func sendAgain(
        _ ordinal: Int, of job: HeldJob, because reason: Reason?, after delay: Duration
    ) {
        job.recordRetry(
            .init(
                deviceID: job.claim.deviceIDs[ordinal], delay: .fixed(delay), losses: job.lossesInLease(of: ordinal)),
            because: reason ?? .givenBack, for: ordinal)
    }

    /// Sends to a recipient again in another job, unless the recipient has used its last attempt.
    fileprivate static func retry(
        _ ordinal: Int, of job: HeldJob, in queue: QueueState, _ refusal: Refusal, spendsAttempt: Bool,
        isRare: Bool = false
    ) {
        guard !spendsAttempt || job.claim.attempt < queue.settings.maxAttempts else {
            noteText(of: refusal, for: ordinal, of: job)
            return job.record(.failed(refusal.reason), for: ordinal)
        }
        job.recordRetry(
            .init(
                deviceID: job.claim.deviceIDs[ordinal],
                delay: .backoff(
                    isRare ? .rareRefusal : .refusal, step: job.claim.attempt, atLeast: refusal.retryAfter ?? .zero),
                attempts: spendsAttempt ? 1 : 0, losses: job.lossesInLease(of: ordinal)),
            because: refusal.reason, for: ordinal)
    }

    /// Keeps the text of a final answer whose reason the table does not contain.
    fileprivate static func noteText(of refusal: Refusal, for ordinal: Int, of job: HeldJob) {
        guard let text = refusal.text, Reason.known(text) == nil else { return }
        job.notes[ordinal] = text
    }

    /// Uses an attempt of each recipient that was sent back to use another connection. A job that is given back forgets
    /// how often that happened. Without this, a push that ends every connection would block its queue for ever.
    static func spendAttemptsOfReturned(of job: HeldJob, in queue: QueueState) {
        let spendsAttempt = queue.route?.circuit.spendsAttempts ?? true
        for (ordinal, refusal) in job.returned {
            retry(ordinal, of: job, in: queue, refusal, spendsAttempt: spendsAttempt)
        }
    }
}

/// A push that APNs has refused. Carries out what its reason demands.
private struct RefusedPush {
    let ordinal: HeldJob.Ordinal
    let job: HeldJob
    let queue: QueueState
    let refusal: Refusal
    let circumstances: AnswerRules.Circumstances

    /// After this number of consecutive answers that blame the message, the rest of the job is refused without being
    /// sent.
    private static let faultsThatRefuseAll = 3
    /// How often a recipient goes back at once to use another connection, before a return counts as an attempt.
    private static let maximumReturns = 3
    /// How long an accepted push shows that the provider token is good.
    private static let timeOfProof = Duration.seconds(10)

    private var reason: Reason { refusal.reason }

    func follow() -> AnswerRules.Consequence {
        switch reason.action(for: job.claim.message) {
        case .reject: reject()
        case .deactivate, .suspect:
            let accused = reason.accused(byPushOf: job.claim.message.pushType)
            if accused == .nobody { reject() } else { report(accused) }
        case .retry: retry(spendsAttempt: circumstances.spendsAttempts, isRare: circumstances.isRare)
        case .reconnect: sendBack()
        case .renewToken:
            guard !isRefusedAlone() else {
                retry(spendsAttempt: circumstances.spendsAttempts)
                return .none
            }
            AnswerRules.sendAgain(ordinal, of: job, because: reason)
            return .renewToken
        case .keepToken:
            AnswerRules.sendAgain(ordinal, of: job, because: reason)
            return .keepToken
        case .reconnectOnce: return reconnectOnce()
        case .pause: return blame()
        case .retireChannel:
            reject()
            job.channelNews = .isGone(reason)
        case .throttleChannel:
            retry(spendsAttempt: true)
            job.channelNews = .isThrottled(reason)
        }
        return .none
    }

    /// Whether the push is refused once more after others were accepted: then the provider token is good.
    private func isRefusedAlone() -> Bool {
        let isUpdate = job.claim.message.pushType == .liveactivity
        // An update continues in another job, which does not know that it was refused. A push that has used an attempt
        // was refused before this lease.
        let earlier =
            job.firstReturn(of: ordinal)
            ?? (isUpdate
                ? circumstances.sentAt : job.claim.attempt > 1 ? circumstances.now - Self.timeOfProof : nil)
        _ = job.noteReturn(of: ordinal, now: circumstances.now)
        guard let earlier, let lastAcceptedAt = circumstances.lastAcceptedAt else { return false }
        return lastAcceptedAt >= earlier
    }

    private func reconnectOnce() -> AnswerRules.Consequence {
        guard !circumstances.isOfFormerCredential else {
            AnswerRules.sendAgain(ordinal, of: job, because: reason)
            return .none
        }
        if reason.mayDependOnTopic,
            queue.topicRefusals.isAtFault(job.claim.message.topicSuffix, now: circumstances.now)
        {
            reject()
            return .none
        }
        switch queue.unrelatedKey.noteRefused(sentAt: circumstances.sentAt, now: circumstances.now) {
        case .sendAgain: AnswerRules.sendAgain(ordinal, of: job, because: reason)
        case .pushIsWrong: if !isAboutTopic() { retry(spendsAttempt: true) }
        case .keyIsWrong: return blame()
        }
        return .none
    }

    /// Makes the queue pause because of its credential, unless the refusal concerns only the push's topic.
    private func blame() -> AnswerRules.Consequence {
        guard !circumstances.isOfFormerCredential else {
            job.putBack(ordinal, because: reason)
            return .none
        }
        guard !isAboutTopic() else { return .none }
        job.putBack(ordinal, because: reason)
        return .pauseQueue(reason)
    }

    /// Whether the push was refused for its topic alone, or may have been. Rejects it in the first case, and sends it
    /// again in the second.
    private func isAboutTopic() -> Bool {
        guard reason.mayDependOnTopic else { return false }
        let verdict = queue.topicRefusals.noteRefused(
            job.claim.message.topicSuffix, sentAt: circumstances.sentAt, now: circumstances.now)
        switch verdict {
        case .credentialIsWrong: return false
        case .topicIsWrong: reject()
        case .wait: AnswerRules.sendAgain(ordinal, of: job, because: reason, after: TopicRefusals.patience)
        }
        return true
    }

    /// Records a refusal that accuses the device, too.
    private func report(_ accused: Reason.Accused) {
        job.record(.rejected(reason), for: ordinal)
        AnswerRules.noteText(of: refusal, for: ordinal, of: job)
        job.reports.append(
            .init(
                deviceID: job.claim.deviceIDs[ordinal], reason: reason, accused: accused,
                reportedAt: refusal.deadSinceMilliseconds.map { $0 * 1000 }, sentAt: circumstances.sentAt))
    }

    private func reject() {
        job.record(.rejected(reason), for: ordinal)
        AnswerRules.noteText(of: refusal, for: ordinal, of: job)
        // If each recipient has a payload of its own, one that is too large says nothing about the others.
        let blamesMessage = reason.row.blamesMessage && (reason != .payloadTooLarge || job.claim.personal == nil)
        if job.countMessageFault(blamesMessage) >= Self.faultsThatRefuseAll { job.close(.refused(reason)) }
    }

    /// Sends the push again over another connection, which may accept it.
    private func sendBack() {
        // A push that has used an attempt may end every connection, so it ends one for each further attempt.
        if job.claim.attempt == 1,
            AnswerRules.noteReturn(of: ordinal, of: job, in: queue, because: refusal, now: circumstances.now)
                <= Self.maximumReturns
        {
            AnswerRules.sendAgain(ordinal, of: job, because: reason)
        } else {
            retry(spendsAttempt: circumstances.spendsAttempts)
        }
    }

    private func retry(spendsAttempt: Bool, isRare: Bool = false) {
        AnswerRules.retry(ordinal, of: job, in: queue, refusal, spendsAttempt: spendsAttempt, isRare: isRare)
    }
}

extension StoredMessage {
    /// The part of a push's topic after the app's bundle ID. Empty for a broadcast, which names the bundle ID alone.
    var topicSuffix: String { isBroadcast ? "" : pushType.topicSuffix }
}

extension Reason {
    /// What follows from the reason if it is the answer to this message.
    func action(for message: StoredMessage) -> Action { message.isBroadcast ? broadcastAction : row.action }
}
