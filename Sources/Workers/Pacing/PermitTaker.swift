import PostgresStore
import QueueCore
import Transport

/// Takes permits from the rate limits of queues, and of tenants, that have somebody to send to, as ``PermitPlan`` decides: of all of them
/// at once.
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
            let limited = dispatcher.active.filter { $0.mayWork && $0.isPaced }
            switch plan.next(Self.limits(of: limited), now: .now) {
            case .wait(let pause): await signal.wait(atMost: pause)
            case .take(let requests): await take(requests, for: limited)
            }
        }
    }

    /// The limits of these queues and of their tenants.
    private static func limits(of queues: [QueueState]) -> [PermitPlan.Limit] {
        var ofTenants: [Int32: PermitPlan.Limit] = [:]
        var limits: [PermitPlan.Limit] = []
        for queue in queues {
            let (unsent, id) = (queue.unsent, queue.settings.tenantID)
            if let limit = PermitPlan.Limit(of: .queue(queue.id), queue.limit, unsent: unsent) { limits.append(limit) }
            if ofTenants[id] != nil {
                ofTenants[id]!.unsent += unsent
            } else {
                ofTenants[id] = PermitPlan.Limit(of: .tenant(id), queue.tenant.limit, unsent: unsent)
            }
        }
        return limits + ofTenants.values
    }

    private func take(_ requests: [PermitPlan.Request], for queues: [QueueState]) async {
        let asked = Dictionary(uniqueKeysWithValues: queues.map { ($0.id, $0) })
        let tenants = Dictionary(queues.map { ($0.settings.tenantID, $0.tenant) }) { first, _ in first }
        let wanted = requests.map { (owner: $0.owner, permits: $0.permits) }
        let granted = await store.attempt { try await $0.takePermits(wanted, horizon: plan.horizon) }
        let now = ContinuousClock.now
        let granting = Dictionary(uniqueKeysWithValues: (granted ?? []).map { ($0.owner, $0) })
        for request in requests {
            let grant = granting[request.owner].map {
                PermitPlan.Grant(count: $0.count, startsIn: $0.startsIn, rate: $0.rate)
            }
            switch request.owner {
            case .queue(let id):
                guard let queue = asked[id] else { continue }
                note(grant, isAnswered: granted != nil, for: &queue.limit, now)
            case .tenant(let id):
                guard let tenant = tenants[id] else { continue }
                note(grant, isAnswered: granted != nil, for: &tenant.limit, now)
            }
        }
        dispatcher.schedule()
    }

    private func note(
        _ grant: PermitPlan.Grant?, isAnswered: Bool, for limit: inout RateLimit, _ now: ContinuousClock.Instant
    ) {
        guard let grant else {
            limit.nextTake = plan.nextTake(afterNoGrant: isAnswered, now: now)
            return
        }
        if let run = plan.run(of: grant, now: now) { limit.add(run) }
        limit.nextTake = plan.nextTake(after: grant, now: now)
    }
}

extension PermitPlan.Limit {
    /// Nil where there is no limit.
    init?(of owner: RateLimitOwner, _ limit: RateLimit, unsent: Int) {
        guard let rate = limit.rate else { return nil }
        self.init(owner: owner, unsent: unsent, permits: limit.permitsLeft, rate: rate, nextTake: limit.nextTake)
    }
}
