import PostgresStore
import QueueCore
import Transport

/// Makes campaigns create jobs; ``FanOutPlan`` decides which. It has a connection of its own, because a step takes
/// about 25 ms.
///
/// Belongs to the engine's event loop.
final class FanOut {
    /// The number of devices that one step looks at.
    private static let devicesOfStep = 50_000

    private let store: RetryingConnection
    private let delays: AnswerDelays
    private let queues: Queues
    private let mayHaveWork: Signal
    private let interval: Duration
    private let signal: Signal
    private var plan = FanOutPlan()

    init(_ context: EngineContext, queues: Queues) {
        store = context.postgres.fanOut
        delays = context.delays
        mayHaveWork = context.mayHaveWork
        interval = context.settings.idlePoll
        self.queues = queues
        signal = Signal(loop: context.loop)
    }

    /// Notes the campaigns that a poll found. Returns whether one of them has to create jobs now.
    func note(_ campaigns: [ReadyWork.FanOut]) -> Bool {
        plan.note(campaigns, now: .now) { [queues] place in
            queues[place.queueID].map { FanOutPlan.Demand($0, place.lane) }
        }
        // The jobs that were to be created, another worker may have created, or their campaigns have ended.
        if !plan.isWanted { delays.fanOut.noteAnswered() }
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
            while let step = plan.next() {
                let hasFoundWork = await carryOut(step)
                plan.noteDone(hasFoundWork: hasFoundWork, now: .now)
                if hasFoundWork { mayHaveWork.raise() }
            }
        }
    }

    /// Returns whether there was something to do, even if no job was created: if a filter matches few devices, a job
    /// takes many steps.
    private func carryOut(_ step: FanOutPlan.Step) async -> Bool {
        let made = await store.attempt(\.fanOut, of: delays) {
            try await $0.fanOutStep(
                queueID: step.place.queueID, lane: step.place.lane, jobLimit: step.jobs, scanLimit: Self.devicesOfStep)
        }
        return made.map { $0 != nil } ?? false
    }
}

extension FanOutPlan.Demand {
    init(_ queue: QueueState, _ lane: Lane) {
        tenantID = queue.settings.tenantID
        maySend = queue.mayWork
        rate = queue.maximumRate(of: lane)
        sendRate = queue.sendRate
        jobSize = queue.jobSize(of: lane)
    }
}
