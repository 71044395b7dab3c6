import APNs
import PostgresStore
import QueueCore

/// The state of a job while this worker holds it: which recipients were sent to, have answers, and must be sent to
/// again.
///
/// Belongs to the engine's event loop. It keeps the record; `AnswerRules` decides what an answer means. `+Claim` has
/// what follows from the claim before anything is sent. `+Settling` has the forms in which the job is written, ended or
/// given back, and `+Badges` what becomes of the numbers on app icons then.
final class HeldJob {
    /// A recipient's place in the job.
    typealias Ordinal = Int

    /// Why nothing more is sent for the job.
    enum Closing: Equatable {
        /// `send_by` has passed: the waiting recipients have expired.
        case expired
        /// The job, or the campaign, send or broadcast that it descends from, was cancelled.
        case cancelled
        /// APNs blames the message, so it would refuse the message for every recipient.
        case refused(Reason)
        /// The job is given back. If that is not for good, sending goes on when APNs is in reach again before the last
        /// push in flight has ended.
        case yielded(after: Duration, isForGood: Bool = true)
        /// Another worker holds the job: this one may write nothing.
        case lost
    }

    /// What an answer to a broadcast said about its channel.
    enum ChannelNews {
        /// The channel no longer exists.
        case isGone(Reason)
        /// Other broadcasts to the channel wait as long as this one.
        case isThrottled(Reason)
    }

    /// A recipient that continues in another job.
    struct Retry {
        /// How long the recipient waits in the other job.
        enum Delay: Equatable {
            case fixed(Duration)
            /// Drawn from a backoff for this number of attempts, and at least as long as APNs asked for.
            case backoff(Backoff, step: Int, atLeast: Duration = .zero)
        }

        let deviceID: Int64
        let delay: Delay
        /// Attempts and losses to add to the job's.
        var attempts = 0
        var losses = 0
        /// Distinguishes the two halves of a job that is split.
        var group = 0
        /// When the recipient's quiet hours have ended, in microseconds since 1970; nil: it does not wait for that.
        var quietUntil: Int64?
        /// The recipient's place in this job. Set when the retry is recorded.
        fileprivate(set) var ordinal: Ordinal = 0
    }

    let claim: ClaimedJob
    /// The job's slot in the table of held jobs; half of every ticket.
    let slot: Int
    /// The time after which nothing more is sent.
    let sendBy: ContinuousClock.Instant
    /// When the claim was sent. It has read the tokens of the recipients.
    let claimedAt: ContinuousClock.Instant
    /// When the job came here, after the claim was answered. However long claims take, an update has its turn.
    let heldSince: ContinuousClock.Instant

    /// The outcomes, one byte for each recipient, as in `QueueCore.Outcome`.
    private(set) var outcomes: [UInt8]
    /// Recipients without an outcome, in flight or not.
    private(set) var waiting = 0
    /// The number of requests whose answers are awaited.
    private(set) var inFlight = 0
    /// Whether there are changes that no flush has written.
    var isDirty = false
    /// Whether APNs has accepted a push of this job under this lease.
    var hasBeenAccepted = false
    /// Whether the job is in its lane, from which it is sent.
    var isQueued = false
    /// What the settler knows of the job.
    var settling = SettlingState()
    /// The watermark that is committed in the database. Recipients with lower ordinals may be sent to.
    var watermark: Int
    /// When the last successful claim, flush or renewal was sent. Counting from the sending is safe: the deadline in
    /// the database is later.
    var renewedAt: ContinuousClock.Instant

    /// Why nothing more is sent, and what becomes of the job when nothing is in flight any more; nil while it is being
    /// sent.
    private(set) var closing: Closing?

    /// The recipients that continue in other jobs, which the end of this job creates.
    private(set) var retries: [Retry] = []
    /// The recipients that continue in other jobs which exist already. Usually empty.
    private(set) var handedOver: Set<Ordinal> = []
    /// The recipients with an outcome of which the queue's frequency cap was told before the end of the job.
    var freed: Set<Ordinal> = []
    /// Whether PostgreSQL may have handed over recipients without this worker knowing. A flush would undo that.
    var isHandOverInDoubt = false
    /// Since when recipients could continue in another job while the job waits for the answers to others.
    var heldUpSince: ContinuousClock.Instant?
    /// What answers said about devices.
    var reports: [SettledJob.DeviceReport] = []
    /// What an answer said about the channel, if this is a broadcast.
    var channelNews: ChannelNews?
    /// Raw texts of reasons that the table does not know.
    var notes: [Ordinal: String] = [:]
    /// The number of unanswered sends of each recipient in this lease. Usually empty.
    private var losses: [Ordinal: Int] = [:]
    /// The recipients of which APNs has reset a send. Usually empty.
    private var resets: Set<Ordinal> = []
    /// What became of the last send of recipients that are to be sent to again: the reason of a refusal, or no answer.
    /// Usually empty.
    private var lastReasons: [Ordinal: Reason] = [:]
    /// How often a recipient was sent back at once, for another connection or another stream; when that was first done;
    /// and the answer, if the recipient uses an attempt in case the job is given back. Usually empty.
    private var returns: [Ordinal: (count: Int, since: ContinuousClock.Instant, refusal: Refusal?)] = [:]
    /// The number of answers in a row that blamed the message.
    private var messageFaults = 0

    /// The next recipient to consider.
    private(set) var next: Ordinal = 0
    /// Recipients to be sent to again within this lease, before those that were not sent to.
    private var resend: [Ordinal] = []
    /// Recipients to be sent to again within this lease, after those that were not sent to.
    private var resendLast: [Ordinal] = []

    init(
        _ claim: ClaimedJob, slot: Int, claimedAt: ContinuousClock.Instant,
        heldSince: ContinuousClock.Instant? = nil, window: Int, maximumPayloadBytes: Int
    ) {
        self.claim = claim
        self.slot = slot
        self.claimedAt = claimedAt
        self.heldSince = heldSince ?? claimedAt
        renewedAt = claimedAt
        // Not from now: quiet hours and frequency caps have been asked about since, and took their time.
        sendBy = claimedAt + claim.sendWithin
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
        handedOver = Set(claim.outcomes.indices.filter { Outcome(rawValue: outcomes[$0]).continuesInOtherJob })
        // A device that is inactive while its campaign is paused may be active when the campaign continues. A job that
        // goes to another lane is claimed there, and that claim asks for newer tokens. What was cancelled ends as
        // cancelled, and what has expired as expired.
        if !claim.isPaused, !claim.isElsewhere, !claim.isCancelled, claim.sendWithin > .zero {
            ruleOut(maximumPayloadBytes)
        }
        recallReports()
    }

    /// Whether nothing more is sent for the job.
    var isClosed: Bool { closing != nil }

    /// Whether the settler is ending the job or giving it back.
    var isSettling: Bool { settling.hasBegun }

    /// Whether the job has a recipient to send to now. False for a job that has ended: otherwise it would stay at the
    /// head of its lane, where nothing renews its lease, and hold up the jobs behind it.
    var isSendable: Bool { unsent > 0 && (!resend.isEmpty || next < watermark || !resendLast.isEmpty) }

    /// Whether nothing was sent for the job under this lease, and no other work on it is going on.
    var isUntouched: Bool { !isClosed && !isSettling && next == 0 && inFlight == 0 && !isDirty }

    /// The recipient to whom the job sends next, as far as is known. It may have an outcome by then.
    var nextRecipient: Ordinal? {
        let ordinal = resend.first ?? (next < watermark ? next : resendLast.first ?? next)
        return claim.deviceIDs.indices.contains(ordinal) ? ordinal : nil
    }

    /// The number of recipients that are still to be sent to.
    var unsent: Int { isClosed ? 0 : waiting - inFlight }

    /// Whether sending waits until a flush has moved the watermark.
    var awaitsWatermark: Bool { !isClosed && resend.isEmpty && next >= watermark && next < outcomes.count }

    /// The maximum number of pushes that APNs has answered or may have accepted, and of which PostgreSQL does not know.
    var unwrittenPushes: Int {
        guard isDirty else { return inFlight }
        let answered = outcomes.indices.count { ordinal in
            let isNew = claim.outcomes.isEmpty || claim.outcomes[ordinal] == 0
            return isNew && [.delivered, .rejected].contains(Outcome(rawValue: outcomes[ordinal]).kind)
        }
        return answered + inFlight
    }

    /// Whether every recipient has an outcome and nothing is in flight.
    var isFinished: Bool { waiting == 0 && inFlight == 0 }

    /// The watermark that the next flush should commit: far enough ahead to keep sending until the flush after it.
    func nextWatermark(window: Int) -> Int {
        claim.isAtMostOnce ? min(outcomes.count, max(watermark, next + window)) : outcomes.count
    }

    // MARK: Sending

    /// Takes the next recipient to send to: its ordinal, and the place of its token in the tokens of the claim. Returns
    /// nil if there is none at this moment.
    func takeRecipient() -> (ordinal: Ordinal, token: Range<Int>)? {
        guard !isClosed else { return nil }
        if let again = takeFirst(of: &resend) { return again }
        while next < watermark {
            let ordinal = next
            next += 1
            guard outcomes[ordinal] == 0, let token = claim.tokens.range(of: ordinal) else { continue }
            return (ordinal, token)
        }
        return takeFirst(of: &resendLast)
    }

    /// Takes the first of these recipients that has no outcome and a token.
    private func takeFirst(of ordinals: inout [Ordinal]) -> (ordinal: Ordinal, token: Range<Int>)? {
        while !ordinals.isEmpty {
            // Resends keep the order of the first sends. There are at most 500, so moving the rest is cheap.
            let ordinal = ordinals.removeFirst()
            guard outcomes[ordinal] == 0, let token = claim.tokens.range(of: ordinal) else { continue }
            return (ordinal, token)
        }
        return nil
    }

    /// Notes that a recipient's request was sent.
    func noteSent() { inFlight += 1 }

    /// Puts back a recipient that was taken but not sent to, because there was no room. It stays the next: a connection
    /// may make room for this one, and take no other before.
    func untake(_ ordinal: Ordinal) { resend.insert(ordinal, at: 0) }

    /// Has a recipient sent to again, behind the others. A push without an answer may be one that ends connections, so
    /// it also goes behind those that were not sent.
    /// - Parameter reason: why it was refused; nil if APNs has not acted on the push.
    func putBack(_ ordinal: Ordinal, because reason: Reason? = nil) {
        if reason == .noAnswer { resendLast.append(ordinal) } else { resend.append(ordinal) }
        if let reason { lastReasons[ordinal] = reason }
    }

    // MARK: Answers

    /// Notes that a request has ended: it was answered, lost or never sent.
    func noteEnded() { inFlight -= 1 }

    /// Records the outcome of a recipient.
    func record(_ outcome: Outcome, for ordinal: Ordinal) {
        guard outcomes[ordinal] == 0 else { return }
        outcomes[ordinal] = outcome.rawValue
        waiting -= 1
        isDirty = true
    }

    /// Records that a recipient continues in another job.
    func recordRetry(_ retry: Retry, because reason: Reason, for ordinal: Ordinal) {
        record(.retried(reason), for: ordinal)
        var retry = retry
        retry.ordinal = ordinal
        retries.append(retry)
    }

    /// Notes that the first `count` retries have their other jobs.
    func noteHandedOver(_ count: Int) {
        handedOver.formUnion(retries.prefix(count).map(\.ordinal))
        retries.removeFirst(count)
        isHandOverInDoubt = false
    }

    /// The recipients without an outcome that are not in flight.
    var unsentRecipients: [Ordinal] {
        let waiting = outcomes.indices.filter { outcomes[$0] == 0 }
        guard inFlight > 0 else { return waiting }
        let again = Set(resend + resendLast)
        return waiting.filter { $0 >= next || again.contains($0) }
    }

    /// Counts an unanswered send, and returns the number of unanswered sends so far, including those of earlier
    /// holders.
    func countLoss(of ordinal: Ordinal) -> Int {
        losses[ordinal, default: 0] += 1
        lastReasons[ordinal] = .noAnswer
        isDirty = true
        return claim.losses + losses[ordinal, default: 0]
    }

    /// Counts that APNs has reset a push, and returns whether it may have done so before. Of an earlier lease it is
    /// only known how often the push was lost, and the first time may have been a connection or a worker.
    func noteReset(of ordinal: Ordinal) -> Bool {
        !resets.insert(ordinal).inserted || claim.losses >= EngineSettings.lossesBeforeSplit
    }

    /// Why a recipient that waits continues in another job if this one ends.
    func reasonToContinue(of ordinal: Ordinal) -> Reason { lastReasons[ordinal] ?? .givenBack }

    /// Counts that a recipient was sent back at once, and returns how often that has happened.
    /// - Parameter refusal: the answer, if the recipient uses an attempt in case the job is given back.
    func noteReturn(of ordinal: Ordinal, because refusal: Refusal? = nil, now: ContinuousClock.Instant) -> Int {
        let earlier = returns[ordinal]
        let count = (earlier?.count ?? 0) + 1
        returns[ordinal] = (count, earlier?.since ?? now, refusal)
        return count
    }

    /// When a recipient was first sent back at once; nil if it was not.
    func firstReturn(of ordinal: Ordinal) -> ContinuousClock.Instant? { returns[ordinal]?.since }

    /// Whether a recipient's push was sent before and not accepted.
    func wasRefused(_ ordinal: Ordinal) -> Bool {
        claim.attempt > 1 || !returns.isEmpty && returns[ordinal] != nil
    }

    /// The recipients that were sent back and are not sent again yet, with the answers for which they use an attempt.
    var returned: [(ordinal: Ordinal, refusal: Refusal)] {
        guard !returns.isEmpty else { return [] }
        return unsentRecipients.compactMap { ordinal in returns[ordinal]?.refusal.map { (ordinal, $0) } }
    }

    /// The number of unanswered sends of a recipient in this lease. A retry job inherits it, because its holder has to
    /// know that the push may have been sent.
    func lossesInLease(of ordinal: Ordinal) -> Int { losses[ordinal] ?? 0 }

    /// The number of unanswered sends of a recipient, including those of earlier holders.
    func losses(of ordinal: Ordinal) -> Int {
        let earlier = claim.losses == 0 ? 0 : earlierLosses(of: ordinal)
        return losses.isEmpty ? earlier : earlier + losses[ordinal, default: 0]
    }

    /// The number of unanswered sends of earlier holders. They are those of the recipients that were still to be sent
    /// to: a recipient that failed although it may have got the push has no outcome until the end of its job
    /// (``storableOutcomes``).
    private func earlierLosses(of ordinal: Ordinal) -> Int {
        let hadOutcome = claim.outcomes.indices.contains(ordinal) && claim.outcomes[ordinal] != 0
        return hadOutcome ? 0 : claim.losses
    }

    /// The smallest and the largest number of unanswered sends in this lease, of the recipients that are to be sent to
    /// again.
    var lossesOfWaiting: ClosedRange<Int> {
        guard !losses.isEmpty else { return 0...0 }
        let counts = outcomes.indices.lazy.filter { [self] in isToBeSentTo($0) }.map { [self] in lossesInLease(of: $0) }
        return (counts.min() ?? 0)...(counts.max() ?? 0)
    }

    /// Whether a recipient has no outcome yet, or continues in another job that does not exist yet.
    func isToBeSentTo(_ ordinal: Ordinal) -> Bool {
        outcomes[ordinal] == 0
            || Outcome(rawValue: outcomes[ordinal]).continuesInOtherJob && !handedOver.contains(ordinal)
    }

    /// The largest number of unanswered sends of one recipient in this lease.
    var maximumLossesInLease: Int { losses.values.max() ?? 0 }

    /// Notes whether an answer blamed the message. Returns the number of consecutive answers that did.
    func countMessageFault(_ isFault: Bool) -> Int {
        messageFaults = isFault ? messageFaults + 1 : 0
        return messageFaults
    }

    /// Whether a recipient without an outcome may have been sent to, by this worker or an earlier holder. Once workers
    /// were lost with a job, its watermark does not tell any more: the job may have been given back or split since.
    func isUncertain(_ ordinal: Ordinal) -> Bool {
        guard outcomes[ordinal] == 0 else { return false }
        return losses[ordinal] != nil || ordinal < claim.previousWatermark || claim.losses > 0 && !claim.isAtMostOnce
    }

    /// Gives an outcome to the only waiting recipient.
    func recordLast(_ outcome: Outcome) {
        if let ordinal = outcomes.firstIndex(of: 0) { record(outcome, for: ordinal) }
    }

    // MARK: Ends

    /// Stops sending for this job. The first reason counts, with two exceptions: `lost` replaces any reason, and any
    /// reason replaces a yield that is not for good.
    func close(_ reason: Closing) {
        if closing == nil || reason == .lost || mayReopen { closing = reason }
    }

    /// Continues a job that was to be given back because APNs was out of reach, if answers are still awaited.
    func reopen() {
        if mayReopen, !isSettling, inFlight > 0 { closing = nil }
    }

    private var mayReopen: Bool {
        if case .yielded(_, isForGood: false) = closing { true } else { false }
    }
}
