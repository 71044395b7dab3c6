import PostgresStore
import QueueCore

/// Decides what intake does next: poll, claim, sleep, or end.
///
/// Its owner asks for a step with ``next(at:)``, carries it out, reports the result, and asks again. So two polls or
/// claims are never under way at once. Notifications and the order to stop may come at any time in between.
struct IntakeState {
    enum Step: Equatable {
        /// Delete the row that makes producers notify this worker. The next step need not wait for that.
        case takeRowAway
        /// Poll for work. Answered by ``noteFound(_:lanes:worker:needsFanOut:now:)`` or ``noteFailed()``.
        case poll(PollPlan.Poll)
        /// Plan claims from these lanes as if a poll had just found jobs there. Answered by
        /// ``notePresumed(_:worker:)``.
        case presume([LanePlace])
        /// Claim jobs. Answered by ``noteClaimed(_:now:)`` or ``noteFailed()``.
        case claim([ClaimQuota])
        /// Write the row. Answered by ``noteRow(isWritten:took:now:)``.
        case fallAsleep
        /// Wait for this time, or until there is a reason to poll.
        case wait(Duration)
        /// Wait for this time because a statement has failed, whatever reason there is to poll, or until the stop.
        case rest(Duration)
        /// Claim nothing more. If the row may exist, delete it.
        case end(hasRow: Bool)
    }

    private enum Phase {
        /// Nothing is under way, and the next step is a poll.
        case awake
        case polling(PollPlan.Poll, begun: ContinuousClock.Instant)
        case presuming
        /// These claims follow, one by one. After a poll, what it found then decides how long to rest; nil: the lanes
        /// were presumed, and a poll comes next.
        case planned([[ClaimQuota]], Wakefulness.Found?)
        case claiming(then: [[ClaimQuota]], Wakefulness.Found?)
        /// This wait follows if no notification can have been missed meanwhile; nil: a poll follows.
        case writingRow(then: Duration?)
        case waiting(Duration)
        case failed
        case ended
    }

    /// The time between a claim without a poll and that poll, so that what was claimed is sent before.
    private static let timeToSend = Duration.milliseconds(1)
    /// The time before the next poll when a poll or a claim has failed: each refusal fills PostgreSQL's log.
    private static let pauseAfterFailure = Duration.milliseconds(500)

    private var phase = Phase.awake
    private var wakefulness: Wakefulness
    private var plan: PollPlan
    /// How long it takes to write the row: it is found by its key, and PostgreSQL does not wait for the disk.
    private var roundTrips = RoundTrips()
    /// Whether a producer has notified this worker since the last poll began.
    private var isNotified = false
    /// Whether a notification has just woken this worker.
    private var isWoken = false
    /// Whether no poll of all lanes has followed a notification yet.
    private var awaitsNews = false
    /// Whether one that did follow, and began at floors, has found nothing to claim, and no full poll has come since.
    private var missesNews = false
    /// Whether jobs were claimed since the last poll, from lanes where they were presumed.
    private var hasClaimedPresumed = false
    /// Whether the row that makes producers notify this worker may be gone.
    private var isRowInDoubt = false
    /// Whether the row may exist: it was requested, with or without an answer, and not deleted since.
    private var mayHaveRow = false
    private(set) var isStopping = false

    /// - Parameters:
    ///   - busyPoll: how often a busy worker polls.
    ///   - idlePoll: the longest time between two polls of an idle worker.
    ///   - maximumLanes: see ``ClaimPlan/maximumLanes``.
    init(busyPoll: Duration, idlePoll: Duration, maximumLanes: Int32 = ClaimPlan.maximumLanes) {
        plan = PollPlan(maximumLanes: maximumLanes)
        wakefulness = Wakefulness(busyPoll: busyPoll, idlePoll: idlePoll)
    }

    /// The campaigns that have jobs to create: see ``PollPlan/campaigns``.
    var campaigns: [ReadyWork.FanOut] { plan.campaigns }

    /// Whether intake has ended: no claim is under way, and none follows.
    var hasEnded: Bool { if case .ended = phase { true } else { false } }

    // MARK: Events

    /// Notes that a producer has notified this worker of work.
    mutating func noteNotified() { isNotified = true }

    /// Notes that PostgreSQL was out of reach, or that this worker did not listen. Producers may not know that it
    /// sleeps, and it may have missed a notification.
    mutating func noteRowInDoubt() {
        isRowInDoubt = true
        // Another server may be in use now.
        roundTrips = RoundTrips()
    }

    /// Claims nothing more.
    mutating func stop() { isStopping = true }

    // MARK: Steps

    /// Returns the next step. The previous step must be done.
    /// - Parameter isLow: see ``PollPlan/next(at:missesNews:isLow:)``.
    mutating func next(at now: ContinuousClock.Instant, isLow: (LanePlace) -> Bool = { _ in true }) -> Step {
        if isStopping, isBetweenSteps {
            phase = .ended
            return .end(hasRow: mayHaveRow)
        }
        switch phase {
        case .awake: return poll(at: now, isLow)
        case .planned(let claims, let found):
            guard let claim = claims.first else {
                if let found { return rest(found, at: now) }
                phase = .awake
                if hasClaimedPresumed { return .wait(Self.timeToSend) }
                plan.notePresumedInVain()
                return poll(at: now, isLow)
            }
            phase = .claiming(then: Array(claims.dropFirst()), found)
            return .claim(claim)
        case .waiting(let pause):
            phase = .awake
            return .wait(pause)
        case .failed:
            phase = .awake
            return .rest(Self.pauseAfterFailure)
        case .polling, .presuming, .claiming, .writingRow, .ended: fatalError("the step before is not through")
        }
    }

    private var isBetweenSteps: Bool {
        switch phase {
        case .awake, .planned, .waiting, .failed: true
        case .polling, .presuming, .claiming, .writingRow, .ended: false
        }
    }

    private mutating func poll(at now: ContinuousClock.Instant, _ isLow: (LanePlace) -> Bool) -> Step {
        if isRowInDoubt { wakefulness.noteRowInDoubt() }
        isRowInDoubt = false
        if isNotified {
            isNotified = false
            awaitsNews = true
            let wasAsleep = wakefulness.noteNotified()
            isWoken = wasAsleep
            // Deletes the row even if it may be gone: while it exists, every commit sends a notification.
            if wasAsleep || mayHaveRow {
                mayHaveRow = false
                return .takeRowAway
            }
        }
        if isWoken {
            isWoken = false
            let lanes = plan.presumed(at: now)
            if !lanes.isEmpty {
                phase = .presuming
                return .presume(lanes)
            }
        }
        let poll = plan.next(at: now, missesNews: missesNews, isLow: isLow)
        phase = .polling(poll, begun: now)
        return .poll(poll)
    }

    private mutating func rest(_ found: Wakefulness.Found, at now: ContinuousClock.Instant) -> Step {
        switch wakefulness.next(after: found, now: now) {
        case .fallAsleep:
            phase = .writingRow(then: nil)
            mayHaveRow = true
            return .fallAsleep
        case .reassure(let pause):
            phase = .writingRow(then: pause)
            mayHaveRow = true
            return .fallAsleep
        case .wakeUp(let pause):
            phase = .waiting(pause)
            mayHaveRow = false
            return .takeRowAway
        case .wait(let pause):
            phase = .awake
            return .wait(pause)
        }
    }

    // MARK: Results of steps

    /// Notes whether a poll found work.
    /// - Parameters:
    ///   - lanes: the lanes of `work` whose queues this worker serves, in their order.
    ///   - needsFanOut: whether a campaign has to create jobs now; false if the poll did not cover campaigns.
    mutating func noteFound(
        _ work: ReadyWork, lanes: [ClaimPlan.Candidate], worker: ClaimPlan.Worker, needsFanOut: Bool,
        now: ContinuousClock.Instant
    ) {
        guard case .polling(let poll, let sent) = phase else { fatalError("there was no poll") }
        // How often to poll depends on what polls cost, not on how far away PostgreSQL is.
        let begun = min(now, sent + roundTrips.shortest)
        plan.note(work, of: poll, begun: begun, now: now)
        let claim = ClaimPlan(for: lanes, from: plan.place, maximumLanes: plan.maximumLanes, worker: worker)
        plan.note(claim, after: poll, end: work.end, now: now)
        noteNews(after: poll, isFound: !claim.statements.isEmpty)
        let nextTakes = plan.nextTakes(after: begun.duration(to: now), at: now)
        var found = Wakefulness.Found(
            hasWork: needsFanOut || hasClaimedPresumed || claim.hasMoreSoon, pollTime: nextTakes)
        hasClaimedPresumed = false
        found.isPartial = work.end != nil || !work.coversCampaigns
        found.isHolding = worker.leases > 0
        for dueIn in lanes.filter(\.mayClaim).map(\.dueIn) + work.fanOuts.map(\.dueIn) where dueIn > .zero {
            found.nextDue = min(found.nextDue, dueIn)
        }
        phase = .planned(claim.statements, found)
    }

    /// What a notification tells of is usually a single push, which a poll at floors finds at once. A full poll would
    /// delay it.
    private mutating func noteNews(after poll: PollPlan.Poll, isFound: Bool) {
        switch poll {
        case .lanes: (awaitsNews, missesNews) = (false, false)
        case .floors:
            if awaitsNews, !isFound { missesNews = true }
            awaitsNews = false
        case .within: break
        }
    }

    /// Notes the lanes to presume jobs in, if this worker serves their queues.
    mutating func notePresumed(_ lanes: [ClaimPlan.Candidate], worker: ClaimPlan.Worker) {
        guard case .presuming = phase else { fatalError("nothing was presumed") }
        phase = .planned(ClaimPlan(for: lanes, worker: worker).statements, nil)
    }

    /// Notes the lanes of the jobs that a claim has brought: one element for each job.
    mutating func noteClaimed(_ lanes: [LanePlace], now: ContinuousClock.Instant) {
        guard case .claiming(let claims, var found) = phase else { fatalError("there was no claim") }
        for lane in lanes { plan.noteClaimed(from: lane, now: now) }
        if !lanes.isEmpty {
            if found == nil { hasClaimedPresumed = true }
            found?.hasWork = true
        }
        phase = .planned(claims, found)
    }

    /// Notes that a poll or a claim has failed. It is tried again after a while.
    mutating func noteFailed() {
        switch phase {
        case .polling, .claiming: phase = .failed
        default: fatalError("there was neither a poll nor a claim")
        }
    }

    /// Notes that the row that makes producers notify this worker was written, or refused. Then this worker polls as if
    /// it were there: each ``EngineSettings/idlePoll``, and the row is written again after some seconds. If PostgreSQL
    /// was out of reach, ``noteRowInDoubt()`` follows.
    mutating func noteRow(isWritten: Bool, took time: Duration, now: ContinuousClock.Instant) {
        guard case .writingRow(let pause) = phase else { fatalError("there was no row to write") }
        if isWritten { roundTrips.note(time) }
        let hasLasted = wakefulness.noteRow(isWritten: isWritten, now: now)
        phase = .awake
        if let pause, hasLasted, !isRowInDoubt { phase = .waiting(pause) }
    }
}
