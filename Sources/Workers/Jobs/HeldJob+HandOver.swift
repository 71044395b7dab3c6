import PostgresStore
import QueueCore

/// How recipients continue in another job before this one ends: one push that stays unanswered holds the job for half a
/// minute, and the others need not wait for it.
extension HeldJob {
    /// How long a job waits for its last answers before other recipients continue elsewhere. They usually come sooner,
    /// and each hand-over costs a job.
    static let handOverPatience = Duration.seconds(1)

    /// Whether recipients are to continue in another job now. Belongs into each round of flushes: it notes since when
    /// that could be.
    func isToHandOver(now: ContinuousClock.Instant) -> Bool {
        if isHandOverInDoubt { return true }
        guard isHeldUp else {
            heldUpSince = nil
            return false
        }
        let since = heldUpSince ?? now
        heldUpSince = since
        return now >= since + Self.handOverPatience
    }

    /// Whether nothing can be sent, and recipients only wait until others have their answers.
    private var isHeldUp: Bool {
        guard inFlight > 0, unsent == 0, closing != .lost else { return false }
        return !retries.isEmpty || yieldDelay != nil && waiting > inFlight || !freeingPlaces.isEmpty
    }

    /// What the queue's frequency cap must learn about recipients that got nothing and do not continue: their next push
    /// must not wait for the answers to others either.
    private var freeingPlaces: [CapNews] {
        claim.capAnswer == nil ? [] : capNews(of: untoldRecipients, isGivenBack: false)
    }

    /// The recipients with an end of which the cap was not told.
    private var untoldRecipients: [Ordinal] {
        outcomes.indices.filter {
            outcomes[$0] != 0 && !Outcome(rawValue: outcomes[$0]).continuesInOtherJob && !freed.contains($0)
        }
    }

    /// How long the job is to wait once it is given back; nil if it is not to be.
    private var yieldDelay: Duration? {
        if case .yielded(let delay, _) = closing { delay } else { nil }
    }

    /// Decides which recipients continue in another job, and returns what is written of that.
    func handOver(in queue: QueueState, watermark: Int, delay: (Retry) -> Duration) -> HandOver {
        heldUpSince = nil
        if let yieldDelay {
            AnswerRules.spendAttemptsOfReturned(of: self, in: queue)
            splitWaiting(after: yieldDelay)
        }
        let freeing = freeingPlaces
        // If the statement fails, the end of the job says it again.
        if claim.capAnswer != nil { freed.formUnion(untoldRecipients) }
        return HandOver(
            progress: LeaseProgress(key: claim.key, watermark: watermark, outcomes: storableOutcomes),
            recipients: continuing(delay: delay),
            capNews: capNews(of: retries.map(\.ordinal), isGivenBack: false) + freeing,
            givenBackBadges: badgesGivenBackByHandOver)
    }
}
