import PostgresStore
import QueueCore
import Transport

/// Finds work and leases it: looks which queues have jobs, claims as much as each can send soon, has campaigns fan out before
/// their queues run dry, and sleeps on a notification when there is nothing to do.
///
/// Belongs to the engine's event loop.
final class Intake {
    /// Recipients of one queue and lane held ahead, at the least and at the most.
    private static let stock = 2_000...40_000
    /// Jobs of one queue and lane claimed by one statement, at the most.
    private static let mostJobs = 200
    /// Lanes that one look comes to and one claim takes from, at the most: where ten thousand queues have work, a look at all takes
    /// 50 ms and a claim from all seconds. Each look begins where the one before ended, so that all have their turn.
    private static let mostLanes: Int32 = 500
    /// Recipients that one claim brings, where many lanes share it; 2 µs each, and 60 bytes.
    private static let mostClaimed = 100_000
    /// Settings are read of queues whose work is due so soon: of ten thousand with something for tomorrow nobody has to know them today.
    private static let soon = Duration.seconds(10)
    /// Jobs of a campaign made by one step: 20,000 recipients.
    private static let jobsOfStep = 40
    /// Devices looked at by one step.
    private static let devicesOfStep = 50_000
    /// Ready jobs of a queue that are counted, and the most that fan-out keeps ahead.
    private static let mostReadyJobs: Int32 = 400

    private let loop: EventLoop
    private let store: EngineStore
    private let fanOutStore: EngineStore
    private let settings: EngineSettings
    private let owner: Int64
    private let jobs: HeldJobs
    private let queues: Queues
    private let dispatcher: Dispatcher
    private let settler: Settler
    private let audit: LeaseAudit

    private let signal: Signal
    private let fanOutSignal: Signal
    /// A claim may be under way.
    private(set) var isRunning = true
    private var isStopping = false
    private var wakefulness: Wakefulness
    /// A producer has notified this worker since the last look.
    private var isNotified = false
    /// The row that has producers notify may be gone.
    private var isRowInDoubt = false
    private var openFanOuts: [ReadyWork.FanOut] = []
    /// Where looks begin, and the campaigns that the last look at everything found.
    private var floors = LaneFloors()
    private var knownFanOuts: [ReadyWork.FanOut] = []
    /// Where the next look begins.
    private var place = LanePlace.start
    /// The next look comes to all lanes. So it is while there is nothing to claim: many lanes of which nothing is due yet are looked at
    /// by one statement, and this worker may rest.
    private var looksAtAll = false

    init(
        _ context: EngineContext, jobs: HeldJobs, queues: Queues, dispatcher: Dispatcher, settler: Settler,
        audit: LeaseAudit
    ) {
        loop = context.loop
        store = context.stores.claims
        fanOutStore = context.stores.fanOut
        settings = context.settings
        owner = context.owner
        self.jobs = jobs
        self.queues = queues
        self.dispatcher = dispatcher
        self.settler = settler
        self.audit = audit
        wakefulness = Wakefulness(busyLook: settings.busyLook, idleLook: settings.idleLook)
        signal = context.mayHaveWork
        fanOutSignal = Signal(loop: context.loop)
    }

    /// A producer says that there is work.
    func noteNotification() {
        isNotified = true
        signal.raise()
    }

    /// PostgreSQL was out of reach, or nobody listened: producers may not know that this worker sleeps, nor it what they said.
    func noteInterruption() {
        isRowInDoubt = true
        signal.raise()
    }

    /// Claims nothing more.
    func stop() {
        isStopping = true
        signal.raise()
        fanOutSignal.raise()
    }

    // MARK: Claiming

    /// Looks, claims and sleeps until ``stop()``.
    func run() async {
        while !isStopping {
            if isRowInDoubt { wakefulness.noteRowInDoubt() }
            if isNotified, wakefulness.noteNotified() { sendWakeUp() }
            (isRowInDoubt, isNotified) = (false, false)
            do {
                await rest(try await look())
            } catch {
                store.note(error)
                await signal.wait(atMost: settings.idleLook)
            }
        }
        if wakefulness.isAsleep { await store.attempt { try await $0.wakeUp(owner) } }
        isRunning = false
    }

    private func look() async throws(PostgresError) -> Wakefulness.Found {
        queues.measureRates()
        let begun = ContinuousClock.now
        let work = try await readyWork(begun)
        var found = Wakefulness.Found(lookTime: begun.duration(to: .now), isPartial: work.end != nil)
        let waiting = work.jobs.map { ($0.queueID, $0.dueIn) } + work.fanOuts.map { ($0.queueID, $0.dueIn) }
        try await queues.learn(Set(waiting.filter { $0.1 <= Self.soon }.map(\.0)))
        let quotas = share(of: quotas(for: work, found: &found), end: work.end)
        looksAtAll = quotas.isEmpty && (looksAtAll || found.isPartial)
        openFanOuts = work.fanOuts.filter { $0.dueIn <= .zero && needsFanOut($0) }
        for fanOut in work.fanOuts where fanOut.dueIn > .zero { found.nextDue = min(found.nextDue, fanOut.dueIn) }
        if !openFanOuts.isEmpty {
            found.hasWork = true
            fanOutSignal.raise()
        }
        guard !quotas.isEmpty, !isStopping else { return found }
        if try await claim(quotas) > 0 { found.hasWork = true }
        return found
    }

    /// Looks at everything, or from where the lanes were empty a moment ago.
    private func readyWork(_ begun: ContinuousClock.Instant) async throws(PostgresError) -> ReadyWork {
        guard floors.isWholeLookDue(at: begun) else {
            let work = try await store.connection().ready(
                above: floors.floors, countingTo: Self.mostReadyJobs, known: knownFanOuts)
            floors.noteLook(work.jobs.map(\.head), now: .now)
            return work
        }
        let work = try await store.connection().ready(
            after: place, pairs: looksAtAll ? .max : Self.mostLanes, countingTo: Self.mostReadyJobs)
        // One that did not come to all of them is bounded already, and floors would be of a part.
        let time = work.end == nil ? begun.duration(to: .now) : .zero
        floors.noteWholeLook(work.jobs.map(\.head), took: time, now: begun)
        knownFanOuts = work.fanOuts
        return work
    }

    /// How many jobs to claim of which lanes: so many that each queue holds what it can send soon, and all together no more than can
    /// be renewed in time.
    private func quotas(for work: ReadyWork, found: inout Wakefulness.Found) -> [ClaimQuota] {
        for queue in dispatcher.active { queue.hasMoreWaiting = false }
        let isFull = dispatcher.active.reduce(0) { $0 + $1.unsent } >= settings.mostHeld * 4
        let part = Self.mostClaimed / max(1, work.jobs.count)
        let heaviest = work.jobs.reduce(0.001) { max($0, queues[$1.queueID]?.turn.weight ?? 0) }
        var freeLeases = settler.maximumLeases - jobs.count
        let now = ContinuousClock.now
        var quotas: [ClaimQuota] = []
        for lane in work.jobs {
            guard lane.dueIn <= .zero else {
                found.nextDue = min(found.nextDue, lane.dueIn)
                continue
            }
            guard let queue = queues[lane.queueID], queue.mayWork, queue.canReachAPNs(now: now) else { continue }
            queue.hasMoreWaiting = true
            queue.lowWater = target(of: queue) / 2
            // Held by thousands of queues that wait for a connection: further ones wait in the database, until some are through.
            if isFull, lane.lane != .urgent, !queue.isConnected { continue }
            let missing = Double(min(target(of: queue) - queue.unsent(in: lane.lane), part))
            let leases = SharedRoom.more(
                having: queue.heldJobs, free: freeLeases, weight: queue.turn.weight, heaviest: heaviest)
            guard missing > 0, leases > 0 else { continue }
            let wanted = max(1, Int(missing / max(queue.jobSize[Int(lane.lane.rawValue)], 1)))
            let count = min(wanted, Self.mostJobs, leases)
            freeLeases -= count
            quotas.append(ClaimQuota(queueID: queue.id, lane: lane.lane, jobs: Int32(count), head: lane.head))
        }
        return quotas
    }

    /// As many as one claim may have. The next look begins behind them.
    private func share(of quotas: [ClaimQuota], end: LanePlace?) -> [ClaimQuota] {
        let share = quotas.prefix(Int(Self.mostLanes))
        let last = share.count < quotas.count ? share.last : nil
        place = last.map { LanePlace($0.queueID, $0.lane) } ?? end ?? .start
        return Array(share)
    }

    /// Recipients of a lane to hold: what the queue sends in half a second, or its rate allows in one, but no more than its part of
    /// what all may hold.
    private func target(of queue: QueueState) -> Int {
        let part = min(max(1, settings.mostHeld / max(1, dispatcher.active.count)), queue.stock(now: .now))
        if let rate = queue.settings.rate { return max(1, min(Int(rate), Self.stock.upperBound, part)) }
        return min(max(Int(queue.sendRate / 2), Self.stock.lowerBound), Self.stock.upperBound, part)
    }

    private func claim(_ quotas: [ClaimQuota]) async throws(PostgresError) -> Int {
        let sentAt = ContinuousClock.now
        audit.claimBegins()
        do throws(PostgresError) {
            let claimed = try await store.connection().claim(
                quotas, owner: owner, lease: settings.lease, atMostOnceWindow: settings.atMostOnceWindow)
            for claim in claimed {
                floors.noteClaim(of: 1, from: LanePlace(claim.key.queueID, claim.lane))
                if !claim.awaitsRecipients { start(claim, claimedAt: sentAt) }
            }
            audit.claimEnds(isAnswered: true)
            await findRecipients(of: claimed.filter(\.awaitsRecipients).map(\.key))
            return claimed.count
        } catch {
            audit.claimEnds(isAnswered: false)
            throw error
        }
    }

    /// Has jobs that were made before their recipients were known come back for these. What fails is left to the audit, as leases that
    /// nobody knows of.
    private func findRecipients(of keys: [LeaseKey]) async {
        guard !keys.isEmpty else { return }
        let isDone: Void? = await store.attempt { try await $0.findRecipients(of: keys, owner: owner) }
        if isDone == nil { audit.hurry() } else { signal.raise() }
    }

    /// Lets a job be sent, or ends it where it may not be.
    private func start(_ claim: ClaimedJob, claimedAt: ContinuousClock.Instant) {
        guard let queue = queues[claim.key.queueID] else { return }
        queue.noteSize(of: claim)
        let job = jobs.insert { slot in
            HeldJob(
                claim, of: queue, slot: slot, claimedAt: claimedAt, now: .now, window: settings.atMostOnceWindow)
        }
        if let damage = claim.damage {
            settler.reportQuarantine(of: job, because: damage)
            return settler.take(job)
        }
        if claim.isStopped { return settler.close(job, .cancelled) }
        if claim.sendWithin <= .zero { return settler.close(job, .expired) }
        RescuedJobRules.apply(to: job)
        if job.waiting == 0 { return settler.take(job) }
        if claim.isPaused { return settler.close(job, .yielded(after: Settlement.pausedDelay)) }
        if isStopping || !queue.mayWork { return settler.close(job, .yielded(after: .zero)) }
        if let delay = queue.delay(of: job, now: .now) { return settler.close(job, .yielded(after: delay)) }
        dispatcher.add(job)
    }

    // MARK: Resting

    /// Waits until there may be work again.
    private func rest(_ found: Wakefulness.Found) async {
        var found = found
        found.isHolding = jobs.count > 0
        switch wakefulness.next(after: found, now: .now) {
        case .fallAsleep:
            let isWritten: Void? = await store.attempt { try await $0.fallAsleep(owner, serving: settings.queues) }
            if isWritten == nil { isRowInDoubt = true }
        case .wakeUp(let pause):
            sendWakeUp()
            await signal.wait(atMost: pause)
        case .wait(let pause): await signal.wait(atMost: pause)
        }
    }

    /// Has the row taken away that makes producers notify. What is asked next need not wait for it: it travels before it.
    private func sendWakeUp() {
        loop.startTask { [self] in await store.attempt { try await $0.wakeUp(owner) } }
    }

    // MARK: Fan-out

    /// Makes jobs of campaigns whose queues run dry, until ``stop()``. On a connection of its own: a step takes some 25 ms.
    func runFanOut() async {
        while !isStopping {
            await fanOutSignal.wait(atMost: settings.idleLook)
            for fanOut in openFanOuts where !isStopping { await step(fanOut) }
            openFanOuts = []
        }
    }

    private func step(_ fanOut: ReadyWork.FanOut) async {
        let made = await fanOutStore.attempt {
            try await $0.fanOutStep(
                queueID: fanOut.queueID, jobLimit: Self.jobsOfStep, scanLimit: Self.devicesOfStep)
        }
        if let made, made ?? 0 > 0 { signal.raise() }
    }

    /// Whether a queue's ready jobs last for less than two seconds of what the fleet sends.
    private func needsFanOut(_ fanOut: ReadyWork.FanOut) -> Bool {
        guard let queue = queues[fanOut.queueID], queue.mayWork else { return false }
        let jobsOfTwoSeconds = Int(queue.sendRate * 2 / max(queue.jobSize[Int(Lane.bulk.rawValue)], 1))
        // A paced queue's jobs are of two seconds each.
        let lowWater = queue.settings.rate == nil ? min(max(jobsOfTwoSeconds, 80), Int(Self.mostReadyJobs)) : 4
        return fanOut.readyJobs < lowWater
    }
}
