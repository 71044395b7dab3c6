import QueueCore

/// Decides which queue sends next, and how much: urgent pushes first within bounds, then tenants in turn, and the
/// queues of each tenant by weight. A turn stays within the queue's permits, the room of its connections and its share
/// of what is in flight.
///
/// What holds at every moment (`TurnsExplorationTests`):
/// - In total and for each queue, no more pushes are in flight than there is room for. No more pushes are sent than
///   there are permits.
/// - Tenants that have enough to send are served in proportion to their weights, however many queues they have. So are
///   the queues of each tenant.
/// - A queue with urgent pushes that is not ahead of its share sends one before any queue sends other pushes, if it can
///   send at all and nothing of its tenant is in flight.
/// - Urgent pushes bring a tenant no further ahead of its share than a bound, and a queue no further ahead of the
///   tenant's other queues.
/// - A queue that can send waits for a bounded number of pushes: of other tenants, while it has nothing in flight; and
///   of other queues of its tenant.
///
/// The cost of a round depends on what can be sent in it, not on what waits. A queue that can send nothing, for lack of
/// a connection, a permit or jobs, is parked at the end of the round. It is looked at again when it is woken or its
/// next permit is due. All queues are woken a few times a second, so that none is forgotten.
///
/// A value without a clock and without gateways. It is generic, so that nothing is looked up while it runs.
struct Turns<Queue: Contender> {
    /// The number of recipients of one queue that are handed over before another queue has its turn.
    static var quantum: Int { 16 }
    /// How far urgent pushes may bring a tenant or a queue ahead of its share, in recipients at a weight of 1. So a
    /// tenant that marks every push as urgent waits for its turns like the others.
    static var urgentLead: Double { 256 }
    /// The time after which all queues are looked at again.
    static var sweepInterval: Duration { .milliseconds(250) }
    /// The number of queues up to which all are looked at in every round.
    private static var few: Int { 64 }

    /// One turn of a queue.
    struct Turn {
        let queue: Queue
        /// Whether only urgent pushes may be sent.
        let isUrgent: Bool
        /// The maximum number of pushes.
        let room: Int
    }

    private enum Phase { case urgent, all, over }

    /// The maximum number of requests in flight. Requests that wait only for the grace are not counted: the windows of
    /// their connections limit them, and they would keep other requests from being sent.
    private let limit: Int
    /// The order among tenants, and the largest weight among those with active queues.
    private var tenants = FairShare()
    private var heaviest = 1.0
    /// The queues of which jobs are held, and those of them that are looked at in this round.
    private(set) var active: [Queue] = []
    private(set) var awake: [Queue] = []
    /// Queues that are or were parked, by the gateways that they wait for.
    private var waiting: [ObjectIdentifier: [Queue]] = [:]
    /// Queues that are or were parked until a permit is due.
    private var throttled = ThrottledSenders<Queue>()
    private var nextSweep: ContinuousClock.Instant?
    /// Requests in flight, and how many of them wait only for the grace of the binary interface.
    private(set) var inFlight = 0
    private var inSilence = 0
    /// The number of requests sent since the start.
    private(set) var sent = 0

    private var phase = Phase.over
    /// The queues that may still have a turn in this phase.
    private var contenders = TurnOrder<Queue>()

    init(limit: Int) { self.limit = limit }

    /// The number of requests that may be sent now.
    private var free: Int { limit - inFlight + inSilence }

    /// Lets a queue take turns, because there are jobs of it.
    mutating func join(_ queue: Queue) {
        guard !queue.isActive else { return wake(queue) }
        queue.isActive = true
        queue.isParked = false
        queue.place = active.count
        let tenant = queue.tenant
        if tenant.activeQueues == 0 {
            tenants.join(&tenant.turn)
            tenant.heaviest = 0.001
        }
        tenant.activeQueues += 1
        tenant.queues.join(&queue.turn)
        active.append(queue)
        awake.append(queue)
        weigh(queue)
    }

    // MARK: Queues that wait

    /// Whether there are parked queues.
    var hasParked: Bool { awake.count < active.count }

    /// When a parked queue has its next permit; nil if none has one.
    var nextPermit: ContinuousClock.Instant? { throttled.firstTime }

    /// Wakes a queue, which may have something to send again, or more permits.
    mutating func wake(_ queue: Queue) {
        guard queue.isActive, queue.isParked else { return }
        queue.isParked = false
        awake.append(queue)
    }

    /// Wakes the queues that wait for a gateway, which may take more than before.
    mutating func wake(waitingFor gateway: ObjectIdentifier) {
        guard let queues = waiting.removeValue(forKey: gateway) else { return }
        for queue in queues { wake(queue) }
    }

    /// Ends a round: parks the queues that can send nothing at present.
    mutating func endRound(now: ContinuousClock.Instant) {
        awake.removeAll { queue in
            let hasJobs = queue.hasJobs
            if hasJobs, queue.mayWork, queue.roomForPushes(now: now) > 0 {
                if queue.allowance(at: now) > 0 { return false }
                // Because of rounding, a permit that is due may not be available yet.
                if let next = queue.nextPermit { throttled.add(queue, until: max(next, now + .milliseconds(1))) }
                queue.isParked = true
                return true
            }
            // The queue leaves in the next round.
            if !hasJobs, queue.inFlight == 0 { return false }
            queue.isParked = true
            queue.eachGateway { waiting[$0, default: []].append(queue) }
            return true
        }
    }

    private mutating func sweep(now: ContinuousClock.Instant) {
        if let nextSweep, now < nextSweep, active.count > Self.few { return }
        nextSweep = now + Self.sweepInterval
        waiting.removeAll(keepingCapacity: true)
        heaviest = 0.001
        for queue in active { queue.tenant.heaviest = 0.001 }
        for queue in active {
            wake(queue)
            weigh(queue)
        }
    }

    private mutating func weigh(_ queue: Queue) {
        queue.tenant.heaviest = max(queue.tenant.heaviest, queue.turn.weight)
        heaviest = max(heaviest, queue.tenant.turn.weight)
    }

    private mutating func leave(_ queue: Queue) {
        queue.isActive = false
        queue.tenant.activeQueues -= 1
        let last = active.removeLast()
        guard last !== queue else { return }
        active[queue.place] = last
        last.place = queue.place
    }

    // MARK: Rounds

    /// Begins a round. Queues that have nothing to send and nothing in flight leave.
    mutating func beginRound(now: ContinuousClock.Instant) {
        sweep(now: now)
        while let queue = throttled.takeNext(now: now) { wake(queue) }
        let visited = awake
        awake.removeAll(keepingCapacity: true)
        for queue in visited {
            if queue.inFlight > 0 || queue.hasJobs { awake.append(queue) } else { leave(queue) }
        }
        begin(.urgent, now: now)
    }

    private mutating func begin(_ next: Phase, now: ContinuousClock.Instant) {
        phase = next
        contenders = TurnOrder(
            awake.filter { queue in
                let hasJobs = next == .urgent ? queue.hasJobs(in: .urgent) && mayGoAhead(queue) : queue.hasJobs
                return hasJobs && queue.mayWork && queue.roomForPushes(now: now) > 0
            })
    }

    /// Returns the next turn; nil when the round is over. The caller calls ``note(sent:inSilence:at:)`` after each
    /// turn, and ``endRound(now:)`` after the round.
    mutating func next(now: ContinuousClock.Instant) -> Turn? {
        while phase != .over {
            while free > 0, let queue = contenders.first {
                // Other queues of its tenant may have brought the tenant ahead since this phase began.
                guard phase == .all || mayGoAhead(queue) else {
                    contenders.removeFirst()
                    continue
                }
                let room = room(of: queue, now: now)
                if room > 0 { return Turn(queue: queue, isUrgent: phase == .urgent, room: room) }
                serve(queue, 0)
            }
            if phase == .urgent { begin(.all, now: now) } else { phase = .over }
        }
        contenders = TurnOrder()
        return nil
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

    /// Notes what was sent in the last turn.
    mutating func note(sent count: Int, inSilence silent: Int, at now: ContinuousClock.Instant) {
        guard let queue = contenders.first else { fatalError("nobody had a turn") }
        if count > 0 { queue.noteSent(count) }
        queue.inFlight += count
        queue.inSilence += silent
        queue.tenant.inFlight += count
        queue.tenant.inSilence += silent
        inFlight += count
        inSilence += silent
        sent += count
        serve(queue, count)
    }

    /// Records what a queue has sent. A queue that did not use all of its turn gets no other turn in this phase.
    private mutating func serve(_ queue: Queue, _ count: Int) {
        let isAhead = phase == .urgent
        tenants.serve(&queue.tenant.turn, units: count, isAhead: isAhead)
        queue.tenant.queues.serve(&queue.turn, units: count, isAhead: isAhead)
        if count < Self.quantum || isAhead && !mayGoAhead(queue) {
            contenders.removeFirst()
        } else {
            contenders.moveFirstBack()
        }
    }

    /// Notes that a request is no longer in flight.
    mutating func noteEnded(_ queue: Queue, isSilent: Bool) {
        queue.inFlight -= 1
        queue.tenant.inFlight -= 1
        inFlight -= 1
        wake(queue)
        guard isSilent else { return }
        queue.inSilence -= 1
        queue.tenant.inSilence -= 1
        inSilence -= 1
    }

    private func mayGoAhead(_ queue: Queue) -> Bool { lead(of: queue) < Self.urgentLead }

    /// How far a queue is ahead of its share, in recipients at a weight of 1: the larger lead of the queue among its
    /// tenant's queues and of its tenant among all tenants.
    func lead(of queue: Queue) -> Double {
        max(tenants.lead(of: queue.tenant.turn), queue.tenant.queues.lead(of: queue.turn))
    }
}
