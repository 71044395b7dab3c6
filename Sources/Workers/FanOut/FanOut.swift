import PostgresStore
import QueueCore
import Transport

/// Makes campaigns create jobs, as ``FanOutPlan`` decides. It has a connection of its own, since a step takes some 25
/// ms.
///
/// Belongs to the engine's event loop.
final class FanOut {
    /// Jobs of a campaign made by one step: 20,000 recipients.
    private static let jobsOfStep = 40
    /// Devices looked at by one step.
    private static let devicesOfStep = 50_000

    private let store: EngineStore
    private let queues: Queues
    private let mayHaveWork: Signal
    private let interval: Duration
    private let signal: Signal
    private var plan = FanOutPlan()

    init(_ context: EngineContext, queues: Queues) {
        store = context.stores.fanOut
        mayHaveWork = context.mayHaveWork
        interval = context.settings.idlePoll
        self.queues = queues
        signal = Signal(loop: context.loop)
    }

    /// Takes the campaigns that a poll found. Returns whether one of them has to create jobs now.
    func note(_ campaigns: [ReadyWork.FanOut]) -> Bool {
        plan.note(campaigns) { [queues] in queues[$0].map(FanOutPlan.Demand.init) }
        if plan.hasWork { signal.raise() }
        return plan.hasWork
    }

    /// Creates no more jobs, and ends ``run()``.
    func stop() {
        plan.stop()
        signal.raise()
    }

    /// Creates jobs of campaigns whose queues are nearly empty, until ``stop()``.
    func run() async {
        while !plan.isStopping {
            await signal.wait(atMost: interval)
            while let lane = plan.next() {
                await step(of: lane)
                plan.noteDone()
            }
        }
    }

    private func step(of lane: LanePlace) async {
        let made = await store.attempt {
            try await $0.fanOutStep(
                queueID: lane.queueID, lane: lane.lane, jobLimit: Self.jobsOfStep, scanLimit: Self.devicesOfStep)
        }
        if let made, made ?? 0 > 0 { mayHaveWork.raise() }
    }
}

extension FanOutPlan.Demand {
    init(_ queue: QueueState) {
        maySend = queue.mayWork
        isPaced = queue.isPaced
        sendRate = queue.sendRate
        jobSize = queue.jobSize
    }
}
