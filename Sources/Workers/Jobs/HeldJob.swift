import APNs
import PostgresStore
import QueueCore

/// The state of a job while this worker holds it: which recipients were sent to, have answered, and must be sent to
/// again.
///
/// Belongs to the engine's event loop. It keeps the record: `AnswerRules` decides what an answer means. `+Claim` says
/// what follows from the claim before anything is sent, and `+Settling` in which form it is written, ended or given
/// back.
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
        /// The job is given back. Unless that is for good, it goes on if APNs is in reach again before all that is in
        /// flight has ended.
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
        /// How long it waits there.
        enum Delay: Equatable {
            case fixed(Duration)
            /// Drawn from a backoff that counts so many attempts, and not shorter than APNs asked for.
            case backoff(Backoff, step: Int, atLeast: Duration = .zero)
        }

        let deviceID: Int64
        let delay: Delay
        /// Attempts and losses to add to those of the job.
        var attempts = 0
        var losses = 0
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
    private(set) var next: Ordinal = 0
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

    /// Whether nothing more is sent for it.
    var isClosed: Bool { closing != nil }

    /// Whether there is somebody to send to now. One that has ended is not: it would stay at the head of its lane,
    /// where nothing renews its lease, and hold up what is behind it.
    var isSendable: Bool { unsent > 0 && (!resend.isEmpty || next < watermark) }

    /// Whether nothing was sent for it under this lease, and nothing is being done with it.
    var isUntouched: Bool { !isClosed && !isSettling && next == 0 && inFlight == 0 && !isDirty }

    /// The device to which is sent next, as far as is known: its outcome may be known by then.
    var nextDevice: Int64? {
        let ordinal = resend.first ?? next
        return claim.deviceIDs.indices.contains(ordinal) ? claim.deviceIDs[ordinal] : nil
    }

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

    /// The most unanswered sends of one recipient in this lease.
    var mostLossesInLease: Int { losses.values.max() ?? 0 }

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
}
