import PostgresStore
import QueueCore

/// Decides how many jobs to claim of which lanes: so many that each queue holds what it can send soon, and all together
/// no more than can be renewed in time. What there is room for is divided among tenants, and what a tenant gets among
/// its queues.
struct ClaimPlan {
    /// The minimum and the maximum number of recipients of one queue and lane that are held ahead.
    static let stock = 2_000...40_000
    /// The maximum number of lanes that one poll covers and one claim takes from.
    static let maximumLanes: Int32 = 500
    /// The maximum number of jobs of one queue and lane that one statement claims.
    static let maximumJobs = 200
    /// Recipients after which a claim takes no more large jobs; the next one goes on with the lanes left out. Each
    /// costs 2 µs, and what a producer sends meanwhile waits until the claim is through.
    static let maximumClaimed = 10_000
    /// A job with no more recipients on average is small: it goes with any claim.
    static let smallJob = 10.0
    /// Queues that wait for a connection and of which jobs are held, for each connection that they may get. One with
    /// a single push keeps its connection for a second (``ConnectionTurns``), and what was held for ten goes back: so
    /// these get theirs in time, and the others wait in the database. For what is urgent it is twice as many.
    static let waitingPerConnection = 5

    /// What the worker holds, over all queues, and may hold.
    struct Worker {
        /// Recipients that are held and not sent to.
        var unsent = 0
        /// The setting ``EngineSettings/maximumHeld``.
        var maximumHeld: Int
        /// Leases that are held, and how many can be renewed in time.
        var leases = 0
        var maximumLeases: Int
        /// The most connections of all tenants together.
        var connections = Int.max
        /// Those of which jobs are held.
        var tenants: [Int32: Tenant] = [:]
    }

    /// What the worker holds of a tenant.
    struct Tenant {
        /// Queues of which jobs are held, and these jobs.
        var activeQueues = 0
        var heldJobs = 0
        /// Those of the queues that have no connection.
        var waitingQueues = 0
    }

    /// How fast a queue sends, which says how much of it is worth holding.
    struct Demand {
        /// The rate limit of the queue, or of the campaign whose lane it is; and what the queue sent of late, in
        /// recipients per second.
        var rate: Double?
        var sendRate = 0.0
        /// Recipients that its gateway will take soon. It is bounded during an outage of APNs, and after one.
        var stock = Int.max
    }

    /// A lane that has jobs, as a poll found it, and what the worker knows of its queue.
    struct Candidate {
        let tenantID: Int32
        let place: LanePlace
        /// The first job of the lane.
        let head: LaneHead?
        /// Until the first job may be claimed; zero or less: now.
        var dueIn = Duration.zero
        /// Whether the queue may send and APNs answers.
        var mayClaim = true
        /// Whether the queue has a connection, so that what is claimed is sent soon.
        var isConnected = true
        /// The most connections of its tenant.
        var tenantConnections = Int.max
        var weight = 1.0
        var tenantWeight = 1.0
        var demand = Demand()
        /// Jobs of the queue that are held.
        var heldJobs = 0
        /// Recipients that are held and are sent to before what is claimed now: those of this lane, and of the more
        /// urgent ones that its queue's jobs share.
        var unsent = 0
        /// Recipients in a job of this lane, on average.
        var jobSize = 1.0
    }

    /// How much to claim of which lanes, in the order in which they were considered.
    private(set) var quotas: [ClaimQuota] = []
    /// The claims to make, one after the other. Lanes with small jobs are claimed first, by a statement of their own: a
    /// single push waits neither for the large jobs of its neighbours nor for their recipients on the way here.
    var statements: [[ClaimQuota]] {
        let small = quotas.filter { smallLanes.contains(Self.place(of: $0)) }
        let large = quotas.filter { !smallLanes.contains(Self.place(of: $0)) }
        return [small, large].filter { !$0.isEmpty }
    }

    /// Those in `quotas` whose queues have a connection, in the same order.
    private(set) var connectedLanes: [LanePlace] = []
    /// Queues with jobs to claim of which it takes none, because they, their tenant or this worker hold enough.
    private(set) var leftOut: Set<Int32> = []

    /// Those in `quotas` whose jobs are small.
    private var smallLanes: Set<LanePlace> = []
    /// The last lane in `quotas`, if lanes behind it were left out although their queues could send more.
    private(set) var lastServed: LanePlace?

    /// Plans one claim.
    /// - Parameters:
    ///   - lanes: in the order of queue and lane, from any of them on.
    ///   - place: the lane behind which to begin. Who comes first may get all leases that are free.
    ///   - maximumLanes: the plan takes from no more lanes than that.
    init(
        for lanes: [Candidate], from place: LanePlace = .start, maximumLanes: Int32 = Self.maximumLanes,
        worker: Worker
    ) {
        var tenants = lanes.reduce(into: [:]) { $0[$1.tenantID, default: TenantPart()].add($1) }
        for (id, tenant) in worker.tenants {
            tenants[id]?.heldJobs = tenant.heldJobs
            tenants[id]?.waitingQueues = tenant.waitingQueues
        }
        let ofTenant = Self.maximumClaimed / max(1, tenants.count)
        let heaviest = tenants.values.reduce(0.001) { max($0, $1.weight) }
        // Held by thousands of queues that wait for a connection, so that further ones wait in the database.
        let isFull = worker.unsent >= worker.maximumHeld * 4
        var freeLeases = worker.maximumLeases - worker.leases
        var claimed = 0.0
        // Recipients that this claim brings of the more urgent lanes of the same queue. They are sent first, and what
        // is held behind them would wait here with the tokens of its claim.
        var ahead = (queueID: Int32(0), recipients: 0.0)
        // The last queue that begins to wait for a connection with what this claim brings.
        var beginsToWait: Int32?
        for lane in lanes.filter({ $0.place > place }) + lanes.filter({ $0.place <= place }) {
            guard lane.mayClaim, lane.dueIn <= .zero else { continue }
            let tenant = tenants[lane.tenantID]!
            let isUrgent = lane.place.lane.peer == .urgent
            let beginsToHold = lane.heldJobs == 0 && lane.place.queueID != beginsToWait
            if !lane.isConnected {
                let most = Self.waitingQueues(of: lane, worker, isUrgent: isUrgent)
                if isFull && !isUrgent || beginsToHold && tenant.waitingQueues >= most {
                    leftOut.insert(lane.place.queueID)
                    lastServed = lastServed ?? quotas.last.map(Self.place)
                    continue
                }
            }
            let part = max(1, ofTenant / tenant.lanes)
            if lane.place.queueID != ahead.queueID { ahead = (lane.place.queueID, 0) }
            // What waits for a campaign's rate is in nobody's way.
            let isShared = lane.place.lane.isShared
            let missing = min(
                Double(Self.target(for: lane, of: worker) - lane.unsent) - (isShared ? ahead.recipients : 0),
                Double(part))
            guard missing > 0 else {
                leftOut.insert(lane.place.queueID)
                continue
            }
            let leases = tenant.leases(for: lane, free: freeLeases, heaviest: heaviest)
            let isSmall = lane.jobSize <= Self.smallJob
            let hasRoom = claimed < Double(Self.maximumClaimed) || isSmall
            guard leases > 0, hasRoom, quotas.count < Int(maximumLanes) else {
                // A queue that has its share already waits for others to end. One that has nothing is next.
                if lane.heldJobs == 0 || leases > 0 { lastServed = lastServed ?? quotas.last.map(Self.place) }
                leftOut.insert(lane.place.queueID)
                continue
            }
            let wanted = max(1, Int(missing / max(lane.jobSize, 1)))
            let count = min(wanted, Self.maximumJobs, leases)
            freeLeases -= count
            claimed += Double(count) * lane.jobSize
            tenants[lane.tenantID]!.heldJobs += count
            if lane.isConnected {
                connectedLanes.append(lane.place)
            } else if beginsToHold {
                tenants[lane.tenantID]!.waitingQueues += 1
                beginsToWait = lane.place.queueID
            }
            if isShared { ahead.recipients += Double(count) * lane.jobSize }
            if isSmall { smallLanes.insert(lane.place) }
            quotas.append(
                ClaimQuota(
                    queueID: lane.place.queueID, lane: lane.place.lane, jobs: Int32(count), head: lane.head))
        }
        leftOut.subtract(quotas.map(\.queueID))
    }

    /// Recipients to hold of a lane and of the more urgent ones of its queue: what its queue sends in half a second, or
    /// what its rate allows in one, but no more than its part of what all queues may hold.
    static func target(for lane: Candidate, of worker: Worker) -> Int {
        let demand = lane.demand
        let parts = max(1, worker.tenants.count) * max(1, worker.tenants[lane.tenantID]?.activeQueues ?? 1)
        let part = min(max(1, worker.maximumHeld / parts), demand.stock)
        if let rate = demand.rate { return max(1, min(Int(rate), stock.upperBound, part)) }
        return min(max(Int(demand.sendRate / 2), stock.lowerBound), stock.upperBound, part)
    }

    /// How many queues of the tenant of `lane` may wait for a connection with jobs that are held.
    private static func waitingQueues(of lane: Candidate, _ worker: Worker, isUrgent: Bool) -> Int {
        let connections = min(lane.tenantConnections, worker.connections)
        let (most, isUnlimited) = connections.multipliedReportingOverflow(
            by: isUrgent ? waitingPerConnection * 2 : waitingPerConnection)
        return isUnlimited ? .max : most
    }

    /// What one claim sees of a tenant.
    private struct TenantPart {
        private(set) var lanes = 0
        private var queues: Set<Int32> = []
        private var heaviest = 0.001
        private(set) var weight = 1.0
        var heldJobs = 0
        var waitingQueues = 0

        mutating func add(_ lane: Candidate) {
            lanes += 1
            queues.insert(lane.place.queueID)
            heaviest = max(heaviest, lane.weight)
            weight = lane.tenantWeight
        }

        /// Leases that a lane may get: its part of what its tenant may, of those that are free.
        func leases(for lane: Candidate, free: Int, heaviest tenant: Double) -> Int {
            let part = SharedRoom.more(having: heldJobs, free: free, weight: weight, heaviest: tenant)
            guard queues.count > 1 else { return part }
            return SharedRoom.more(having: lane.heldJobs, free: part, weight: lane.weight, heaviest: heaviest)
        }
    }

    private static func place(of quota: ClaimQuota) -> LanePlace { LanePlace(quota.queueID, quota.lane) }
}
