import QueueCore
import TestSupport
import Testing

@testable import Workers

/// Queues take turns while jobs, answers, permits and room change at random. The promises are checked after each turn.
private struct TurnsWorld {
    private(set) var violation: String?
    private(set) var reached: [String: Int] = [:]
    private var generator: SeededGenerator
    private let limit: Int
    private var turns: Turns<FakeContender>
    private let queues: [FakeContender]
    private let tenantCount: Int
    /// The time advances little: permits come due, but no queue is looked at only because time has passed.
    private var now = ContinuousClock.now
    /// For each queue: the weights of all queues of its tenant; the pushes of other tenants since the queue could have
    /// sent while its tenant had nothing in flight; and the pushes of its tenant's other queues since it could have
    /// sent with nothing in flight. These are checked after each turn, so the check looks up and allocates nothing.
    private let weights: [Double]
    private var passedOver: [(byTenants: Int, byQueues: Int)]

    init(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        limit = Int.random(in: 1...400, using: &generator)
        turns = Turns(limit: limit)
        let tenants = (0..<Int.random(in: 1...3, using: &generator)).map { _ in TenantShare() }
        // With this many queues, those that cannot send are parked.
        queues = (0..<(Int.random(in: 0...3, using: &generator) == 0 ? 80 : Int.random(in: 1...6, using: &generator)))
            .map { _ in
                FakeContender(
                    tenants.randomElement(using: &generator)!,
                    weight: [0.5, 1, 1, 2, 5, 10].randomElement(using: &generator)!)
            }
        let all = queues
        tenantCount = Set(all.map { ObjectIdentifier($0.tenant) }).count
        weights = all.map { queue in
            all.filter { $0.tenant === queue.tenant }.reduce(0) { $0 + $1.turn.weight }
        }
        passedOver = all.map { _ in (0, 0) }
        self.generator = generator
    }

    private mutating func broken(_ promise: String) { violation = violation ?? promise }

    mutating func run(rounds: Int) {
        // A round of eighty queues takes as long as twenty rounds of a few.
        for _ in 0..<(queues.count > 6 ? rounds / 5 : rounds) where violation == nil {
            for _ in 0..<Int.random(in: 1...4, using: &generator) { change() }
            now += .milliseconds(Int.random(in: 0...1, using: &generator))
            round()
        }
    }

    /// Changes one queue.
    private mutating func change() {
        let queue = queues.randomElement(using: &generator)!
        let change = Int.random(in: 0..<20, using: &generator)
        switch change {
        case ..<8:
            queue.waiting[Int.random(in: 0..<3, using: &generator)] += Int.random(in: 1...300, using: &generator)
            turns.join(queue)
        case ..<15:
            for _ in 0..<Int.random(in: 0...100, using: &generator) where queue.inFlight > 0 {
                turns.noteEnded(queue, isSilent: queue.inSilence == queue.inFlight)
            }
        case 15: queue.slots = Int.random(in: 0...200, using: &generator)
        case 16: queue.slots = .max
        case 17:
            queue.permits = Int.random(in: 0...50, using: &generator)
            queue.permitsFrom = now + .milliseconds(Int.random(in: 0...20, using: &generator))
        case 18: queue.permits = nil
        default: queue.mayWork.toggle()
        }
        // The gateway reports more room, the settings report that the queue may send again, and the permit taker
        // reports permits. Nobody reports jobs and answers.
        switch change {
        case 15, 16: turns.wake(waitingFor: ObjectIdentifier(queue))
        case 17...19: turns.wake(queue)
        default: break
        }
    }

    private func canSend(_ queue: FakeContender) -> Bool {
        queue.isActive && queue.hasJobs && queue.mayWork && queue.roomForPushes(now: now) > 0
            && queue.allowance(at: now) > 0
    }

    private mutating func round() {
        let urgent = queues.filter {
            canSend($0) && $0.hasJobs(in: .urgent) && $0.tenant.inFlight == $0.tenant.inSilence
                && turns.lead(of: $0) < 256
        }
        var hadTurn: Set<ObjectIdentifier> = []
        var isOthersTurn = false
        turns.beginRound(now: now)
        while violation == nil, let turn = turns.next(now: now) {
            if !turn.isUrgent, !isOthersTurn {
                isOthersTurn = true
                if !urgent.allSatisfy({ hadTurn.contains(ObjectIdentifier($0.tenant)) }) {
                    broken("others have their turn before the urgent pushes of a queue")
                }
                if !urgent.isEmpty { reached["urgent before others", default: 0] += 1 }
            }
            // From here on, the tenant has pushes in flight.
            if turn.isUrgent { hadTurn.insert(ObjectIdentifier(turn.queue.tenant)) }
            take(turn)
        }
        turns.endRound(now: now)
        if turns.hasParked { reached["parked", default: 0] += 1 }
    }

    private mutating func take(_ turn: Turns<FakeContender>.Turn) {
        let queue = turn.queue
        if !queue.mayWork { broken("a queue has its turn that may not send") }
        if turn.room > min(queue.roomForPushes(now: now), queue.allowance(at: now)) {
            broken("a turn of \(turn.room) is more than slots and permits")
        }
        // Some jobs may have no recipient left to send to, or wait for their lease.
        let most = Int.random(in: 0..<10, using: &generator) == 0 ? Int.random(in: 0...4, using: &generator) : .max
        let count = queue.send(turn, most: most)
        let isSilent = Int.random(in: 0..<20, using: &generator) == 0
        turns.note(sent: count, inSilence: isSilent ? count : 0, at: now)
        check(queue, count)
    }

    private mutating func check(_ served: FakeContender, _ count: Int) {
        var (inFlight, silent) = (0, 0)
        for queue in queues {
            inFlight += queue.inFlight
            silent += queue.inSilence
        }
        if turns.inFlight != inFlight { broken("the count of what is in flight is wrong") }
        if turns.inFlight - silent > limit { broken("\(turns.inFlight - silent) in flight, and room for \(limit)") }
        if turns.inFlight - silent == limit { reached["full", default: 0] += 1 }
        for (index, queue) in queues.enumerated() {
            if let permits = queue.permits, permits < 0 { broken("more was sent than there were permits") }
            let lead = turns.lead(of: queue)
            if lead > Turns<FakeContender>.urgentLead + 16 / min(queue.turn.weight, 1) {
                broken("a queue is \(lead) ahead")
            }
            if lead > Turns<FakeContender>.urgentLead - 1 { reached["as far ahead as may be", default: 0] += 1 }
            noteWaiting(index, served, count)
        }
    }

    private mutating func noteWaiting(_ index: Int, _ served: FakeContender, _ count: Int) {
        let (queue, tenant) = (queues[index], queues[index].tenant)
        guard queue !== served, queue.inFlight == queue.inSilence, canSend(queue) else {
            passedOver[index] = (0, 0)
            return
        }
        var (byTenants, byQueues) = passedOver[index]
        if served.tenant === tenant {
            byQueues += count
            byTenants = 0
        } else {
            byTenants = tenant.inFlight == tenant.inSilence ? byTenants + count : 0
        }
        passedOver[index] = (byTenants, byQueues)
        let lead = Turns<FakeContender>.urgentLead + 64
        if Double(byTenants) > lead * Double(tenantCount) {
            broken("a tenant has waited while others sent \(byTenants)")
        }
        if Double(byQueues) > lead * weights[index] { broken("a queue has waited while its tenant's sent \(byQueues)") }
    }
}

/// Checks the promises of ``Turns`` in random sequences of events, without gateways.
@Suite struct `Taking turns, in any order of events` {
    @Test func `keeps to room and permits, sends what is urgent first, and lets nobody starve`() {
        explore(seeds: 80, reaching: ["urgent before others", "full", "as far ahead as may be", "parked"], moreThan: 3)
        {
            seed in
            var world = TurnsWorld(seed: seed)
            world.run(rounds: 200)
            return (world.violation, world.reached)
        }
    }

    /// All queues have more than they can send. Pushes in flight are answered at random.
    @Test func `shares alike among tenants and by weight among their queues, whatever is answered when`() {
        for seed in seeds(4) {
            var generator = SeededGenerator(seed: seed)
            let tenants = (0..<Int.random(in: 1...3, using: &generator)).map { _ in TenantShare() }
            let queues = tenants.flatMap { tenant in
                (0..<Int.random(in: 1...4, using: &generator)).map { _ in
                    FakeContender(tenant, weight: [1, 2, 3, 5].randomElement(using: &generator)!, bulk: .max / 2)
                }
            }
            var turns = Turns<FakeContender>(limit: 800)
            for queue in queues { turns.join(queue) }
            for _ in 0..<400 {
                turns.round()
                let share = Double.random(in: 0.2...1, using: &generator)
                for queue in queues {
                    for _ in 0..<Int(Double(queue.inFlight) * share) { turns.noteEnded(queue, isSilent: false) }
                }
            }
            for queue in queues {
                let weights = queues.filter { $0.tenant === queue.tenant }.reduce(0) { $0 + $1.turn.weight }
                let share = Double(queue.sentInAll) / Double(turns.sent)
                let due = queue.turn.weight / weights / Double(tenants.count)
                #expect(abs(share - due) < due / 10, "seed \(seed): \(share) where \(due) is due")
            }
        }
    }
}
