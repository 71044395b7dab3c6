import PostgresStore
import QueueCore
import Transport

/// Takes permits from the rate limits for queues that have somebody to send to: for all of them in one statement, no further
/// ahead than the horizon, and no more than there are recipients.
///
/// Belongs to the engine's event loop.
final class PermitTaker {
    private let store: EngineStore
    private let settings: EngineSettings
    private let dispatcher: Dispatcher
    private let signal: Signal
    private var isStopping = false

    init(_ context: EngineContext, dispatcher: Dispatcher) {
        store = context.stores.claims
        settings = context.settings
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
            let (short, pause) = shortQueues()
            if short.isEmpty {
                await signal.wait(atMost: pause)
                continue
            }
            await take(for: short)
        }
    }

    /// The queues to ask for now with the permits each wants; and how long to wait where there is none.
    private func shortQueues() -> (queues: [(queue: QueueState, permits: Int)], pause: Duration) {
        let now = ContinuousClock.now
        var short: [(queue: QueueState, permits: Int)] = []
        var pause = Duration.seconds(1)
        for queue in dispatcher.active where queue.mayWork {
            guard let rate = queue.settings.rate else { continue }
            let wanted = min(queue.unsent - queue.permitsLeft, Self.most(rate, horizon: settings.permitHorizon))
            guard wanted > 0 else { continue }
            if now >= queue.nextTake {
                short.append((queue, wanted))
            } else {
                pause = min(pause, now.duration(to: queue.nextTake))
            }
        }
        return (short, pause)
    }

    private func take(for short: [(queue: QueueState, permits: Int)]) async {
        let wanted = short.map { (queueID: $0.queue.id, permits: $0.permits) }
        let granted = await store.attempt { try await $0.takePermits(wanted, horizon: settings.permitHorizon) }
        // The database's moment lies between sending and now; taking now for it makes permits late by the way back, never early.
        let now = ContinuousClock.now
        // Without an answer: PostgreSQL is away, or another worker is taking permits of that queue at this moment.
        for (queue, _) in short { queue.nextTake = now + settings.permitHorizon / (granted == nil ? 2 : 16) }
        for grant in granted ?? [] {
            guard let queue = short.first(where: { $0.queue.id == grant.queueID })?.queue else { continue }
            if grant.count > 0 {
                queue.permits.append(
                    PermitRun(start: now + grant.startsIn, granted: now, rate: grant.rate, count: grant.count))
            }
            // A slow queue sleeps until its next permit comes within the horizon.
            let nextStart = now + grant.startsIn + .seconds(Double(grant.count) / grant.rate)
            queue.nextTake = max(nextStart - settings.permitHorizon / 2, now + .milliseconds(5))
        }
        dispatcher.schedule()
    }

    /// Permits that a rate has within the horizon; below four a second, one at a time.
    private static func most(_ rate: Double, horizon: Duration) -> Int {
        max(1, Int(rate * (horizon / .seconds(1))))
    }
}
