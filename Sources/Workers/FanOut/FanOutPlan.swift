import PostgresStore
import QueueCore

/// Decides which campaigns create jobs now: those whose lane would become empty soon, urgent ones first.
struct FanOutPlan {
    /// The maximum number of ready jobs of a queue that a poll counts, and that fan-out keeps ahead.
    static let maximumReadyJobs = 400
    /// The minimum that it keeps ahead: under a rate limit, where a job takes up to two seconds, and otherwise.
    private static let leastPaced = 4
    private static let least = 80
    /// Jobs that one step makes: 20,000 recipients. Under a rate limit no more than are to be ahead.
    static let jobsOfStep = 40

    /// A step to be made.
    struct Step: Equatable {
        let place: LanePlace
        /// The maximum number of jobs that it makes.
        var jobs = jobsOfStep
    }

    /// What the worker knows of a campaign's queue and lane.
    struct Demand {
        /// Whether the queue may send.
        var maySend = true
        /// Pushes per second that its limits allow; nil: it has none.
        var rate: Double?
        /// What is sent of late, in recipients per second.
        var sendRate = 0.0
        /// Recipients in a job of the lane, on average.
        var jobSize = 500.0
    }

    /// The steps that are due, in their order.
    private var due: [Step] = []
    /// The step that is under way.
    private var current: LanePlace?
    private(set) var isStopping = false

    /// Whether a step is due.
    var hasWork: Bool { !due.isEmpty }

    /// Takes what a poll found. Steps that are no longer due are dropped.
    /// - Parameter demand: what is known of a queue and lane; nil if this worker does not serve it.
    mutating func note(_ campaigns: [ReadyWork.FanOut], demand: (LanePlace) -> Demand?) {
        // The number of ready jobs of a lane with a step under way is known only after the step.
        let found = campaigns.compactMap { campaign -> Step? in
            guard campaign.dueIn <= .zero, campaign.place != current, let demand = demand(campaign.place),
                Self.runsDry(demand, readyJobs: campaign.readyJobs)
            else { return nil }
            return Step(
                place: campaign.place,
                jobs: demand.rate == nil ? Self.jobsOfStep : min(Self.jobsAhead(demand), Self.jobsOfStep))
        }
        due = found.filter { $0.place.lane.peer == .urgent } + found.filter { $0.place.lane.peer != .urgent }
    }

    /// The next step; nil if none is due. The step before has to be through.
    mutating func next() -> Step? {
        precondition(current == nil, "the step before is not through")
        guard !isStopping, !due.isEmpty else { return nil }
        let step = due.removeFirst()
        current = step.place
        return step
    }

    /// The step is through.
    mutating func noteDone() { current = nil }

    /// Creates no more jobs.
    mutating func stop() { isStopping = true }

    /// Whether a lane's ready jobs last for less than two seconds of what the fleet sends.
    static func runsDry(_ demand: Demand, readyJobs: Int) -> Bool {
        demand.maySend && readyJobs < jobsAhead(demand)
    }

    /// The jobs that are to be ready: those of two seconds, within bounds.
    private static func jobsAhead(_ demand: Demand) -> Int {
        let jobsOfTwoSeconds = (demand.rate ?? demand.sendRate) * 2 / max(demand.jobSize, 1)
        return min(max(Int(jobsOfTwoSeconds), demand.rate == nil ? least : leastPaced), maximumReadyJobs)
    }
}
