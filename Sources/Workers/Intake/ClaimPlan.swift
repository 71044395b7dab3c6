import PostgresStore
import QueueCore

/// Decides how many jobs to claim from which lanes. Each queue is to hold what it can send soon, and all queues
/// together no more than can be renewed in time. Free room is divided among tenants, and a tenant's part among its
/// queues.
struct ClaimPlan {
    /// The minimum and maximum number of recipients that are held ahead for one queue and lane.
    static let stock = 2_000...40_000
    /// The maximum number of lanes that one poll covers and one claim takes from.
    static let maximumLanes: Int32 = 500
    /// The maximum number of jobs of one queue and lane that one statement claims.
    static let maximumJobs = 200
    /// The number of recipients after which a claim takes no more large jobs. The next claim continues with the lanes
    /// left out. Each recipient costs 2 µs, and what a producer sends meanwhile waits until the claim is done.
    static let maximumClaimed = 10_000
    /// The average number of recipients up to which a job counts as small. Small jobs are taken by any claim.
    static let smallJob = 10.0
    /// The number of queues with held jobs that may wait for a connection, for each connection that they may get. A
    /// queue with a single push keeps its connection for a second (``ConnectionTurns``), and jobs held for ten seconds
    /// are given back. With this number, these queues get a connection in time, and others wait in the database. For
    /// urgent jobs the number is doubled.
    static let waitingPerConnection = 5

    /// What the worker holds over all queues, and may hold.
    struct Worker {
        /// The number of recipients that are held and not sent to.
        var unsent = 0
        /// The setting ``EngineSettings/maximumHeld``.
        var maximumHeld: Int
        /// The number of leases held, and the number that can be renewed in time.
        var leases = 0
        var maximumLeases: Int
        /// The maximum number of connections of all tenants together.
        var connections = Int.max
        /// The tenants of which jobs are held.
        var tenants: [Int32: Tenant] = [:]
    }

    /// What the worker holds of a tenant.
    struct Tenant {
        /// The number of queues of which jobs are held, and of these jobs.
        var activeQueues = 0
        var heldJobs = 0
        /// The number of these queues that have no connection.
        var waitingQueues = 0
    }

    /// How fast a queue sends. This determines how much of it is worth holding.
    struct Demand {
        /// The rate limit of the queue, or of the campaign that owns the lane; and what the queue sent recently, in
        /// recipients per second.
        var rate: Double?
        var sendRate = 0.0
        /// The number of recipients that the gateway will take soon. Bounded during an outage of APNs, and after one.
        var stock = Int.max
    }

    /// A lane in which a poll found jobs, and what the worker knows about its queue.
    struct Candidate {
        let tenantID: Int32
        let place: LanePlace
        /// The first job of the lane.
        let head: LaneHead?
        /// The time until the first job may be claimed; zero or less: now.
        var dueIn = Duration.zero
        /// Whether the queue may send and APNs answers.
        var mayClaim = true
        /// Whether the queue has a connection, so that claimed jobs are sent soon.
        var isConnected = true
        /// The maximum number of connections of the tenant.
        var tenantConnections = Int.max
        var weight = 1.0
        var tenantWeight = 1.0
        var demand = Demand()
        /// The number of jobs of the queue that are held.
        var heldJobs = 0
        /// The number of held recipients that are sent to before what is claimed now: those of this lane, and of the
        /// queue's more urgent shared lanes.
        var unsent = 0
        /// The average number of recipients in a job of this lane.
        var jobSize = 1.0

        /// Whether the jobs are small: a claim takes them however many recipients it has.
        fileprivate var isSmall: Bool { jobSize <= ClaimPlan.smallJob }
    }

    /// How much to claim from which lanes, in the order in which the lanes were considered.
    private(set) var quotas: [ClaimQuota] = []
    /// The claims to make, one after the other. A statement of its own claims the lanes with small jobs first. So a
    /// single push waits neither for the claim of its neighbours' large jobs nor for the transfer of their recipients.
    var statements: [[ClaimQuota]] {
        let small = quotas.filter { smallLanes.contains(Self.place(of: $0)) }
        let large = quotas.filter { !smallLanes.contains(Self.place(of: $0)) }
        return [small, large].filter { !$0.isEmpty }
    }

    /// The lanes of `quotas` whose queues have a connection, in the same order.
    private(set) var connectedLanes: [LanePlace] = []
    /// Queues with jobs to claim from which the plan takes none, because they, their tenant or this worker hold enough.
    private(set) var leftOut: Set<Int32> = []
    /// Whether the plan leaves out large jobs for which there will be room soon.
    private(set) var hasMoreSoon = false

    /// The lanes of `quotas` whose jobs are small.
    private var smallLanes: Set<LanePlace> = []
    /// The last lane of `quotas`, if later lanes were left out although their queues could send more.
    private(set) var lastServed: LanePlace?

    /// Plans one claim.
    /// - Parameters:
    ///   - lanes: the lanes in the order of queue and lane, starting at any lane.
    ///   - place: the lane behind which to begin. The first lanes may get all free leases.
    ///   - maximumLanes: the maximum number of lanes from which the plan takes jobs.
    init(
        for lanes: [Candidate], from place: LanePlace = .start, maximumLanes: Int32 = Self.maximumLanes,
        worker: Worker
    ) {
        var builder = Builder(for: lanes, maximumLanes: Int(maximumLanes), worker: worker)
        for lane in lanes.filter({ $0.place > place }) + lanes.filter({ $0.place <= place }) {
            if lane.mayClaim, lane.dueIn <= .zero { builder.consider(lane) }
        }
        self = builder.plan
        leftOut.subtract(quotas.map(\.queueID))
    }

    /// A plan that takes nothing yet.
    private init() {}

    /// The number of recipients to hold from a lane and the more urgent lanes of its queue: what the queue sends in
    /// half a second, or what its rate allows in one, but at most the queue's part of what all queues may hold.
    static func target(for lane: Candidate, of worker: Worker) -> Int {
        let demand = lane.demand
        let parts = max(1, worker.tenants.count) * max(1, worker.tenants[lane.tenantID]?.activeQueues ?? 1)
        let part = min(max(1, worker.maximumHeld / parts), demand.stock)
        if let rate = demand.rate { return max(1, min(Int(rate), stock.upperBound, part)) }
        return min(max(Int(demand.sendRate / 2), stock.lowerBound), stock.upperBound, part)
    }

    /// Whether there will soon be room for a quarter of what a lane with large jobs is to hold. A fast queue sends a
    /// few jobs between two polls, and a claim of these would cost as much as 1,000 recipients more.
    private static func isSoonLarger(room: Double, target: Int, of lane: Candidate) -> Bool {
        let missing = Double(target) / 4 - room
        return lane.demand.rate == nil && missing > 0 && missing < lane.demand.sendRate / 8
    }

    /// How many queues of the tenant of `lane` may hold jobs while they wait for a connection.
    private static func waitingQueues(of lane: Candidate, _ worker: Worker, isUrgent: Bool) -> Int {
        let connections = min(lane.tenantConnections, worker.connections)
        let (most, isUnlimited) = connections.multipliedReportingOverflow(
            by: isUrgent ? waitingPerConnection * 2 : waitingPerConnection)
        return isUnlimited ? .max : most
    }

    /// A plan in the making, and what the lanes that were considered leave to the others.
    private struct Builder {
        private(set) var plan = ClaimPlan()
        private let worker: Worker
        private let maximumLanes: Int
        private var tenants: [Int32: TenantPart]
        /// A tenant's part of the recipients of one claim.
        private let partOfTenant: Int
        /// The largest weight of a tenant.
        private let heaviest: Double
        /// Whether as much is held as thousands of queues that wait for a connection hold. Then further queues wait in
        /// the database.
        private let isFull: Bool
        private var freeLeases: Int
        /// The number of recipients that the plan takes.
        private var claimed = 0.0
        /// The recipients that this claim brings from more urgent lanes of the same queue. They are sent first, and
        /// less urgent jobs held behind them would wait here with the tokens of their claim.
        private var ahead = (queueID: Int32(0), recipients: 0.0)
        /// The last queue that begins to wait for a connection because of this claim.
        private var beginsToWait: Int32?

        init(for lanes: [Candidate], maximumLanes: Int, worker: Worker) {
            var tenants: [Int32: TenantPart] = [:]
            for lane in lanes { tenants[lane.tenantID, default: TenantPart()].add(lane) }
            for (id, tenant) in worker.tenants {
                tenants[id]?.heldJobs = tenant.heldJobs
                tenants[id]?.waitingQueues = tenant.waitingQueues
            }
            self.tenants = tenants
            self.worker = worker
            self.maximumLanes = maximumLanes
            partOfTenant = ClaimPlan.maximumClaimed / max(1, tenants.count)
            heaviest = tenants.values.reduce(0.001) { max($0, $1.weight) }
            isFull = worker.unsent >= worker.maximumHeld * 4
            freeLeases = worker.maximumLeases - worker.leases
        }

        /// Takes jobs from a lane, or leaves it out. To be called for each lane whose jobs may be claimed, in order.
        mutating func consider(_ lane: Candidate) {
            guard hasConnectionRoom(for: lane) else { return leaveOut(lane, comesNext: true) }
            if lane.place.queueID != ahead.queueID { ahead = (lane.place.queueID, 0) }
            let target = ClaimPlan.target(for: lane, of: worker)
            // Jobs that wait for a campaign's rate do not delay other jobs.
            let room = Double(target - lane.unsent) - (lane.place.lane.isShared ? ahead.recipients : 0)
            guard room > 0 else { return leaveOut(lane) }
            if !lane.isSmall, ClaimPlan.isSoonLarger(room: room, target: target, of: lane) {
                plan.hasMoreSoon = true
                return leaveOut(lane)
            }
            let leases = tenants[lane.tenantID]!.leases(for: lane, free: freeLeases, heaviest: heaviest)
            let hasRoom = claimed < Double(ClaimPlan.maximumClaimed) || lane.isSmall
            guard leases > 0, hasRoom, plan.quotas.count < maximumLanes else {
                // A queue that has its share already waits until other jobs end. A queue that has nothing comes next.
                return leaveOut(lane, comesNext: lane.heldJobs == 0 || leases > 0)
            }
            take(lane, room: room, leases: leases)
        }

        /// Whether the queue of a lane has a connection, or may hold jobs while it waits for one.
        private func hasConnectionRoom(for lane: Candidate) -> Bool {
            if lane.isConnected { return true }
            let isUrgent = lane.place.lane.peer == .urgent
            if isFull, !isUrgent { return false }
            let most = ClaimPlan.waitingQueues(of: lane, worker, isUrgent: isUrgent)
            return !beginsToHold(lane) || tenants[lane.tenantID]!.waitingQueues < most
        }

        /// Whether a claim from a lane without a connection makes its queue one of those that wait for a connection.
        private func beginsToHold(_ lane: Candidate) -> Bool {
            lane.heldJobs == 0 && lane.place.queueID != beginsToWait
        }

        /// Takes nothing from a lane that has jobs to claim.
        /// - Parameter comesNext: whether the next claim is to begin with this lane, or with one before it.
        private mutating func leaveOut(_ lane: Candidate, comesNext: Bool = false) {
            plan.leftOut.insert(lane.place.queueID)
            if comesNext { plan.lastServed = plan.lastServed ?? plan.quotas.last.map(ClaimPlan.place) }
        }

        /// Takes jobs from a lane.
        /// - Parameters:
        ///   - room: the number of recipients that are missing in the lane.
        ///   - leases: the number of leases that the lane may get.
        private mutating func take(_ lane: Candidate, room: Double, leases: Int) {
            let part = max(1, partOfTenant / tenants[lane.tenantID]!.lanes)
            let wanted = max(1, Int(min(room, Double(part)) / max(lane.jobSize, 1)))
            let count = min(wanted, ClaimPlan.maximumJobs, leases)
            let recipients = Double(count) * lane.jobSize
            freeLeases -= count
            claimed += recipients
            tenants[lane.tenantID]!.heldJobs += count
            if lane.isConnected {
                plan.connectedLanes.append(lane.place)
            } else if beginsToHold(lane) {
                tenants[lane.tenantID]!.waitingQueues += 1
                beginsToWait = lane.place.queueID
            }
            if lane.place.lane.isShared { ahead.recipients += recipients }
            if lane.isSmall { plan.smallLanes.insert(lane.place) }
            plan.quotas.append(
                ClaimQuota(queueID: lane.place.queueID, lane: lane.place.lane, jobs: Int32(count), head: lane.head))
        }
    }

    /// What one claim knows about a tenant.
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

        /// The number of free leases that a lane may get: its part of its tenant's part.
        func leases(for lane: Candidate, free: Int, heaviest tenant: Double) -> Int {
            let part = SharedRoom.more(having: heldJobs, free: free, weight: weight, heaviest: tenant)
            guard queues.count > 1 else { return part }
            return SharedRoom.more(having: lane.heldJobs, free: part, weight: lane.weight, heaviest: heaviest)
        }
    }

    private static func place(of quota: ClaimQuota) -> LanePlace { LanePlace(quota.queueID, quota.lane) }
}
