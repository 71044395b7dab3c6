/// A circuit breaker: decides from the answers of an APNs gateway whether it accepts pushes at present.
///
/// An outage is a large share of transient refusals (429, 5xx) to many recipients, or no answer to any of them. One
/// push that is always refused is not an outage, nor is one device that gets too many pushes. During an outage, one
/// push at a time probes whether it is over, with growing delays. After a successful probe, each further success lets
/// more pushes out, until the recovery is complete.
///
/// A value without a clock: its owner passes the time.
package struct Breaker: Equatable, Sendable {
    package enum Phase: Equatable, Sendable {
        /// Everything is sent.
        case closed
        /// Nothing is sent before `until`, but for a push that was not refused before; then one push at a time.
        case open(until: ContinuousClock.Instant)
        /// APNs serves again: at most `limit` pushes may be in flight.
        case recovering(limit: Int)
    }

    /// A push that was not accepted, though APNs was in reach: a transient refusal, or the reset of its stream.
    package struct TransientRefusal: Sendable {
        package enum Subject: Equatable, Sendable {
            /// APNs as a whole, as far as one answer tells.
            case server
            /// The recipient, as of 429, which says little about APNs.
            case recipient
            /// One connection whose server goes away. It is an outage only if all other pushes are refused in the same
            /// way.
            case connection
            /// The push was reset while so many were in flight. Resets may come sooner than answers, so those in flight
            /// may tell more.
            case reset(inFlight: Int)
        }

        /// Identifies the recipient, and is the same each time its push is sent.
        package let recipient: Int64
        /// What the refusal is about.
        package let subject: Subject
        /// Whether the push was refused before. Such a refusal continues a streak of refusals but does not begin one:
        /// at the end of a campaign, the only pushes left are those that APNs refuses for their own sake. During a
        /// recovery, such refusals count only if there are many in a row.
        package let isRepeated: Bool
        /// How long the server asks to wait.
        package let retryAfter: Duration?
        package let sentAt: ContinuousClock.Instant

        package init(
            recipient: Int64, subject: Subject = .server, isRepeated: Bool = false, retryAfter: Duration?,
            sentAt: ContinuousClock.Instant
        ) {
            self.recipient = recipient
            self.subject = subject
            self.isRepeated = isRepeated
            self.retryAfter = retryAfter
            self.sentAt = sentAt
        }
    }

    /// The share of refusals among the last answers from which there is an outage. Below it, retries succeed: all of
    /// ten attempts fail for one push in a thousand.
    static let outageShare = 0.5
    /// The share is taken over about this many answers. During recovery there are fewer, so that a gateway that fails
    /// again is soon left alone.
    static let answersOfShare = 50.0
    static let answersOfShareInRecovery = 16.0
    /// Below this share of refusals, APNs accepts nearly all pushes.
    static let rareShare = 0.1
    /// If pushes are few, a streak of this many refusals is an outage, if it lasts for `minimumStreakTime`.
    static let streakThatOpens = 5
    static let minimumStreakTime = Duration.seconds(1)
    /// A streak that continues only by pushes that were refused before must last this long: these pushes may be refused
    /// for their own sake, while others that come now and then are accepted.
    static let minimumRepeatedStreakTime = Duration.seconds(20)
    /// During a recovery, repeated refusals count from this many in a row: fewer may be a few pushes that come again
    /// between others.
    static let repeatedInRecovery = 10
    /// If a recovery served this many pushes before it failed, the next probe is not delayed further: APNs serves some
    /// pushes.
    static let servedOfSome = 5
    /// An outage needs at least this many recipients that were refused by the server's fault, …
    static let minimumRecipients = 3
    /// … or this many in all, including those refused because they get too many pushes.
    static let manyRecipients = 10
    /// The maximum number of recipients that are remembered.
    private static let rememberedRecipients = 16
    /// How long a server may ask all pushes of a gateway to wait. In a long outage, a push is tried once a minute
    /// anyway, and one answer among many may be wrong.
    static let longestAsked = Duration.seconds(60)
    /// The recovery ends after this many pushes were served, or after this time if more pushes were served than
    /// refused.
    static let servedOfRecovery = 100
    package static let timeOfRecovery = Duration.seconds(60)

    /// Whether the breaker is closed. A transient refusal is then the push's own, and spends one of its attempts.
    package private(set) var isClosed = true
    /// The share of refusals among the last answers.
    private var share = 0.0
    /// The number of refusals since the last success.
    private var consecutiveRefusals = 0
    /// Tells streaks of refusals apart. A streak ends with a success and when the phase changes.
    private var streakNumber = 0
    /// When the first refusal of the streak came, if the breaker was closed then.
    private var streakBegan: ContinuousClock.Instant?
    package private(set) var phase = Phase.closed {
        didSet { isClosed = phase == .closed }
    }
    /// How often in a row the breaker opened or a probe was refused; the next probe is delayed accordingly. Opening
    /// after a recovery that served some pushes does not count.
    package private(set) var failures = 0
    /// How often the breaker opened in all.
    package private(set) var openings = 0
    /// When this phase began; nil for the first. Answers to pushes sent earlier do not count in it.
    package private(set) var since: ContinuousClock.Instant?
    /// While the breaker is open: when a push that was never refused may probe. Only the refusal of such a push delays
    /// that: a push that was refused before may be refused for its own sake.
    private var untriedUntil: ContinuousClock.Instant?
    /// Whether the breaker opened because pushes had no answer, and has not closed since. Then any answer shows that
    /// APNs serves again, also one to an earlier push.
    private var isSilence = false
    /// Whether the owner lets pushes that were never refused probe before `until`. Otherwise all wait for it.
    private let choosesProbes: Bool
    /// While the breaker is closed: the resets, and the pushes that were served, since the first of these resets.
    private var resets = 0
    private var servedSinceReset = 0
    private var served = 0
    private var refused = 0
    private var recent: [Recent] = []
    private let backoff: Backoff
    private let timeOfRecovery: Duration

    /// A recipient that was refused recently.
    private struct Recent: Equatable {
        let recipient: Int64
        let isAboutRecipient: Bool
        /// The last streak of refusals that contained the recipient.
        var streakNumber: Int
    }

    package init(
        backoff: Backoff = .connection, timeOfRecovery: Duration = Self.timeOfRecovery, choosesProbes: Bool = true
    ) {
        self.backoff = backoff
        self.choosesProbes = choosesProbes
        self.timeOfRecovery = timeOfRecovery
    }

    /// Whether nearly all recent pushes were accepted, so that a refusal says little about APNs.
    package var acceptsNearlyAll: Bool { isClosed && share < Self.rareShare }

    /// Whether nothing may be sent now.
    package func isOpen(at now: ContinuousClock.Instant) -> Bool {
        if case .open(let until) = phase { now < firstProbe(until) } else { false }
    }

    private func firstProbe(_ until: ContinuousClock.Instant) -> ContinuousClock.Instant {
        min(until, untriedUntil ?? until)
    }

    /// The number of further pushes that may be sent now.
    /// - Parameter inFlight: how many pushes of this phase are in flight.
    package func room(inFlight: Int, now: ContinuousClock.Instant) -> Int {
        switch phase {
        case .closed: .max
        case .open(let until): now < firstProbe(until) ? 0 : max(0, 1 - inFlight)
        case .recovering(let limit): max(0, limit - inFlight)
        }
    }

    /// Notes an answer that shows that APNs serves: it accepted a push, or refused it for good.
    package mutating func noteServed(sentAt: ContinuousClock.Instant, now: ContinuousClock.Instant) {
        switch phase {
        case .closed: noteServedWhileClosed()
        case .open(let until):
            guard isSilence || now >= firstProbe(until) && isOfThisPhase(sentAt) else { return }
            enter(.recovering(limit: 2), now: now)
        case .recovering(let limit):
            guard isSilence || isOfThisPhase(sentAt) else { return }
            if consecutiveRefusals > 0 { beginStreak() }
            share -= share / Self.answersOfShareInRecovery
            served += 1
            phase = .recovering(limit: limit + 1)
            if served >= Self.servedOfRecovery || isLongRecovered(now: now) { close(now: now) }
        }
    }

    /// Notes the same while the breaker is closed, without the time. Nearly all answers come here, so it only updates
    /// numbers.
    package mutating func noteServedWhileClosed() {
        if consecutiveRefusals > 0 { beginStreak() }
        if resets > 0 { servedSinceReset += 1 }
        share -= share / Self.answersOfShare
    }

    /// Notes a transient refusal.
    package mutating func noteRefused(
        _ refusal: TransientRefusal, now: ContinuousClock.Instant, using generator: inout some RandomNumberGenerator
    ) {
        if refusal.isRepeated, isClosed {
            guard consecutiveRefusals > 0 else { return }
        } else {
            remember(refusal)
        }
        // The waiting time of one recipient does not apply to the others.
        let retryAfter = refusal.subject == .recipient ? nil : refusal.retryAfter.map { min($0, Self.longestAsked) }
        switch phase {
        case .closed:
            if refusal.subject != .connection, !refusal.isRepeated { share += (1 - share) / Self.answersOfShare }
            consecutiveRefusals += 1
            streakBegan = streakBegan ?? now
            // A push may be lost a few times only.
            let isLost = if case .reset = refusal.subject { true } else { false }
            let leastTime = refusal.isRepeated && !isLost ? Self.minimumRepeatedStreakTime : Self.minimumStreakTime
            if countReset(refusal) || tellsEnough(refusal) && isOutage(leastTime, now: now) {
                open(retryAfter, now: now, using: &generator)
            }
        case .open(let until):
            guard now >= firstProbe(until), isOfThisPhase(refusal.sentAt) else {
                if let retryAfter {
                    phase = .open(until: max(until, now + retryAfter))
                    untriedUntil = max(firstProbe(until), now + retryAfter)
                }
                return
            }
            let untried = choosesProbes && refusal.isRepeated && retryAfter == nil ? untriedUntil : nil
            open(retryAfter, now: now, using: &generator)
            untriedUntil = untried ?? untriedUntil
        case .recovering(let limit):
            guard isOfThisPhase(refusal.sentAt) else { return }
            consecutiveRefusals += 1
            if refusal.isRepeated, consecutiveRefusals < Self.repeatedInRecovery {
                phase = .recovering(limit: max(1, limit - 1))
                return
            }
            refused += 1
            share += (1 - share) / Self.answersOfShareInRecovery
            phase = .recovering(limit: max(1, limit / 2))
            if share >= Self.outageShare, tellsEnough(refusal) { open(retryAfter, now: now, using: &generator) }
        }
    }

    /// When a recovery ends if nothing is in flight then; nil while there is none, or if more pushes are refused than
    /// served.
    package var endOfQuietRecovery: ContinuousClock.Instant? {
        // The push that began the recovery was served, too.
        guard case .recovering = phase, let since, served + 1 > refused else { return nil }
        return since + timeOfRecovery
    }

    /// Notes that nothing is in flight. A recovery would otherwise last until the next push is served, which may be
    /// tomorrow.
    package mutating func noteQuiet(now: ContinuousClock.Instant) {
        if let endOfQuietRecovery, now >= endOfQuietRecovery { close(now: now) }
    }

    /// Notes that APNs refuses every push, and not for its own sake, because the key must rest. The breaker opens for
    /// as long as after a refused probe.
    package mutating func noteRest(
        sentAt: ContinuousClock.Instant, now: ContinuousClock.Instant, using generator: inout some RandomNumberGenerator
    ) {
        guard !isOpen(at: now), isClosed || isOfThisPhase(sentAt) else { return }
        open(nil, now: now, using: &generator)
    }

    /// Notes that APNs answers nothing any more.
    /// - Parameter sentAt: when the oldest push that waits for its answer was sent.
    package mutating func noteSilence(
        sentAt: ContinuousClock.Instant, now: ContinuousClock.Instant, using generator: inout some RandomNumberGenerator
    ) {
        guard !isOpen(at: now), isClosed || isOfThisPhase(sentAt) else { return }
        open(nil, now: now, using: &generator)
        isSilence = true
    }

    /// Notes that APNs was out of reach as well and can be reached again, so that a push may probe at once if the
    /// breaker is open because of silence: whatever lay between may have caused that.
    package mutating func noteReached(now: ContinuousClock.Instant) {
        guard isSilence, isOpen(at: now) else { return }
        phase = .open(until: now)
        untriedUntil = now
    }

    // MARK: Phases

    private mutating func open(
        _ retryAfter: Duration?, now: ContinuousClock.Instant, using generator: inout some RandomNumberGenerator
    ) {
        openings += 1
        if served < Self.servedOfSome { failures += 1 }
        // The delay is never shorter than the ceiling: if jitter shortened it, APNs would get more than one push a
        // minute from each worker in a long outage.
        let delay = backoff.ceiling(afterAttempt: failures)
        let spread = delay / 6 * Double.random(in: 0...1, using: &generator)
        let until = now + max(delay + spread, retryAfter ?? .zero)
        isSilence = false
        enter(.open(until: until), now: now)
        untriedUntil = until
    }

    private mutating func close(now: ContinuousClock.Instant) {
        failures = 0
        recent = []
        isSilence = false
        enter(.closed, now: now)
    }

    private mutating func enter(_ phase: Phase, now: ContinuousClock.Instant) {
        self.phase = phase
        since = now
        share = 0
        beginStreak()
        (served, refused, resets, servedSinceReset) = (0, 0, 0, 0)
    }

    private func isOfThisPhase(_ sentAt: ContinuousClock.Instant) -> Bool { since.map { sentAt >= $0 } ?? true }

    private func isLongRecovered(now: ContinuousClock.Instant) -> Bool {
        guard let since else { return false }
        return since.duration(to: now) >= timeOfRecovery && served > refused
    }

    // MARK: What an outage is

    private mutating func beginStreak() {
        streakNumber += 1
        (consecutiveRefusals, streakBegan) = (0, nil)
    }

    private mutating func remember(_ refusal: TransientRefusal) {
        recent.removeAll {
            $0.recipient == refusal.recipient && $0.isAboutRecipient == (refusal.subject == .recipient)
        }
        if recent.count == Self.rememberedRecipients { recent.removeFirst() }
        recent.append(
            Recent(
                recipient: refusal.recipient, isAboutRecipient: refusal.subject == .recipient,
                streakNumber: streakNumber))
    }

    /// - Parameter leastTime: how long a streak of refusals must last.
    private func isOutage(_ leastTime: Duration, now: ContinuousClock.Instant) -> Bool {
        if share >= Self.outageShare, isOfMany({ _ in true }) { return true }
        guard let streakBegan, consecutiveRefusals >= Self.streakThatOpens, streakBegan.duration(to: now) >= leastTime
        else {
            return false
        }
        return isOfMany { $0.streakNumber == streakNumber }
    }

    /// Counts a reset. Returns whether there are as many answers since the first reset as pushes are in flight, and a
    /// large share of them are resets.
    private mutating func countReset(_ refusal: TransientRefusal) -> Bool {
        guard case .reset(let inFlight) = refusal.subject, !refusal.isRepeated else { return false }
        resets += 1
        let answers = resets + servedSinceReset
        guard answers >= max(Int(Self.answersOfShare), inFlight) else { return false }
        let areMostlyResets = Double(resets) >= Double(answers) * Self.outageShare
        (resets, servedSinceReset) = (0, 0)
        return areMostlyResets && isOfMany { _ in true }
    }

    /// Whether the streak is as long as the number of pushes in flight, as far as these may tell more.
    private func tellsEnough(_ refusal: TransientRefusal) -> Bool {
        if case .reset(let inFlight) = refusal.subject { consecutiveRefusals >= inFlight } else { true }
    }

    /// Whether so many recipients were refused that they are not at fault.
    private func isOfMany(_ isCounted: (Recent) -> Bool) -> Bool {
        let counted = recent.filter(isCounted)
        return counted.count { !$0.isAboutRecipient } >= Self.minimumRecipients || counted.count >= Self.manyRecipients
    }
}
