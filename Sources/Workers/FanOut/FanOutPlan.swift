import PostgresStore
import QueueCore

/// Decides which campaigns create jobs now: those whose lane would soon be empty. Urgent lanes come first; then tenants
/// take turns, and so do the lanes of each tenant.
struct FanOutPlan {
    /// The maximum number of ready jobs of a queue that a poll counts, and that fan-out keeps ahead.
    static let maximumReadyJobs = 400
    /// The minimum number that fan-out keeps ahead: with a rate limit, where a job takes up to two seconds, and
    /// without.
    private static let leastPaced = 4
    private static let least = 80
    /// The maximum number of jobs that one step creates: 20,000 recipients. With a rate limit, a step creates no more
    /// than have to be ahead.
    static let jobsOfStep = 40
    /// How long a lane rests after a step that found nothing to do. Another worker is busy with the lane, or a
    /// producer's transaction is, which may stay open for long.
    private static let rest = Backoff(base: .milliseconds(10), cap: .milliseconds(500))

    /// A step to carry out.
    struct Step: Equatable {
        let place: LanePlace
        /// The maximum number of jobs that the step creates.
        var jobs = jobsOfStep
    }

    /// What the worker knows about a campaign's queue and lane.
    struct Demand {
        var tenantID: Int32 = 0
        /// Whether the queue may send.
        var maySend = true
        /// The pushes per second that the limits allow; nil if there is no limit.
        var rate: Double?
        /// What was sent recently, in recipients per second.
        var sendRate = 0.0
        /// The average number of recipients in a job of the lane.
        var jobSize = Double(SettledJob.maximumRecipients)
    }

    /// What is known about a lane whose campaigns create jobs.
    private struct Standing {
        var tenantID: Int32
        /// The number of consecutive steps that found nothing to do.
        var failures = 0
        /// The time until which the lane rests.
        var restsUntil: ContinuousClock.Instant?
        /// The number of the lane's last step; 0 if there was none.
        var lastTurn = 0
    }

    /// The steps that are due.
    private var due: [Step] = []
    private var lanes: [LanePlace: Standing] = [:]
    /// The number of each tenant's last step.
    private var lastTurns: [Int32: Int] = [:]
    /// The number of the last step.
    private var turn = 0
    /// The lane of the step that is under way.
    private var current: LanePlace?
    private(set) var isStopping = false
    /// Whether a lane that the last poll found needs more jobs, even if it rests.
    private(set) var isWanted = false

    /// Whether a step is due.
    var hasWork: Bool { !due.isEmpty }

    /// Notes what a poll found. Steps that are no longer due are dropped.
    /// - Parameter demand: returns what is known about a queue and lane; nil if this worker does not serve the queue.
    mutating func note(
        _ campaigns: [ReadyWork.FanOut], now: ContinuousClock.Instant, demand: (LanePlace) -> Demand?
    ) {
        due = []
        isWanted = false
        var found: [LanePlace: Standing] = [:]
        for campaign in campaigns where campaign.dueIn <= .zero {
            let place = campaign.place
            guard let demand = demand(place) else { continue }
            let lane = lanes[place] ?? Standing(tenantID: demand.tenantID)
            found[place] = lane
            guard Self.runsDry(demand, readyJobs: campaign.readyJobs) else { continue }
            isWanted = true
            // The number of ready jobs of a lane with a step under way is known only after the step.
            guard place != current, lane.restsUntil.map({ $0 <= now }) ?? true else { continue }
            let jobs = demand.rate == nil ? Self.jobsOfStep : min(Self.jobsAhead(demand), Self.jobsOfStep)
            due.append(Step(place: place, jobs: jobs))
        }
        lanes = found
        let tenants = Set(found.values.map(\.tenantID))
        lastTurns = lastTurns.filter { tenants.contains($0.key) }
    }

    /// Returns the next step; nil if none is due. The previous step must be done.
    mutating func next() -> Step? {
        precondition(current == nil, "the step before is not through")
        guard !isStopping, let index = due.indices.min(by: { order(of: due[$0]) < order(of: due[$1]) }) else {
            return nil
        }
        let step = due.remove(at: index)
        current = step.place
        turn += 1
        if let tenantID = lanes[step.place]?.tenantID { lastTurns[tenantID] = turn }
        lanes[step.place]?.lastTurn = turn
        return step
    }

    private func order(of step: Step) -> (Int, Int, Int) {
        let lane = lanes[step.place]
        return (
            step.place.lane.peer == .urgent ? 0 : 1, lane.flatMap { lastTurns[$0.tenantID] } ?? 0, lane?.lastTurn ?? 0
        )
    }

    /// Notes that the step under way is done.
    /// - Parameter hasFoundWork: false if the step could do nothing; the lane then rests for a while.
    mutating func noteDone(hasFoundWork: Bool, now: ContinuousClock.Instant) {
        guard let place = current else { return }
        current = nil
        let failures = hasFoundWork ? 0 : (lanes[place]?.failures ?? 0) + 1
        lanes[place]?.failures = failures
        lanes[place]?.restsUntil =
            hasFoundWork ? nil : now + Self.rest.ceiling(afterAttempt: failures)
    }

    /// Creates no more jobs.
    mutating func stop() { isStopping = true }

    /// Whether a lane's ready jobs last less than two seconds at the rate at which they are sent.
    static func runsDry(_ demand: Demand, readyJobs: Int) -> Bool {
        demand.maySend && readyJobs < jobsAhead(demand)
    }

    /// The number of jobs that have to be ready: those of two seconds, within bounds.
    private static func jobsAhead(_ demand: Demand) -> Int {
        let jobsOfTwoSeconds = (demand.rate ?? demand.sendRate) * 2 / max(demand.jobSize, 1)
        return min(max(Int(jobsOfTwoSeconds), demand.rate == nil ? least : leastPaced), maximumReadyJobs)
    }
}
