import PostgresStore
import QueueCore

/// Decides what intake does next: look, claim, sleep, or end.
///
/// Its owner asks for a step with ``next(at:)``, carries it out, reports the result, and asks again: there are never
/// two looks or claims under way. Notifications and the order to stop may come at any time in between.
struct IntakeState {
    enum Step: Equatable {
        /// Delete the row that makes producers notify this worker. The next step need not wait for it.
        case takeRowAway
        /// Look for work. Answered by ``noteFound(_:lanes:worker:needsFanOut:now:)`` or ``noteFailed()``.
        case look(LookPlan.Look)
        /// Claim jobs. Answered by ``noteClaimed(_:)`` or ``noteFailed()``.
        case claim([ClaimQuota])
        /// Write the row. Answered by ``noteRow(isWritten:)``.
        case fallAsleep
        /// Wait for so long, or until there is a reason to look.
        case wait(Duration)
        /// Nothing more is claimed. If the row may exist, delete it.
        case end(hasRow: Bool)
    }

    private enum Phase {
        /// Nothing is under way, and the next step is a look.
        case awake
        case looking(LookPlan.Look, begun: ContinuousClock.Instant)
        /// A look has found this, and a claim may follow.
        case planned(ClaimPlan, Wakefulness.Found)
        case claiming(Wakefulness.Found)
        /// The worker looks again when it has rested.
        case resting(Wakefulness.Found)
        case writingRow
        case waiting(Duration)
        case ended
    }

    private let idleLook: Duration
    private var phase = Phase.awake
    private var wakefulness: Wakefulness
    private var plan: LookPlan
    /// A producer has notified this worker since the last look began.
    private var isNotified = false
    /// The row that makes producers notify this worker may be gone.
    private var isRowInDoubt = false
    /// The row may exist: it was requested, with or without an answer, and not deleted since.
    private var mayHaveRow = false
    private(set) var isStopping = false

    /// - Parameters:
    ///   - busyLook: how often a busy worker looks.
    ///   - idleLook: the longest time between two looks of an idle worker.
    ///   - maximumLanes: see ``LookPlan/maximumLanes``.
    init(busyLook: Duration, idleLook: Duration, maximumLanes: Int32 = LookPlan.maximumLanes) {
        self.idleLook = idleLook
        plan = LookPlan(maximumLanes: maximumLanes)
        wakefulness = Wakefulness(busyLook: busyLook, idleLook: idleLook)
    }

    /// The campaigns that have jobs to be made, see ``LookPlan/campaigns``.
    var campaigns: [ReadyWork.FanOut] { plan.campaigns }

    /// Whether intake has ended: no claim is under way, and none follows.
    var hasEnded: Bool { if case .ended = phase { true } else { false } }

    // MARK: What comes at any time

    /// A producer says that there is work.
    mutating func noteNotified() { isNotified = true }

    /// PostgreSQL was out of reach, or nobody listened. Producers may not know that this worker sleeps, and it may have
    /// missed a notification.
    mutating func noteRowInDoubt() { isRowInDoubt = true }

    /// Claims nothing more.
    mutating func stop() { isStopping = true }

    // MARK: Steps

    /// The next step. The one before has to be through.
    mutating func next(at now: ContinuousClock.Instant) -> Step {
        if isStopping, isBetweenSteps {
            phase = .ended
            return .end(hasRow: mayHaveRow)
        }
        switch phase {
        case .awake: return look(at: now)
        case .planned(let claim, let found):
            guard !claim.quotas.isEmpty else { return rest(found, at: now) }
            phase = .claiming(found)
            return .claim(claim.quotas)
        case .resting(let found): return rest(found, at: now)
        case .waiting(let pause):
            phase = .awake
            return .wait(pause)
        case .looking, .claiming, .writingRow, .ended: preconditionFailure("the step before is not through")
        }
    }

    private var isBetweenSteps: Bool {
        switch phase {
        case .awake, .planned, .resting, .waiting: true
        case .looking, .claiming, .writingRow, .ended: false
        }
    }

    private mutating func look(at now: ContinuousClock.Instant) -> Step {
        if isRowInDoubt { wakefulness.noteRowInDoubt() }
        isRowInDoubt = false
        if isNotified {
            isNotified = false
            let wasAsleep = wakefulness.noteNotified()
            // Also a row that was in doubt: as long as it is there, each commit notifies.
            if wasAsleep || mayHaveRow {
                mayHaveRow = false
                return .takeRowAway
            }
        }
        let look = plan.next(at: now)
        phase = .looking(look, begun: now)
        return .look(look)
    }

    private mutating func rest(_ found: Wakefulness.Found, at now: ContinuousClock.Instant) -> Step {
        switch wakefulness.next(after: found, now: now) {
        case .fallAsleep:
            phase = .writingRow
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

    // MARK: What came of a step

    /// A look has found work, or none.
    /// - Parameters:
    ///   - lanes: the lanes of `work` whose queues this worker serves, in their order.
    ///   - needsFanOut: whether a campaign has to make jobs now.
    mutating func noteFound(
        _ work: ReadyWork, lanes: [ClaimPlan.Candidate], worker: ClaimPlan.Worker, needsFanOut: Bool,
        now: ContinuousClock.Instant
    ) {
        guard case .looking(let look, let begun) = phase else { preconditionFailure("there was no look") }
        plan.note(work, of: look, begun: begun, now: now)
        let claim = ClaimPlan(for: lanes, from: plan.place, maximumLanes: plan.maximumLanes, worker: worker)
        plan.noteClaim(isEmpty: claim.quotas.isEmpty, lastServed: claim.lastServed, end: work.end)
        var found = Wakefulness.Found(hasWork: needsFanOut, lookTime: begun.duration(to: now))
        found.isPartial = work.end != nil
        found.isHolding = worker.leases > 0
        for dueIn in lanes.map(\.dueIn) + work.fanOuts.map(\.dueIn) where dueIn > .zero {
            found.nextDue = min(found.nextDue, dueIn)
        }
        phase = .planned(claim, found)
    }

    /// A claim has brought jobs of these lanes, one of each job.
    mutating func noteClaimed(_ lanes: [LanePlace]) {
        guard case .claiming(var found) = phase else { preconditionFailure("there was no claim") }
        for lane in lanes { plan.noteClaimed(from: lane) }
        if !lanes.isEmpty { found.hasWork = true }
        phase = .resting(found)
    }

    /// A look or a claim has failed: it is tried again after a while.
    mutating func noteFailed() {
        switch phase {
        case .looking, .claiming: phase = .waiting(idleLook)
        default: preconditionFailure("there was neither a look nor a claim")
        }
    }

    /// Whether the row is there that makes producers notify this worker.
    mutating func noteRow(isWritten: Bool) {
        guard case .writingRow = phase else { preconditionFailure("there was no row to write") }
        if !isWritten { isRowInDoubt = true }
        phase = .awake
    }
}
