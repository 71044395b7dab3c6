import PostgresStore
import QueueCore
import Transport

/// Pauses campaigns of which too many answers are bad, soon after the jobs with these answers have ended.
///
/// Belongs to the engine's event loop.
final class CampaignErrorLimit {
    /// The minimum time between two looks, whatever ends meanwhile.
    private static let interval = Duration.milliseconds(250)

    private let store: RetryingConnection
    private let queues: (Int32) -> QueueState?
    private let report: (EngineEvent) -> Void
    private let signal: Signal
    private var due: Set<CampaignKey> = []
    private var isStopping = false

    /// - Parameter queues: returns the queue with an id, if this worker knows it.
    init(_ context: EngineContext, queues: @escaping (Int32) -> QueueState?) {
        store = context.postgres.fanOut
        report = context.report
        self.queues = queues
        signal = Signal(loop: context.loop)
    }

    /// Notes the end of a job whose campaign pauses itself when too many answers are bad.
    func note(_ campaign: CampaignKey) {
        if due.insert(campaign).inserted { signal.raise() }
    }

    func stop() {
        isStopping = true
        signal.raise()
    }

    /// Judges campaigns when jobs of them have ended, until ``stop()``.
    func run() async {
        while !isStopping {
            await signal.wait(atMost: .seconds(60))
            guard !due.isEmpty else { continue }
            let campaigns = due
            due = []
            let paused = await store.attempt { try await $0.judgeCampaigns(Array(campaigns)) }
            // PostgreSQL could not be asked, or another session had locked a campaign.
            if paused == nil { due.formUnion(campaigns) }
            for campaign in paused ?? [] {
                let queue = queues(campaign.queueID)?.settings.name.description ?? "\(campaign.queueID)"
                report(.campaignPausedItself(queue: queue, key: campaign.key, reason: campaign.reason))
            }
            await pause()
        }
    }

    private func pause() async {
        let end = ContinuousClock.now + Self.interval
        while !isStopping, ContinuousClock.now < end {
            await signal.wait(atMost: ContinuousClock.now.duration(to: end))
        }
        if !due.isEmpty { signal.raise() }
    }
}
