import PostgresStore
import QueueCore
import TestSupport
import Testing

@testable import Workers

/// Queues with rate limits, and a PostgreSQL that grants permits, is sometimes locked by another worker and sometimes away. Chance
/// decides what happens next.
private struct PermitWorld {
    enum Promise: String, CaseIterable {
        case noMoreThanFit =
            "it asks for no more permits than there are recipients, and no further ahead than the horizon"
        case restsBetween = "it does not ask for a queue again before it is due"
        case nobodyStarves = "a queue with recipients and without permits is asked for again in time"
        case ratesHold = "no queue is sent faster than its rate"
    }

    enum Sabotage: CaseIterable {
        case asksForAll, asksAtOnce, forgetsAQueue, usesPermitsTwice

        var breaks: Promise {
            switch self {
            case .asksForAll: .noMoreThanFit
            case .asksAtOnce: .restsBetween
            case .forgetsAQueue: .nobodyStarves
            case .usesPermitsTwice: .ratesHold
            }
        }
    }

    private struct Queue {
        var state: PermitPlan.Limit
        var runs: [PermitRun] = []
        var sent = 0
        /// When the next permit of its rate limit is due.
        var nextPermit: ContinuousClock.Instant
        var lacksSince: ContinuousClock.Instant?
    }

    private static let horizon = Duration.milliseconds(250)

    private(set) var broken: Promise?
    private(set) var sent = 0
    private let sabotage: Sabotage?
    private let plan = PermitPlan(horizon: horizon)
    private var chance: SeededGenerator
    private let start = ContinuousClock.now
    private var now: ContinuousClock.Instant
    private var queues: [Int32: Queue] = [:]

    init(seed: UInt64, sabotage: Sabotage?) {
        chance = SeededGenerator(seed: seed)
        self.sabotage = sabotage
        now = start
        for id: Int32 in 1...4 {
            let rate = [0.5, 3, 50, 2000].randomElement(using: &chance)!
            queues[id] = Queue(
                state: .init(owner: .queue(id), unsent: 0, permits: 0, rate: rate, nextTake: start), nextPermit: start)
        }
    }

    mutating func run(steps: Int) {
        for _ in 0..<steps where broken == nil {
            claim()
            send()
            step()
            check()
        }
    }

    private mutating func claim() {
        guard Int.random(in: 0..<3, using: &chance) == 0 else { return }
        let id = Int32.random(in: 1...4, using: &chance)
        queues[id]!.state.unsent += [1, 5, 500].randomElement(using: &chance)!
    }

    private mutating func send() {
        for id in queues.keys.sorted() {
            var queue = queues[id]!
            for index in queue.runs.indices {
                let count = min(queue.runs[index].available(at: now), queue.state.unsent)
                queue.runs[index].use(count)
                queue.state.unsent -= count
                queue.sent += sabotage == .usesPermitsTwice ? count * 2 : count
                sent += count
            }
            queue.runs.removeAll(where: \.isSpent)
            queue.state.permits = queue.runs.reduce(0) { $0 + $1.count - $1.spent }
            queues[id] = queue
        }
    }

    private mutating func step() {
        var asked = queues.sorted { $0.key < $1.key }.map(\.value.state)
        if sabotage == .asksForAll { for index in asked.indices { asked[index].permits = 0 } }
        if sabotage == .asksAtOnce { for index in asked.indices { asked[index].nextTake = start } }
        if sabotage == .forgetsAQueue { asked.removeFirst() }
        switch plan.next(asked, now: now) {
        case .wait(let pause): now += min(pause, .milliseconds(Int.random(in: 1...1000, using: &chance)))
        case .take(let requests): take(requests)
        }
    }

    private mutating func take(_ requests: [PermitPlan.Request]) {
        let isAnswered = Int.random(in: 0..<10, using: &chance) > 0
        let askedAt = now
        now += .milliseconds(Int.random(in: 1...20, using: &chance))
        for request in requests {
            guard case .queue(let id) = request.owner, var queue = queues[id] else { continue }
            let rate = queue.state.rate
            let most = max(1, Int(rate * (Self.horizon / .seconds(1))))
            if request.permits > min(queue.state.unsent - queue.state.permits, most) { broken = .noMoreThanFit }
            if askedAt < queue.state.nextTake { broken = .restsBetween }
            queue.lacksSince = nil
            queue.state.nextTake = plan.nextTake(afterNoGrant: isAnswered, now: now)
            let isLocked = Int.random(in: 0..<10, using: &chance) == 0
            if isAnswered, !isLocked {
                let first = max(queue.nextPermit, askedAt)
                let ahead = (askedAt + Self.horizon).duration(to: first) / .seconds(1)
                let count = ahead > 0 ? 0 : min(request.permits, Int(-ahead * rate) + 1)
                queue.nextPermit = first + .seconds(Double(count) / rate)
                let grant = PermitPlan.Grant(count: count, startsIn: askedAt.duration(to: first), rate: rate)
                if let run = plan.run(of: grant, now: now) { queue.runs.append(run) }
                queue.state.permits += count
                queue.state.nextTake = plan.nextTake(after: grant, now: now)
            }
            queues[id] = queue
        }
    }

    private mutating func check() {
        for (id, queue) in queues {
            let rate = queue.state.rate
            let elapsed = start.duration(to: now) / .seconds(1)
            if Double(queue.sent) > rate * elapsed + 1 + 1e-6 { broken = .ratesHold }
            guard queue.state.unsent > queue.state.permits else {
                queues[id]!.lacksSince = nil
                continue
            }
            let since = queue.lacksSince ?? now
            queues[id]!.lacksSince = since
            if since.duration(to: now) > .seconds(2 / rate + 3) { broken = .nobodyStarves }
        }
    }
}

/// Random sequences of events against the promises of ``PermitPlan``, without PostgreSQL.
@Suite struct `Taking permits, in any order of events` {
    @Test func `keeps its promises`() {
        explore(seeds: 40, reaching: ["sent"], moreThan: 10_000) { seed in
            var world = PermitWorld(seed: seed, sabotage: nil)
            world.run(steps: 400)
            return (world.broken.map { "broken: \($0.rawValue)" }, ["sent": world.sent])
        }
    }

    @Test func `is found out when it breaks a promise`() {
        for sabotage in PermitWorld.Sabotage.allCases {
            let broken = firstBroken(seeds: 200) { seed in
                var world = PermitWorld(seed: seed, sabotage: sabotage)
                world.run(steps: 400)
                return world.broken
            }
            #expect(broken == sabotage.breaks)
        }
    }
}
