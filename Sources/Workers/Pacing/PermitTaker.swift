import PostgresStore
import QueueCore
import Transport

/// Takes the permits of all queues that have recipients to send to and a rate limit, in one statement. ``PermitPlan``
/// decides how many, and when.
///
/// Belongs to the engine's event loop.
final class PermitTaker {
    private let store: RetryingConnection
    private let delays: AnswerDelays
    private let dispatcher: Dispatcher
    private let signal: Signal
    /// Raised only by ``stop()``.
    private let stopping: Signal
    private let plan: PermitPlan
    private var clock: DatabaseClock
    private var isStopping = false

    init(_ context: EngineContext, dispatcher: Dispatcher) {
        store = context.postgres.claims
        delays = context.delays
        plan = PermitPlan(horizon: context.settings.permitHorizon)
        clock = DatabaseClock(now: .now)
        self.dispatcher = dispatcher
        signal = context.lacksPermits
        stopping = Signal(loop: context.loop)
    }

    func stop() {
        isStopping = true
        signal.raise()
        stopping.raise()
    }

    /// Takes permits whenever there are too few, until ``stop()``.
    func run() async {
        while !isStopping {
            let limited = dispatcher.active.filter { $0.mayWork && $0.isPaced }
            let lines = Self.lines(of: limited, now: .now)
            // What the permits were for may have been sent by another worker, or cancelled.
            if lines.allSatisfy({ $0.unsent <= $0.permits }) { delays.permits.noteAnswered() }
            switch plan.next(lines, now: .now) {
            case .wait(let pause): await signal.wait(atMost: pause)
            // Permits that are taken now might be void, and nobody else could use them.
            case .take where !clock.tells(within: PermitPlan.widestUncertainty): await measureClock()
            case .take(let requests): await take(requests, for: limited)
            }
            let rest = plan.rest(afterLookingAt: lines.count)
            if rest > .zero { await stopping.wait(atMost: rest) }
        }
    }

    /// The lines of these queues: one for each campaign and queue with a limit of its own, and one for the other queues
    /// of each tenant.
    private static func lines(of queues: [QueueState], now: ContinuousClock.Instant) -> [PermitPlan.Line] {
        var ofTenants: [Int32: PermitPlan.Line] = [:]
        var lines: [PermitPlan.Line] = []
        for queue in queues {
            let ofQueue = queue.maximumRate
            let outlet = queue.isConnected ? queue.outlet(now: now) : 0
            for campaign in queue.campaigns.paced {
                let rate = campaign.limit.rate ?? 1
                lines.append(
                    PermitPlan.Line(
                        owner: queue.permitOwner(of: campaign), unsent: min(campaign.jobs.unsent, outlet),
                        permits: campaign.limit.permitsLeft, rate: min(rate, ofQueue ?? rate),
                        weight: queue.turn.weight, nextTake: campaign.limit.nextTake))
            }
            guard let rate = ofQueue else { continue }
            let demand = queue.demandForPermits(now: now)
            let line = PermitPlan.Line(
                owner: queue.permitOwner, unsent: demand, permits: queue.permits.permitsLeft, rate: rate,
                weight: queue.turn.weight, nextTake: queue.permits.nextTake)
            if queue.limit.rate != nil {
                lines.append(line)
            } else if demand > 0 {
                let known = ofTenants[line.owner.tenantID]
                ofTenants[line.owner.tenantID, default: line].unsent = demand + (known?.unsent ?? 0)
                ofTenants[line.owner.tenantID]!.weight = line.weight + (known?.weight ?? 0)
            }
        }
        return lines + ofTenants.values
    }

    /// Asks PostgreSQL for its time alone. Near PostgreSQL, one such statement is nearly always enough: those that take
    /// permits tell the time as well.
    private func measureClock() async {
        let answer = await store.attempt(\.permits, of: delays) { connection in
            let asked = ContinuousClock.now
            return (asked: asked, moment: try await connection.clock())
        }
        guard let answer else {
            await stopping.wait(atMost: plan.horizon / 2)
            return
        }
        _ = clock.note(answer.moment, askedAt: answer.asked, answeredAt: .now)
    }

    private func take(_ requests: [PermitRequest], for queues: [QueueState]) async {
        let answer = await store.attempt(\.permits, of: delays) { connection in
            let asked = ContinuousClock.now
            return (asked: asked, granted: try await connection.takePermits(requests, horizon: plan.horizon))
        }
        let now = ContinuousClock.now
        let isAnswered = answer != nil
        let moment = answer.flatMap { answer in
            answer.granted.first.map { clock.note($0.grantedAt, askedAt: answer.asked, answeredAt: now) }
        }
        let grants = Dictionary(uniqueKeysWithValues: (answer?.granted ?? []).map { ($0.owner, $0) })
        let holders = Dictionary(queues.map { ($0.permitOwner, $0) }) { first, _ in first }
        // Only a few of thousands of campaigns request permits at a time.
        let requested = Set(requests.map(\.owner))
        var isServed: Set<Int32> = []
        for queue in queues {
            // The queue's limits may have been changed or lifted meanwhile.
            for campaign in queue.campaigns.paced {
                let owner = queue.permitOwner(of: campaign)
                guard requested.contains(owner) else { continue }
                take(grants[owner], at: moment, for: &campaign.limit, isAnswered: isAnswered, now: now)
                guard grants[owner] != nil else { continue }
                queue.campaigns.wake(campaign)
                isServed.insert(queue.id)
            }
        }
        for request in requests {
            guard let holder = holders[request.owner] else { continue }
            take(grants[request.owner], at: moment, for: &holder.permits, isAnswered: isAnswered, now: now)
        }
        dispatcher.permitsChanged(
            of: queues.lazy.filter { isServed.contains($0.id) || grants[$0.permitOwner] != nil })
    }

    private func take(
        _ grant: GrantedPermits?, at moment: DatabaseClock.Moment?, for limit: inout RateLimit, isAnswered: Bool,
        now: ContinuousClock.Instant
    ) {
        guard let grant, let moment else {
            limit.nextTake = plan.nextTake(afterNoGrant: isAnswered, now: now)
            return
        }
        guard grant.rate != nil else { return limit.change(to: nil, now: now) }
        if let run = plan.run(of: grant, at: moment) { limit.add(run) } else { limit.noteVoid(grant.count) }
        limit.nextTake = plan.nextTake(after: grant, now: now)
    }
}
