import PostgresStore
import QueueCore

/// Decides which campaigns create jobs now: those whose lane would become empty soon, urgent ones first.
struct FanOutPlan {
    /// The maximum number of ready jobs of a queue that a poll counts, and that fan-out keeps ahead.
    static let maximumReadyJobs = 400
    /// The minimum that it keeps ahead: for a queue with a rate limit, whose jobs take two seconds each, and for
    /// others.
    private static let leastPaced = 4
    private static let least = 80

    /// What the worker knows of a campaign's queue.
    struct Demand {
        /// Whether the queue may send.
        var maySend = true
        var isPaced = false
        /// In recipients per second.
        var sendRate = 0.0
        /// Recipients in a job of each lane, on average.
        var jobSize = [500.0, 500.0, 500.0]
    }

    /// The campaigns with a step that is due, in their order.
    private var due: [ReadyWork.FanOut] = []
    /// The step that is under way.
    private var current: LanePlace?
    private(set) var isStopping = false

    /// Whether a step is due.
    var hasWork: Bool { !due.isEmpty }

    /// Takes what a poll found. Steps that are no longer due are dropped.
    /// - Parameter queue: what is known of a queue; nil if this worker does not serve it.
    mutating func note(_ campaigns: [ReadyWork.FanOut], queue: (Int32) -> Demand?) {
        // The number of ready jobs of a lane with a step under way is known only after the step.
        let found = campaigns.filter { campaign in
            campaign.dueIn <= .zero && campaign.place != current
                && queue(campaign.queueID).map {
                    Self.runsDry($0, campaign.place.lane, readyJobs: campaign.readyJobs)
                } == true
        }
        due = found.filter { $0.place.lane == .urgent } + found.filter { $0.place.lane != .urgent }
    }

    /// The next step, for a lane of a queue; nil if none is due. The step before has to be through.
    mutating func next() -> LanePlace? {
        precondition(current == nil, "the step before is not through")
        guard !isStopping, !due.isEmpty else { return nil }
        current = due.removeFirst().place
        return current
    }

    /// The step is through.
    mutating func noteDone() { current = nil }

    /// Creates no more jobs.
    mutating func stop() { isStopping = true }

    /// Whether a lane's ready jobs last for less than two seconds of what the fleet sends.
    static func runsDry(_ queue: Demand, _ lane: Lane, readyJobs: Int) -> Bool {
        guard queue.maySend else { return false }
        let jobsOfTwoSeconds = Int(queue.sendRate * 2 / max(queue.jobSize[Int(lane.rawValue)], 1))
        let lowWater = queue.isPaced ? leastPaced : min(max(jobsOfTwoSeconds, least), maximumReadyJobs)
        return readyJobs < lowWater
    }
}
