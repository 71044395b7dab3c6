import PostgresStore
import QueueCore
import Transport

/// Takes permits from the rate limits for queues that have somebody to send to, as ``PermitPlan`` decides: for all of them in one
/// statement.
///
/// Belongs to the engine's event loop.
final class PermitTaker {
    private let store: EngineStore
    private let dispatcher: Dispatcher
    private let signal: Signal
    private let plan: PermitPlan
    private var isStopping = false

    init(_ context: EngineContext, dispatcher: Dispatcher) {
        store = context.stores.claims
        plan = PermitPlan(horizon: context.settings.permitHorizon)
        self.dispatcher = dispatcher
        signal = context.lacksPermits
    }

    func stop() {
        isStopping = true
        signal.raise()
    }

    /// Takes permits whenever they are short, until ``stop()``.
    func run() async {
        while !isStopping {
            let queues = dispatcher.active.lazy.filter(\.mayWork).compactMap(PermitPlan.Queue.init)
            switch plan.next(queues, now: .now) {
            case .wait(let pause): await signal.wait(atMost: pause)
            case .take(let requests): await take(requests)
            }
        }
    }

    private func take(_ requests: [PermitPlan.Request]) async {
        let asked = dispatcher.active.reduce(into: [Int32: QueueState]()) { $0[$1.id] = $1 }
        let wanted = requests.map { (queueID: $0.queueID, permits: $0.permits) }
        let granted = await store.attempt { try await $0.takePermits(wanted, horizon: plan.horizon) }
        let now = ContinuousClock.now
        for request in requests {
            asked[request.queueID]?.nextTake = plan.nextTake(afterNoGrant: granted != nil, now: now)
        }
        for row in granted ?? [] {
            guard let queue = asked[row.queueID] else { continue }
            let grant = PermitPlan.Grant(count: row.count, startsIn: row.startsIn, rate: row.rate)
            if let run = plan.run(of: grant, now: now) { queue.permits.append(run) }
            queue.nextTake = plan.nextTake(after: grant, now: now)
        }
        dispatcher.schedule()
    }
}

extension PermitPlan.Queue {
    /// Nil for a queue without a rate limit.
    init?(_ queue: QueueState) {
        guard let rate = queue.settings.rate else { return nil }
        self.init(
            id: queue.id, unsent: queue.unsent, permits: queue.permitsLeft, rate: rate, nextTake: queue.nextTake)
    }
}
