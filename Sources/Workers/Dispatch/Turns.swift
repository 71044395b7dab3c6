import QueueCore

/// A queue as ``Turns`` sees it.
protocol Contender: AnyObject {
    /// Whose queue it is, and its place in the order among the queues of that tenant.
    var tenant: TenantShare { get }
    var turn: FairShare.Turn { get set }
    /// Whether it is one of those that take turns.
    var isActive: Bool { get set }
    /// Requests in flight, and those of them that wait for the grace of the binary interface only.
    var inFlight: Int { get set }
    var inSilence: Int { get set }
    /// Whether it may send at all.
    var mayWork: Bool { get }
    /// Whether it may have somebody to send to, in any lane or in one.
    var hasJobs: Bool { get }
    func hasJobs(in lane: Lane) -> Bool
    /// The pushes that its connections take now. Asks for more connections where there are none left and somebody
    /// waits.
    func roomForPushes(now: ContinuousClock.Instant) -> Int
    /// The pushes that its rate limit allows now.
    func allowance(at now: ContinuousClock.Instant) -> Int
    /// Notes that `count` pushes were sent.
    func noteSent(_ count: Int, at now: ContinuousClock.Instant)
}

/// Decides which queue sends next and how much: urgent pushes first within bounds, then tenants in turn, and of each
/// its queues by weight; each within its permits, the room of its connections and its share of what is in flight.
///
/// What holds at every moment (`TurnsExplorationTests`):
/// - No more pushes are in flight than there is room for, in all and for each queue; and no more are sent than there
///   are permits.
/// - Tenants that have enough to send are served in proportion to their weights, however many queues they have, and so
///   are the queues of each.
/// - A queue with urgent pushes that is not ahead of its share sends one before any queue sends others, if it can send
///   at all and nothing of its tenant is in flight.
/// - Urgent pushes bring a tenant no further ahead of its share than a bound, and a queue no further ahead of the
///   tenant's others.
/// - A queue that can send waits for a bounded number of pushes: of other tenants, while nothing of its own is in
///   flight; and of other queues of its tenant.
///
/// A value without a clock and without gateways. Generic, so that nothing is looked up while it runs.
struct Turns<Queue: Contender> {
    /// Recipients of one queue that are handed over before it is another's turn.
    static var quantum: Int { 16 }
    /// How far urgent pushes bring a tenant or a queue ahead of its share, in recipients at a weight of 1. So a tenant
    /// that marks every push as urgent waits for its turns like the others.
    static var urgentLead: Double { 256 }

    /// One turn of a queue.
    struct Turn {
        let queue: Queue
        /// Only urgent pushes may be sent.
        let isUrgent: Bool
        /// The maximum number of pushes.
        let room: Int
    }

    private enum Phase { case urgent, all, over }

    /// The maximum number of requests in flight. Those that wait for the grace only are not counted: the windows of
    /// their connections limit them, and they would keep others from being sent.
    private let limit: Int
    /// The order among tenants, and the largest weight among those with active queues.
    private var tenants = FairShare()
    private var heaviest = 1.0
    /// Queues of which jobs are held.
    private(set) var active: [Queue] = []
    /// Requests in flight, and those of them that wait for the grace of the binary interface only.
    private(set) var inFlight = 0
    private var inSilence = 0
    /// Requests sent since the start.
    private(set) var sent = 0

    private var phase = Phase.over
    /// The queues that may still have a turn in this phase, and the place of the one whose turn it is.
    private var contenders: [Queue] = []
    private var place = 0

    init(limit: Int) { self.limit = limit }

    /// Requests that may be sent now.
    private var free: Int { limit - inFlight + inSilence }

    /// Has a queue take turns, as there are jobs of it.
    mutating func join(_ queue: Queue) {
        guard !queue.isActive else { return }
        queue.isActive = true
        let tenant = queue.tenant
        if tenant.activeQueues == 0 { tenants.join(&tenant.turn) }
        tenant.activeQueues += 1
        tenant.queues.join(&queue.turn)
        active.append(queue)
    }

    // MARK: Rounds

    /// Begins a round. Queues that have nothing to send and nothing in flight leave.
    mutating func beginRound(now: ContinuousClock.Instant) {
        heaviest = 0.001
        for queue in active { queue.tenant.heaviest = 0.001 }
        active.removeAll { queue in
            queue.isActive = queue.inFlight > 0 || queue.hasJobs
            let tenant = queue.tenant
            if queue.isActive {
                tenant.heaviest = max(tenant.heaviest, queue.turn.weight)
                heaviest = max(heaviest, tenant.turn.weight)
            } else {
                tenant.activeQueues -= 1
            }
            return !queue.isActive
        }
        begin(.urgent, now: now)
    }

    private mutating func begin(_ next: Phase, now: ContinuousClock.Instant) {
        phase = next
        contenders.removeAll(keepingCapacity: true)
        // With ten thousand queues most of them wait for a connection.
        for queue in active {
            let hasJobs = next == .urgent ? queue.hasJobs(in: .urgent) && mayGoAhead(queue) : queue.hasJobs
            if hasJobs, queue.mayWork, queue.roomForPushes(now: now) > 0 { contenders.append(queue) }
        }
    }

    /// Whose turn it is; nil when the round is over. Each turn is followed by ``note(sent:inSilence:at:)``.
    mutating func next(now: ContinuousClock.Instant) -> Turn? {
        while phase != .over {
            while !contenders.isEmpty, free > 0 {
                place = 0
                for index in contenders.indices where Self.precedes(contenders[index], contenders[place]) {
                    place = index
                }
                let queue = contenders[place]
                let room = room(of: queue, now: now)
                if room > 0 { return Turn(queue: queue, isUrgent: phase == .urgent, room: room) }
                serve(queue, 0)
            }
            if phase == .urgent { begin(.all, now: now) } else { phase = .over }
        }
        contenders.removeAll(keepingCapacity: true)
        return nil
    }

    private static func precedes(_ one: Queue, _ other: Queue) -> Bool {
        one.tenant === other.tenant
            ? one.turn.precedes(other.turn) : one.tenant.turn.precedes(other.tenant.turn)
    }

    private func room(of queue: Queue, now: ContinuousClock.Instant) -> Int {
        let tenant = queue.tenant
        var share = SharedRoom.more(
            having: tenant.inFlight - tenant.inSilence, free: free, weight: tenant.turn.weight, heaviest: heaviest)
        if tenant.activeQueues > 1 {
            share = SharedRoom.more(
                having: queue.inFlight - queue.inSilence, free: share, weight: queue.turn.weight,
                heaviest: tenant.heaviest)
        }
        guard share > 0 else { return 0 }
        return min(Self.quantum, share, queue.roomForPushes(now: now), queue.allowance(at: now))
    }

    /// Notes what was sent in the turn that was given last.
    mutating func note(sent count: Int, inSilence silent: Int, at now: ContinuousClock.Instant) {
        let queue = contenders[place]
        if count > 0 { queue.noteSent(count, at: now) }
        queue.inFlight += count
        queue.inSilence += silent
        queue.tenant.inFlight += count
        queue.tenant.inSilence += silent
        inFlight += count
        inSilence += silent
        sent += count
        serve(queue, count)
    }

    /// Books what a queue has sent. One that did not use all of its turn has no other in this phase.
    private mutating func serve(_ queue: Queue, _ count: Int) {
        let isAhead = phase == .urgent
        tenants.serve(&queue.tenant.turn, units: count, isAhead: isAhead)
        queue.tenant.queues.serve(&queue.turn, units: count, isAhead: isAhead)
        if count < Self.quantum || isAhead && !mayGoAhead(queue) {
            contenders.swapAt(place, contenders.count - 1)
            contenders.removeLast()
        }
    }

    /// Notes that a request is in flight no more.
    mutating func noteEnded(_ queue: Queue, isSilent: Bool) {
        queue.inFlight -= 1
        queue.tenant.inFlight -= 1
        inFlight -= 1
        guard isSilent else { return }
        queue.inSilence -= 1
        queue.tenant.inSilence -= 1
        inSilence -= 1
    }

    private func mayGoAhead(_ queue: Queue) -> Bool { lead(of: queue) < Self.urgentLead }

    /// How far a queue is ahead of its share, in recipients at a weight of 1: among those of its tenant, or its tenant
    /// among all.
    func lead(of queue: Queue) -> Double {
        max(tenants.lead(of: queue.tenant.turn), queue.tenant.queues.lead(of: queue.turn))
    }
}

extension QueueState: Contender {}
