import APNs
import FoundationEssentials
import PostgresStore
import QueueCore

/// The state of a job while this worker holds it: which recipients were sent to, have answered, and must be sent to
/// again.
///
/// Belongs to the engine's event loop. It only keeps the record: `AnswerRules` decides what an answer means.
final class HeldJob {
    /// A recipient by its place in the job.
    typealias Ordinal = Int

    /// Why nothing more is sent.
    enum Closing: Equatable {
        /// `send_by` has passed: what waits has expired.
        case expired
        /// Its campaign was cancelled.
        case cancelled
        /// APNs blames the message, so it would refuse it for everybody.
        case refused(Reason)
        /// It goes back to those that wait; unless that is for good, only as long as APNs is out of reach.
        case yielded(after: Duration, isForGood: Bool = true)
        /// Another worker holds it: nothing may be written.
        case lost
    }

    /// What an answer to a broadcast said of its channel.
    enum ChannelNews {
        /// It no longer exists.
        case isGone(Reason)
        /// Other broadcasts to it wait as long as this one.
        case isThrottled(Reason)
    }

    /// A recipient that continues in another job.
    struct Retry {
        let deviceID: Int64
        /// The backoff from which its delay is drawn, and the number of attempts that it counts; nil if the delay is
        /// `atLeast`.
        let backoff: Backoff?
        let step: Int
        /// The shortest delay: what APNs asked for.
        let atLeast: Duration
        /// Attempts and losses to add to those of the job.
        let attempts: Int
        let losses: Int
        /// Distinguishes the two halves of a job that is split.
        var group = 0
        /// It waits for the end of its quiet hours.
        var isQuiet = false
    }

    let claim: ClaimedJob
    /// Where the job stands in the table of held jobs; half of every ticket.
    let slot: Int
    /// After this time it is not sent any more.
    let sendBy: ContinuousClock.Instant
    /// When its claim was sent, which has read the tokens of its recipients.
    let claimedAt: ContinuousClock.Instant

    /// One byte a recipient, as in `QueueCore.Outcome`.
    private(set) var outcomes: [UInt8]
    /// Recipients without an outcome, in flight or not.
    private(set) var waiting = 0
    /// Requests whose answer is awaited.
    private(set) var inFlight = 0
    /// Whether there is news that no flush has written.
    var isDirty = false
    /// Whether APNs has taken a push of it under this lease.
    var hasBeenTaken = false
    /// Whether it is in its lane, from which it is sent.
    var isQueued = false
    /// The settler has it: it is being ended or given back.
    var isSettling = false
    /// Since when another transaction has kept it from being written, and whether that was reported.
    var lockedSince: ContinuousClock.Instant?
    var isLockReported = false
    /// Ordinals below it may be sent: the watermark that is committed in the database.
    var watermark: Int
    /// When the last claim, flush or renewal that succeeded was sent. Counts from the sending: the database's deadline
    /// is later.
    var renewedAt: ContinuousClock.Instant

    /// Why nothing more is sent for it, and what becomes of it once nothing is in flight; nil while it is being sent.
    private(set) var closing: Closing?

    /// The members that go on in other jobs.
    private(set) var retries: [Retry] = []
    /// What answers said of devices.
    var reports: [SettledJob.DeviceReport] = []
    /// What was learned of the channel, if this is a broadcast.
    var channelNews: ChannelNews?
    /// Raw texts of reasons that the table does not know.
    var notes: [Ordinal: String] = [:]
    /// The number of unanswered sends of each recipient in this lease. Usually empty.
    private var losses: [Ordinal: Int] = [:]
    /// How often a recipient was sent back to use another connection, and the answer that did so. Usually empty.
    private var returns: [Ordinal: (count: Int, refusal: Refusal)] = [:]
    /// The number of answers in a row that blamed the message.
    private var messageFaults = 0

    /// The next recipient to consider.
    private var next: Ordinal = 0
    /// Recipients to be sent to again, within this lease.
    private var resend: [Ordinal] = []

    init(
        _ claim: ClaimedJob, slot: Int, claimedAt: ContinuousClock.Instant, now: ContinuousClock.Instant, window: Int,
        maximumPayloadBytes: Int
    ) {
        self.claim = claim
        self.slot = slot
        self.claimedAt = claimedAt
        renewedAt = claimedAt
        sendBy = now + claim.sendWithin
        if let damage = claim.damage {
            outcomes = [UInt8](repeating: Outcome.failed(.quarantined).rawValue, count: claim.recipientCount)
            watermark = outcomes.count
            notes[0] = damage
            return
        }
        outcomes = claim.outcomes.isEmpty ? [UInt8](repeating: 0, count: claim.deviceIDs.count) : claim.outcomes
        watermark =
            claim.isAtMostOnce ? min(outcomes.count, claim.previousWatermark + window) : outcomes.count
        waiting = outcomes.count { $0 == 0 }
        // A device that is not active while its campaign is paused may be when the campaign goes on.
        if !claim.isPaused { ruleOut(maximumPayloadBytes) }
        recallReports()
    }

    /// Gives an outcome, or a later time, to recipients that nothing is sent to now.
    private func ruleOut(_ maximumPayloadBytes: Int) {
        suppressUnreachable()
        if let personal = claim.personal { suppressUnfit(for: personal, maximumPayloadBytes) }
        if !claim.quietHolds.isEmpty { holdInQuietHours() }
        if let answer = claim.capAnswer, !answer.held.isEmpty { holdBack(by: answer) }
        if !claim.lockedBadges.isEmpty { awaitBadges() }
    }

    /// Recovers what answers to earlier holders said about devices or the channel. Only the end of a job writes that,
    /// and the earlier holders did not reach it. Nobody knows when those pushes were sent, except that it was after the
    /// message was made.
    private func recallReports() {
        for (ordinal, byte) in claim.outcomes.enumerated() where Outcome(rawValue: byte).kind == .rejected {
            guard let reason = Outcome(rawValue: byte).reason else { continue }
            if claim.message.isBroadcast {
                if reason.broadcastAction == .retireChannel { channelNews = .isGone(reason) }
            } else if reason.concernsDevice(afterPushOf: claim.message.pushType) {
                reports.append(
                    .init(
                        deviceID: claim.deviceIDs[ordinal], reason: reason, reportedAt: claim.madeAt, sentAt: renewedAt)
                )
            }
        }
    }

    /// Gives an outcome to recipients whose device is not active any more, or whose update was replaced by a newer one.
    /// If a newer token has taken the place of theirs, they go on by that, unless they may have been sent to.
    private func suppressUnreachable() {
        for ordinal in outcomes.indices where claim.tokens.range(of: ordinal) == nil {
            let isUncertain = isUncertain(ordinal)
            if let successor = claim.successors[claim.deviceIDs[ordinal]], !isUncertain, outcomes[ordinal] == 0 {
                recordRetry(
                    Retry(deviceID: successor, backoff: nil, step: 0, atLeast: .zero, attempts: 0, losses: 0),
                    because: .givenBack, for: ordinal)
            } else {
                record(isUncertain ? .unknown : .suppressed, for: ordinal)
            }
        }
    }

    /// Gives an outcome to recipients for which a personal message cannot be made, or would be too long.
    private func suppressUnfit(for personal: PersonalPayloads, _ maximumPayloadBytes: Int) {
        for ordinal in outcomes.indices where outcomes[ordinal] == 0 {
            let byteCount = personal.byteCount(of: ordinal)
            if let byteCount, byteCount <= maximumPayloadBytes { continue }
            record(
                isUncertain(ordinal) ? .unknown : byteCount == nil ? .lacksAttribute : .tooLong, for: ordinal)
        }
    }

    /// Lets those who have quiet hours go on in jobs that are due when these have ended. What must not be sent again
    /// after a worker was lost with it ends as it does without quiet hours.
    private func holdInQuietHours() {
        for ordinal in outcomes.indices where outcomes[ordinal] == 0 {
            if claim.isAtMostOnce, isUncertain(ordinal) { continue }
            switch claim.quietHolds[claim.deviceIDs[ordinal]] {
            case .forGood: record(isUncertain(ordinal) ? .unknown : .tooLate, for: ordinal)
            case .until(let delay):
                postpone(ordinal, for: delay, because: .quietHours, isQuiet: true)
            case nil: break
            }
        }
    }

    /// Holds back those whom the queue's frequency cap does not let through: for good, or until it is asked again.
    private func holdBack(by answer: CapAnswer) {
        for ordinal in outcomes.indices where outcomes[ordinal] == 0 {
            // Another job would not know that it may have been sent.
            if claim.isAtMostOnce, !answer.isWhole, isUncertain(ordinal) { continue }
            switch answer.held[claim.deviceIDs[ordinal]] {
            case .forGood: record(isUncertain(ordinal) && !answer.isWhole ? .unknown : .capped, for: ordinal)
            case .until(let delay):
                postpone(ordinal, for: delay, because: .givenBack)
            case nil: break
            }
        }
    }

    /// Lets those whose badge another transaction keeps locked go on in a job that asks again.
    private func awaitBadges() {
        for ordinal in outcomes.indices where outcomes[ordinal] == 0 {
            guard claim.lockedBadges.contains(claim.deviceIDs[ordinal]) else { continue }
            if claim.isAtMostOnce, isUncertain(ordinal) { continue }
            postpone(ordinal, for: .seconds(1), because: .givenBack)
        }
    }

    /// Lets a recipient go on in a job that is due after `delay`. It spends no attempt.
    private func postpone(_ ordinal: Ordinal, for delay: Duration, because reason: Reason, isQuiet: Bool = false) {
        let retry = Retry(
            deviceID: claim.deviceIDs[ordinal], backoff: nil, step: 0, atLeast: delay, attempts: 0, losses: 0,
            isQuiet: isQuiet)
        recordRetry(retry, because: reason, for: ordinal)
    }

    /// Whether nothing more is sent for it.
    var isClosed: Bool { closing != nil }

    /// Whether there is somebody to send to now. One that has ended is not: it would stay at the head of its lane,
    /// where nothing renews its lease, and hold up what is behind it.
    var isSendable: Bool { unsent > 0 && (!resend.isEmpty || next < watermark) }

    /// Whether nothing was sent for it under this lease, and nothing is being done with it.
    var isUntouched: Bool { !isClosed && !isSettling && next == 0 && inFlight == 0 && !isDirty }

    /// The number of recipients that are still to be sent to.
    var unsent: Int { isClosed ? 0 : waiting - inFlight }

    /// Whether sending stands still until a flush has moved the watermark.
    var awaitsWatermark: Bool { !isClosed && resend.isEmpty && next >= watermark && next < outcomes.count }

    /// At most so many pushes that APNs has answered, or may have taken, and of which PostgreSQL does not know.
    var unwrittenPushes: Int {
        guard isDirty else { return inFlight }
        let answered = outcomes.indices.count { ordinal in
            let isNew = claim.outcomes.isEmpty || claim.outcomes[ordinal] == 0
            return isNew && [.delivered, .rejected].contains(Outcome(rawValue: outcomes[ordinal]).kind)
        }
        return answered + inFlight
    }

    /// Every recipient has an outcome and nothing is in flight.
    var isFinished: Bool { waiting == 0 && inFlight == 0 }

    /// The watermark that the next flush should commit: far enough ahead to send until the flush after it.
    func nextWatermark(window: Int) -> Int {
        claim.isAtMostOnce ? min(outcomes.count, max(watermark, next + window)) : outcomes.count
    }

    // MARK: Sending

    /// Takes the next recipient to send to: its ordinal, and where its token is in the tokens of the claim. Nil if
    /// there is none at this moment.
    func takeRecipient() -> (ordinal: Ordinal, token: Range<Int>)? {
        guard !isClosed else { return nil }
        while !resend.isEmpty {
            // In the order in which they were sent first. There are at most 500, so moving the rest is cheap.
            let ordinal = resend.removeFirst()
            guard outcomes[ordinal] == 0, let token = claim.tokens.range(of: ordinal) else { continue }
            return (ordinal, token)
        }
        while next < watermark {
            let ordinal = next
            next += 1
            guard outcomes[ordinal] == 0, let token = claim.tokens.range(of: ordinal) else { continue }
            return (ordinal, token)
        }
        return nil
    }

    /// The recipient's request is on its way.
    func noteSent() { inFlight += 1 }

    /// Puts a recipient back that was taken and not sent.
    func putBack(_ ordinal: Ordinal) { resend.append(ordinal) }

    // MARK: Answers

    /// The request of `ordinal` has ended: answered, lost or never sent.
    func noteEnded() { inFlight -= 1 }

    /// Records what became of a recipient.
    func record(_ outcome: Outcome, for ordinal: Ordinal) {
        guard outcomes[ordinal] == 0 else { return }
        outcomes[ordinal] = outcome.rawValue
        waiting -= 1
        isDirty = true
    }

    /// Records that a recipient goes on in another job.
    func recordRetry(_ retry: Retry, because reason: Reason, for ordinal: Ordinal) {
        record(.retried(reason), for: ordinal)
        retries.append(retry)
    }

    /// Counts a send that stayed unanswered and returns how many there have been, those of earlier holders included.
    func countLoss(of ordinal: Ordinal) -> Int {
        losses[ordinal, default: 0] += 1
        isDirty = true
        return claim.rescues + losses[ordinal, default: 0]
    }

    /// Counts that a recipient was sent back to go over another connection, and returns how often it has been.
    func noteReturn(of ordinal: Ordinal, because refusal: Refusal) -> Int {
        let count = (returns[ordinal]?.count ?? 0) + 1
        returns[ordinal] = (count, refusal)
        return count
    }

    /// The recipients that were sent back and wait for their outcome, with the answers that sent them.
    var returned: [(ordinal: Ordinal, refusal: Refusal)] {
        returns.filter { outcomes[$0.key] == 0 }.map { ($0.key, $0.value.refusal) }.sorted { $0.0 < $1.0 }
    }

    /// The number of unanswered sends of a recipient in this lease. A retry job inherits it, because its holder has to
    /// know that the push may have been sent.
    func lossesInLease(of ordinal: Ordinal) -> Int { losses[ordinal] ?? 0 }

    /// How often sends of a recipient stayed unanswered, those of earlier holders included.
    func losses(of ordinal: Ordinal) -> Int {
        losses.isEmpty ? claim.rescues : claim.rescues + losses[ordinal, default: 0]
    }

    /// Notes whether an answer blamed the message. Returns how many have in a row.
    func countMessageFault(_ isFault: Bool) -> Int {
        messageFaults = isFault ? messageFaults + 1 : 0
        return messageFaults
    }

    /// Whether a recipient without an outcome may have been sent to, by this worker or an earlier holder. After workers
    /// were lost with a job, its watermark does not tell any more: the job may have been given back or split since.
    func isUncertain(_ ordinal: Ordinal) -> Bool {
        guard outcomes[ordinal] == 0 else { return false }
        return losses[ordinal] != nil || ordinal < claim.previousWatermark || claim.rescues > 0 && !claim.isAtMostOnce
    }

    /// Moves the recipients that wait into two jobs, to find the one that costs workers. A loss of all of them does not
    /// count against any of them alone, so each half starts as a job that may be split.
    func splitInHalves() {
        let half = waiting / 2
        var seen = 0
        for ordinal in outcomes.indices where outcomes[ordinal] == 0 {
            recordRetry(
                Retry(
                    deviceID: claim.deviceIDs[ordinal], backoff: .connection, step: claim.rescues, atLeast: .zero,
                    attempts: 0, losses: EngineSettings.rescuesBeforeSplit - claim.rescues, group: seen < half ? 0 : 1),
                because: .noAnswer, for: ordinal)
            seen += 1
        }
    }

    /// Gives the only recipient that waits an outcome.
    func recordLast(_ outcome: Outcome) {
        if let ordinal = outcomes.firstIndex(of: 0) { record(outcome, for: ordinal) }
    }

    // MARK: Ends

    /// Stops sending for this job. The first reason counts, except that a loss replaces every other reason, and every
    /// other one that APNs is out of reach.
    func close(_ reason: Closing) {
        if closing == nil || reason == .lost || mayReopen { closing = reason }
    }

    /// Goes on with a job that was to go back because APNs was out of reach, if answers are still awaited.
    func reopen() {
        if mayReopen, !isSettling, inFlight > 0 { closing = nil }
    }

    private var mayReopen: Bool {
        if case .yielded(_, isForGood: false) = closing { true } else { false }
    }

    /// Gives every recipient that waits the outcome that follows from why the job was closed.
    func endWaitingAsClosed() {
        switch closing {
        case .expired: endWaiting(as: .expired)
        case .cancelled: endWaiting(as: .cancelled)
        case .refused(let reason): endWaiting(as: .rejected(reason))
        case .yielded, .lost, nil: precondition(waiting == 0, "a job ends when nobody waits")
        }
    }

    /// What may have been sent becomes `unknown`, whatever the rest becomes.
    private func endWaiting(as outcome: Outcome) {
        precondition(inFlight == 0, "what is in flight is awaited first")
        for ordinal in outcomes.indices where outcomes[ordinal] == 0 {
            record(isUncertain(ordinal) ? .unknown : outcome, for: ordinal)
        }
    }

    /// What is known of it, with the watermark that is committed by writing this.
    ///
    /// A recipient that is to continue in another job is written as waiting. That job is created only by the end of
    /// this one; until then the next holder of this job must send to the recipient.
    func progress(watermark: Int) -> LeaseProgress {
        let known = retries.isEmpty ? outcomes : outcomes.map { Outcome(rawValue: $0).goesOn ? 0 : $0 }
        return LeaseProgress(key: claim.key, watermark: watermark, outcomes: known)
    }

    /// Whether the whole job can be given back: nothing was learned that only the end of a job can write.
    var canBeYielded: Bool { retries.isEmpty && reports.isEmpty && channelNews == nil && notes.isEmpty }

    /// Moves the recipients that wait to another job, as if nothing had been sent.
    func splitWaiting(after delay: Duration) {
        for ordinal in outcomes.indices where outcomes[ordinal] == 0 {
            recordRetry(
                Retry(
                    deviceID: claim.deviceIDs[ordinal], backoff: nil, step: 0, atLeast: delay, attempts: 0,
                    losses: lossesInLease(of: ordinal)),
                because: .givenBack, for: ordinal)
        }
    }

    /// The job in the form in which it is given back. Its watermark is lowered to the first recipient without an
    /// outcome, so that a deploy leaves nothing uncertain. If sends stayed unanswered, the watermark is lowered only to
    /// where sending stopped.
    func yielded(after delay: Duration) -> YieldedLease {
        precondition(inFlight == 0, "what is in flight is awaited first")
        let isUncertain = !claim.isAtMostOnce && !losses.isEmpty
        let watermark = isUncertain ? next : outcomes.firstIndex(of: 0) ?? outcomes.count
        return YieldedLease(
            progress: progress(watermark: watermark), addedRescues: losses.values.max() ?? 0, delay: delay,
            capNews: capNews(isGivenBack: true))
    }

    /// What the queue's frequency cap has to learn of it: who got nothing, and of a job that is given back, who did get
    /// it. A recipient that may have got it keeps its place.
    private func capNews(isGivenBack: Bool) -> [CapNews] {
        guard let answer = claim.capAnswer, claim.damage == nil,
            answer.wasAsked || claim.previousWatermark > 0 || claim.rescues > 0
        else { return [] }
        return outcomes.indices.compactMap { ordinal in
            let outcome = Outcome(rawValue: outcomes[ordinal])
            let hasArrived: Bool?
            switch outcome.kind {
            case .delivered, .unknown: hasArrived = isGivenBack ? true : nil
            case .rejected, .expired, .cancelled: hasArrived = false
            case .suppressed: hasArrived = outcome == .capped ? nil : false
            case .failed, .retried, .postponed: hasArrived = losses(of: ordinal) == 0 ? false : nil
            case .waiting, nil: hasArrived = isUncertain(ordinal) ? nil : false
            }
            return hasArrived.map { CapNews(deviceID: claim.deviceIDs[ordinal], hasArrived: $0) }
        }
    }

    /// The job in the form in which it is ended.
    func settled(delay: (Retry) -> Duration) -> SettledJob {
        let again = retries.map {
            SettledJob.Again(
                deviceID: $0.deviceID, delay: delay($0), attempts: $0.attempts, losses: $0.losses, group: $0.group,
                isQuiet: $0.isQuiet)
        }
        return SettledJob(
            key: claim.key, outcomes: outcomes, again: again, reports: reports,
            channelReport: channelReport(pause: again.first?.delay), notes: notesAsJSON,
            capNews: capNews(isGivenBack: false), givenBackBadges: givenBackBadges)
    }

    /// Those for whom the number on the app's icon was raised, and who got nothing.
    private var givenBackBadges: GivenBackBadges? {
        guard let increment = claim.badgeIncrement, claim.damage == nil else { return nil }
        let devices = outcomes.indices.filter { ordinal in
            let outcome = Outcome(rawValue: outcomes[ordinal])
            return switch outcome.kind {
            case .rejected, .expired, .cancelled, .suppressed: true
            case .failed: losses(of: ordinal) == 0
            // What goes on in another job is sent with the same number.
            case .delivered, .unknown, .retried, .postponed, .waiting, nil: false
            }
        }
        return devices.isEmpty
            ? nil : GivenBackBadges(increment: increment, deviceIDs: devices.map { claim.deviceIDs[$0] })
    }

    /// - Parameter pause: until this broadcast is sent again; nil if it is not.
    private func channelReport(pause: Duration?) -> SettledJob.ChannelReport? {
        switch (channelNews, pause) {
        case (.isGone(let reason), _): .init(channelID: claim.deviceIDs[0], reason: reason, pause: nil)
        case (.isThrottled(let reason), let pause?):
            .init(channelID: claim.deviceIDs[0], reason: reason, pause: pause)
        case (.isThrottled, nil), (nil, _): nil
        }
    }

    /// Raw texts of reasons as a JSON object; nil for none. PostgreSQL accepts no zero byte in a text, and an answer
    /// that is not JSON may contain one.
    private var notesAsJSON: String? {
        guard !notes.isEmpty else { return nil }
        let texts = Dictionary(
            uniqueKeysWithValues: notes.map { (String($0.key), $0.value.replacing("\0", with: "\u{FFFD}")) })
        return (try? JSONEncoder().encode(texts)).map { String(decoding: $0, as: UTF8.self) }
    }
}
