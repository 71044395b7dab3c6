import PostgresStore
import QueueCore
import Transport

/// Finds work and leases it. ``IntakeState`` decides when, and how much.
///
/// Belongs to the engine's event loop.
final class Intake {
    /// The time within which work must be due for the settings of its queue to be read. If ten thousand queues have
    /// work for tomorrow, their settings are not needed today.
    private static let soon = Duration.seconds(10)

    private let loop: EventLoop
    private let store: RetryingConnection
    private let leases: RetryingConnection
    private let settings: EngineSettings
    private let workerID: Int64
    private let jobs: HeldJobs
    private let queues: Queues
    private let gateways: Gateways
    private let dispatcher: Dispatcher
    private let settler: Settler
    private let audit: LeaseAudit
    private let fanOut: FanOut
    private let figures: EngineFigures
    private let delays: AnswerDelays
    private let signal: Signal
    private let stopSignal: Signal
    private let drainProgress: Signal
    private var state: IntakeState
    private var kept = KeptRecipients()

    init(
        _ context: EngineContext, jobs: HeldJobs, queues: Queues, gateways: Gateways, dispatcher: Dispatcher,
        settler: Settler, audit: LeaseAudit, fanOut: FanOut
    ) {
        loop = context.loop
        store = context.postgres.claims
        leases = context.postgres.leases
        settings = context.settings
        workerID = context.workerID
        self.jobs = jobs
        self.queues = queues
        self.gateways = gateways
        self.dispatcher = dispatcher
        self.settler = settler
        self.audit = audit
        self.fanOut = fanOut
        figures = context.figures
        delays = context.delays
        signal = context.mayHaveWork
        stopSignal = Signal(loop: context.loop)
        drainProgress = context.drainProgress
        state = IntakeState(busyPoll: settings.busyPoll, idlePoll: settings.idlePoll)
    }

    /// Whether a claim may be under way or follow.
    var isRunning: Bool { !state.hasEnded }

    /// Notes that a producer has notified this worker of work.
    func noteNotification() {
        state.noteNotified()
        signal.raise()
    }

    /// Notes that PostgreSQL was out of reach, or that this worker did not listen: see
    /// ``IntakeState/noteRowInDoubt()``.
    func noteInterruption() {
        state.noteRowInDoubt()
        signal.raise()
    }

    /// Claims nothing more, and ends ``run()``.
    func stop() {
        state.stop()
        signal.raise()
        stopSignal.raise()
    }

    /// Polls, claims and sleeps until ``stop()``.
    func run() async {
        while !state.hasEnded {
            switch state.next(at: .now, isLow: { queues[$0.queueID]?.isLow(in: $0.lane) ?? false }) {
            case .takeRowAway: takeRowAway()
            case .poll(let poll):
                await carryOut(\.polls) { () throws(PostgresError) in try await self.poll(poll) }
            case .presume(let lanes): presume(lanes)
            case .claim(let quotas):
                await carryOut(\.claims) { () throws(PostgresError) in try await self.claim(quotas) }
            case .fallAsleep:
                let begun = ContinuousClock.now
                let isWritten: Void? = await store.attempt {
                    try await $0.fallAsleep(workerID, serving: settings.queues)
                }
                let now = ContinuousClock.now
                state.noteRow(isWritten: isWritten != nil, took: begun.duration(to: now), now: now)
            case .wait(let pause): await signal.wait(atMost: pause)
            case .rest(let pause): await stopSignal.wait(atMost: pause)
            case .end(let hasRow):
                drainProgress.raise()
                if hasRow { await store.attempt { try await $0.wakeUp(workerID) } }
            }
        }
    }

    private func carryOut(
        _ delay: ReferenceWritableKeyPath<AnswerDelays, AnswerDelay>, line: UInt = #line,
        _ step: () async throws(PostgresError) -> Void
    ) async {
        let call = RetryingConnection.Call(file: #fileID, line: line)
        delays[keyPath: delay].noteAsked()
        do throws(PostgresError) {
            try await step()
            delays[keyPath: delay].noteAnswered()
            store.noteAccepted(call)
        } catch {
            delays[keyPath: delay].noteFailed(error)
            store.note(error, call)
            state.noteFailed()
        }
    }

    /// Deletes the row. The next statement need not wait for that, because it follows on the same connection.
    private func takeRowAway() {
        loop.startTask { [self] in await store.attempt { try await $0.wakeUp(workerID) } }
    }

    // MARK: Polling

    private func poll(_ poll: PollPlan.Poll) async throws(PostgresError) {
        queues.measureRates()
        let connection = try await store.connection()
        let begun = ContinuousClock.now
        let limit = poll.coversCampaigns ? Int32(FanOutPlan.maximumReadyJobs) : nil
        let work: ReadyWork
        switch poll {
        case .lanes(let place, let count, _):
            work = try await connection.ready(after: place, pairs: count, countingTo: limit)
        case .floors(let floors, _):
            work = try await connection.ready(above: floors, countingTo: limit, known: state.campaigns)
        case .within(let ranges, let own, let count):
            work = try await connection.ready(within: ranges, own: own, pairs: count)
        }
        let found = ContinuousClock.now
        figures.counts.note(.poll, took: begun.duration(to: found))
        let waiting = work.jobs.map { ($0.queueID, $0.dueIn) } + work.fanOuts.map { ($0.queueID, $0.dueIn) }
        try await queues.learn(Set(waiting.filter { $0.1 <= Self.soon }.map(\.0)), forClaim: false)
        for lane in work.ownLanes { queues[lane.place.queueID]?.campaigns.learn(lane, now: found) }
        let worker = worker()
        let lanes = candidates(in: work, of: worker, poll)
        if poll.showsNothingToClaim(work, lanes: lanes) { delays.claims.noteAnswered() }
        state.noteFound(
            work, lanes: lanes, worker: worker, needsFanOut: work.coversCampaigns && fanOut.note(work.fanOuts),
            now: found)
    }

    /// Plans claims from these lanes without a poll.
    private func presume(_ lanes: [LanePlace]) {
        let now = ContinuousClock.now
        let candidates = lanes.compactMap { lane in
            queues[lane.queueID].map { ClaimPlan.Candidate(lane, of: $0, now: now) }
        }
        state.notePresumed(candidates, worker: worker())
    }

    private func worker() -> ClaimPlan.Worker {
        var tenants: [Int32: ClaimPlan.Tenant] = [:]
        for queue in dispatcher.active { tenants[queue.settings.tenantID, default: .init()].add(queue) }
        return ClaimPlan.Worker(
            unsent: dispatcher.active.reduce(0) { $0 + $1.unsent }, maximumHeld: settings.maximumHeld,
            leases: jobs.count,
            maximumLeases: settler.maximumLeases, connections: gateways.connectionLimit, tenants: tenants)
    }

    /// The lanes that may be claimed from, now or later. Tells their queues how low their stock may get before the next
    /// poll.
    private func candidates(
        in work: ReadyWork, of worker: ClaimPlan.Worker, _ poll: PollPlan.Poll
    ) -> [ClaimPlan.Candidate] {
        let now = ContinuousClock.now
        if case .within(let ranges, _, _) = poll {
            let found = Set(work.jobs.map(\.queueID))
            for queue in dispatcher.active {
                queue.forgetStock(before: found, within: ranges, coversAll: work.end == nil)
            }
        } else {
            for queue in dispatcher.active { queue.forgetStock() }
        }
        return work.jobs.compactMap { lane in
            guard let queue = queues[lane.queueID] else { return nil }
            let candidate = ClaimPlan.Candidate(lane.head.place, lane.head, dueIn: lane.dueIn, of: queue, now: now)
            if candidate.mayClaim, lane.dueIn <= .zero {
                queue.noteWaiting(in: lane.lane, lowWater: ClaimPlan.target(for: candidate, of: worker) / 2)
            }
            return candidate
        }
    }

    // MARK: Claiming

    private func claim(_ quotas: [ClaimQuota]) async throws(PostgresError) {
        // An end may have been refused since the claim was planned.
        guard settler.prevention == nil else { return state.noteClaimed([], now: .now) }
        // While the claim is under way, and after it has emptied the lanes, what it takes is no reason to poll again at
        // once: each push of a stream would be claimed by itself.
        for quota in quotas { queues[quota.queueID]?.forgetStock(in: quota.lane) }
        // Outcomes of pushes must be recorded; otherwise other workers would send the pushes again.
        _ = try await leases.connection()
        try await queues.learn(Set(quotas.map(\.queueID)), forClaim: true)
        let sentAt = ContinuousClock.now
        audit.claimBegins()
        do throws(PostgresError) {
            let connection = try await store.connection()
            let begun = ContinuousClock.now
            let claimed = try await connection.claim(
                quotas, workerID: workerID, lease: settings.lease, atMostOnceWindow: settings.atMostOnceWindow,
                translationRoom: jobs.translations.room(within: settings.maximumTranslations),
                tenantRoom: { quota in translationRoom(for: quota) })
            figures.counts.note(.claim, took: begun.duration(to: .now))
            figures.counts.jobsClaimed += claimed.count
            noteMoreWaiting(behind: claimed, of: quotas)
            var asked: [ClaimedJob] = []
            let known = try await connection.withSuccessors(
                claimed.filter { !$0.awaitsRecipients }, workerID: workerID)
            for var claim in known {
                if let settings = queues[claim.key.queueID]?.settings,
                    PreSendChecks.noteQuestions(of: settings, about: &claim)
                {
                    asked.append(claim)
                } else {
                    start(claim, claimedAt: sentAt)
                }
            }
            try await askBeforeSending(asked, claimedAt: sentAt, over: connection)
            audit.claimEnds(isAnswered: true)
            await findRecipients(of: claimed.filter(\.awaitsRecipients).map(\.key))
            state.noteClaimed(claimed.map { LanePlace($0.key.queueID, $0.lane) }, now: .now)
        } catch {
            audit.claimEnds(isAnswered: false)
            throw error
        }
    }

    /// The room that the translations of a lane's tenant have here at this moment.
    private func translationRoom(for quota: ClaimQuota) -> Int {
        let tenantID = queues[quota.queueID]?.settings.tenantID ?? 0
        return jobs.translations.room(of: tenantID, within: settings.maximumTranslations)
    }

    /// Notes in which lanes more jobs may wait: those of which a claim has brought as many as it might. If it has
    /// brought translations, it may have left others in any lane for want of room.
    private func noteMoreWaiting(behind claimed: [ClaimedJob], of quotas: [ClaimQuota]) {
        let mayLackRoom = claimed.contains { ($0.personal?.message.translationBytes ?? 0) > 0 }
        var counts: [LanePlace: Int] = [:]
        // Most claims are of one lane.
        if quotas.count > 1 {
            for job in claimed { counts[LanePlace(job.key.queueID, job.lane), default: 0] += 1 }
        }
        for quota in quotas {
            let place = LanePlace(quota.queueID, quota.lane)
            let count = quotas.count > 1 ? counts[place, default: 0] : claimed.count
            if mayLackRoom || count >= quota.jobs { queues[quota.queueID]?.noteMoreWaiting(in: quota.lane) }
        }
    }

    /// Asks PostgreSQL the noted questions about jobs, in parts, and starts each part as soon as it has its answers.
    private func askBeforeSending(
        _ claims: [ClaimedJob], claimedAt: ContinuousClock.Instant, over connection: PostgresConnection
    ) async throws(PostgresError) {
        let tenant = { (claim: ClaimedJob) in self.queues[claim.key.queueID]?.settings.tenantID ?? 0 }
        let groups = kept.groups(of: claims, tenant: tenant, now: .now)
        let patience = KeptRecipients.patience(amongGroups: groups.count)
        for part in groups.flatMap(PreSendChecks.parts) {
            // A recipient in quiet hours takes no place under a cap.
            let awake = try await connection.heldToQuietHours(part, workerID: workerID)
            let allowed = try await connection.heldToCaps(awake, workerID: workerID, patience: patience)
            let counted = try await connection.takingBadges(allowed, workerID: workerID, patience: patience)
            for var claim in counted {
                kept.note(&claim, of: tenant(claim), now: .now)
                start(claim, claimedAt: claimedAt)
            }
        }
    }

    /// Makes PostgreSQL find the recipients of jobs that were created without them. The jobs come back with their
    /// recipients. If that fails, the audit gives back the leases.
    private func findRecipients(of keys: [LeaseKey]) async {
        guard !keys.isEmpty else { return }
        let isDone: Void? = await store.attempt { try await $0.findRecipients(of: keys, workerID: workerID) }
        if isDone == nil { audit.wake() } else { signal.raise() }
    }

    /// Passes a job to the dispatcher, or ends it if it must not be sent.
    private func start(_ claim: ClaimedJob, claimedAt: ContinuousClock.Instant) {
        guard let queue = queues[claim.key.queueID] else { return }
        queue.noteSize(of: claim)
        let job = jobs.insert(of: queue) { slot in
            HeldJob(
                claim, slot: slot, claimedAt: claimedAt, heldSince: .now, window: settings.atMostOnceWindow,
                maximumPayloadBytes: queue.maximumPayloadBytes(of: claim.message))
        }
        let circumstances = ClaimedJobRules.Circumstances(
            maySend: !state.isStopping && queue.mayWork && queue.knows(claim.lane),
            delay: queue.delay(of: job, now: .now))
        switch ClaimedJobRules.decide(over: job, circumstances) {
        case .send:
            for older in queue.updates.replaced(by: job) { settler.close(older, .yielded(after: .zero)) }
            dispatcher.add(job, of: queue)
        case .end: settler.take(job)
        case .close(let reason): settler.close(job, reason)
        case .quarantine(let damage):
            settler.reportQuarantine(of: job, in: queue, because: damage)
            settler.take(job)
        }
    }
}

extension PollPlan.Poll {
    /// Whether what this poll found shows that nothing is left that this worker may claim now. What it was to claim,
    /// another worker may have claimed, or its queue was paused meanwhile. Only a poll of all lanes shows that.
    /// - Parameter lanes: the lanes of `work` whose queues this worker serves.
    func showsNothingToClaim(_ work: ReadyWork, lanes: [ClaimPlan.Candidate]) -> Bool {
        isOfRound && work.end == nil && !lanes.contains { $0.mayClaim && $0.dueIn <= .zero }
    }
}

extension QueueState {
    /// Whether a campaign's own lane could soon send more than it holds: it holds less than half of what is claimed for
    /// it.
    func isLow(in lane: Lane) -> Bool {
        guard mayWork, let campaign = campaigns[lane] else { return false }
        let (unsent, most) = (campaign.jobs.unsent, Double(ClaimPlan.stock.upperBound))
        let rate = campaign.limit.rate == nil ? most : maximumRate(of: lane) ?? most
        return unsent == 0 || Double(unsent * 2) < min(rate, most)
    }
}

extension ClaimPlan.Tenant {
    fileprivate mutating func add(_ queue: QueueState) {
        activeQueues += 1
        heldJobs += queue.heldJobs
        if !queue.isConnected { waitingQueues += 1 }
    }
}

extension ClaimPlan.Candidate {
    /// - Parameter head: the first job of the lane; nil: not known.
    init(
        _ place: LanePlace, _ head: LaneHead? = nil, dueIn: Duration = .zero, of queue: QueueState,
        now: ContinuousClock.Instant
    ) {
        let lane = place.lane
        self.init(
            tenantID: queue.settings.tenantID, place: place, head: head, dueIn: dueIn,
            mayClaim: queue.mayWork && queue.canReachAPNs(now: now), isConnected: queue.isConnected,
            tenantConnections: queue.settings.tenantConnections ?? .max,
            weight: queue.turn.weight, tenantWeight: queue.tenant.turn.weight,
            demand: .init(
                rate: queue.maximumRate(of: lane), sendRate: queue.sendRate, stock: queue.stock(now: now)),
            heldJobs: queue.heldJobs, unsent: queue.unsent(before: lane), jobSize: queue.jobSize(of: lane))
    }
}
