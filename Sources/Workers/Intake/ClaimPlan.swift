import PostgresStore
import QueueCore

/// Decides how many jobs to claim of which lanes: so many that each queue holds what it can send soon, and all together no more than can
/// be renewed in time.
struct ClaimPlan {
    /// Recipients of one queue and lane held ahead, at the least and at the most.
    static let stock = 2_000...40_000
    /// Jobs of one queue and lane that one statement claims, at the most.
    static let mostJobs = 200
    /// Recipients that one claim brings where many lanes share it; each costs 2 µs and 60 bytes.
    static let mostClaimed = 100_000

    /// What the worker holds, over all queues, and may hold.
    struct Worker {
        /// Recipients that are held and not sent to.
        var unsent = 0
        /// The setting ``EngineSettings/mostHeld``.
        var mostHeld: Int
        /// Leases that are held, and how many can be renewed in time.
        var leases = 0
        var mostLeases: Int
        /// Queues of which jobs are held.
        var activeQueues = 0
    }

    /// How fast a queue sends, which says how much of it is worth holding.
    struct Demand {
        /// The queue's rate limit, and what it sent of late, in recipients per second.
        var rate: Double?
        var sendRate = 0.0
        /// Recipients that its gateway will take soon. It is bounded during an outage of APNs, and after one.
        var stock = Int.max
    }

    /// A lane that has jobs, as a look found it, and what the worker knows of its queue.
    struct Candidate {
        let place: LanePlace
        /// The first job of the lane.
        let head: LaneHead?
        /// Until the first job may be claimed; zero or less: now.
        var dueIn = Duration.zero
        /// Whether the queue may send and APNs answers.
        var mayClaim = true
        /// Whether the queue has a connection, so that what is claimed is sent soon.
        var isConnected = true
        var weight = 1.0
        var demand = Demand()
        /// Jobs of the queue that are held, and recipients of this lane that are held and not sent to.
        var heldJobs = 0
        var unsent = 0
        /// Recipients in a job of this lane, on average.
        var jobSize = 1.0
    }

    /// How much to claim of which lanes, in the order in which they were considered.
    private(set) var quotas: [ClaimQuota] = []
    /// The last lane in `quotas`, if lanes behind it were left out although their queues could send more.
    private(set) var lastServed: LanePlace?

    /// Plans one claim.
    /// - Parameters:
    ///   - lanes: in the order of queue and lane, from any of them on.
    ///   - place: the lane behind which to begin. Who comes first may get all leases that are free.
    ///   - mostLanes: the plan takes from no more lanes than that.
    init(
        for lanes: [Candidate], from place: LanePlace = .start, mostLanes: Int32 = LookPlan.mostLanes, worker: Worker
    ) {
        let part = Self.mostClaimed / max(1, lanes.count)
        let heaviest = lanes.reduce(0.001) { max($0, $1.weight) }
        // Held by thousands of queues that wait for a connection, so that further ones wait in the database.
        let isFull = worker.unsent >= worker.mostHeld * 4
        var freeLeases = worker.mostLeases - worker.leases
        for lane in lanes.filter({ $0.place > place }) + lanes.filter({ $0.place <= place }) {
            guard lane.mayClaim, lane.dueIn <= .zero else { continue }
            if isFull, lane.place.lane != .urgent, !lane.isConnected { continue }
            let missing = Double(min(Self.target(for: lane.demand, of: worker) - lane.unsent, part))
            guard missing > 0 else { continue }
            let leases = SharedRoom.more(
                having: lane.heldJobs, free: freeLeases, weight: lane.weight, heaviest: heaviest)
            guard leases > 0, quotas.count < Int(mostLanes) else {
                // A queue that has its share already waits for others to end. One that has nothing is next.
                if lane.heldJobs == 0 || leases > 0 { lastServed = lastServed ?? quotas.last.map(Self.place) }
                continue
            }
            let wanted = max(1, Int(missing / max(lane.jobSize, 1)))
            let count = min(wanted, Self.mostJobs, leases)
            freeLeases -= count
            quotas.append(
                ClaimQuota(
                    queueID: lane.place.queueID, lane: lane.place.lane, jobs: Int32(count), head: lane.head))
        }
    }

    /// Recipients of a lane to hold: what its queue sends in half a second, or what its rate allows in one, but no more than its part of
    /// what all queues may hold.
    static func target(for demand: Demand, of worker: Worker) -> Int {
        let part = min(max(1, worker.mostHeld / max(1, worker.activeQueues)), demand.stock)
        if let rate = demand.rate { return max(1, min(Int(rate), stock.upperBound, part)) }
        return min(max(Int(demand.sendRate / 2), stock.lowerBound), stock.upperBound, part)
    }

    private static func place(of quota: ClaimQuota) -> LanePlace { LanePlace(quota.queueID, quota.lane) }
}
