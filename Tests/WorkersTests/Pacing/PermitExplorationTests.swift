import Foundation
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@testable import Workers

/// Workers that send for the queues of three tenants, with the limits of PostgreSQL and a simulated clock, so that
/// nothing depends on the speed of the machine. Rates, the jobs of each worker, the lateness of each worker, and the
/// ways to PostgreSQL and back are random. If workers stall, they stand still for up to a second before they read an
/// answer.
private struct PermitWorld {
    enum Promise: String, CaseIterable {
        case noMoreThanFit =
            "a worker asks for no more permits than it has recipients, and no further ahead than the horizon"
        case restsBetween = "it does not ask again before it is worth it"
        case limitsHold = "no window has more pushes of a limit than its rate and its burst allow"
        case ratesAreReached = "what always has somebody to send to is sent at its rate, or its tenant's"
    }

    enum Sabotage: CaseIterable {
        case asksForAll, asksAtOnce, usesPermitsTwice, takesAnswersForGrants, takesEachLimitAlone

        var breaks: Promise {
            switch self {
            case .asksForAll: .noMoreThanFit
            case .asksAtOnce: .restsBetween
            case .usesPermitsTwice, .takesAnswersForGrants: .limitsHold
            case .takesEachLimitAlone: .ratesAreReached
            }
        }
    }

    /// A limit with the pushes that it has counted, as a leaky bucket.
    private struct Limit {
        let rate: Double
        let burst: Double
        var level = 0.0
        var last: Double?
        var sent = 0

        /// Counts pushes at a time in seconds. Returns whether the limit holds in every window.
        mutating func count(_ pushes: Int, at time: Double) -> Bool {
            level = max(0, level - rate * (time - (last ?? time))) + Double(pushes)
            last = time
            sent += pushes
            // The times of permits are rounded to microseconds.
            return level <= max(burst, rate * (PermitRun.lateness / .seconds(1)) + 1) + rate * 0.00001 + 1e-6
        }
    }

    private struct Queue: Hashable {
        let id: Int32
        let tenant: Int32
        let isLimited: Bool
        /// The campaign with a rate of its own, which is sent beside the queue's other pushes; 0: these other pushes.
        var campaign: Int64 = 0
        var weight = 1.0
    }

    /// A statement that is under way, and the answer to it.
    private struct Call {
        let requests: [PermitRequest]
        let asked: ContinuousClock.Instant
        var answer: [GrantedPermits]?
    }

    private struct Worker {
        var wakesAt: Int64 = 0
        var call: Call?
        var clock: DatabaseClock
        /// The unsent recipients of each queue and campaign, and the permits of each line.
        var unsent: [Queue: Int]
        var permits: [RateLimitOwner: RateLimit] = [:]
    }

    private(set) var broken: Promise?
    private(set) var detail = ""
    private(set) var reached: [String: Int] = [:]
    private let sabotage: Sabotage?
    private let plan = PermitPlan(horizon: .milliseconds(250))
    private var chance: SeededGenerator
    private let start = ContinuousClock.now
    /// Microseconds since the start, and the start in microseconds since 1970.
    private var now: Int64 = 0
    private let epoch: Int64 = 1_900_000_000_000_000
    private var limits: [RateLimitOwner: Limit] = [:]
    private var queues: [Queue] = []
    private var workers: [Worker] = []
    private let seconds: Int64
    private let stalls: Bool

    /// The first tenant's rate is below what its queues would send; the second tenant's is above it. The third has
    /// none: there each queue has the whole of its own rate, whatever the weights are.
    init(seed: UInt64, seconds: Int64, stalls: Bool = false, sabotage: Sabotage? = nil) {
        chance = SeededGenerator(seed: seed)
        self.sabotage = sabotage
        self.seconds = seconds
        self.stalls = stalls
        let narrow = [40.5, 201.7].randomElement(using: &chance)!
        let plenty = [90.3, 1033.3].randomElement(using: &chance)!
        add(.tenant(1), rate: narrow, burst: max(1, narrow / 10))
        add(.tenant(2), rate: plenty, burst: Bool.random(using: &chance) ? plenty / 10 : plenty)
        let rates: [Double?] = [narrow / 9, nil, nil]
        let others: [Double?] = [[0.7, 3.3, 12.7].randomElement(using: &chance)!, plenty / 3, plenty / 2.5]
        for (tenant, rates) in [(1, rates), (2, others)] as [(Int32, [Double?])] {
            for rate in rates {
                let queue = Queue(id: Int32(queues.count + 1), tenant: tenant, isLimited: rate != nil)
                queues.append(queue)
                let burst = max(1, (rate ?? 0) / 10).rounded(.up)
                if let rate { add(.queue(queue.id, ofTenant: tenant), rate: rate, burst: burst) }
            }
        }
        for (rate, weight) in [(217.3, 1.0), (19.1, 100)] {
            let queue = Queue(id: Int32(queues.count + 1), tenant: 3, isLimited: true, weight: weight)
            queues.append(queue)
            add(.queue(queue.id, ofTenant: 3), rate: rate, burst: (rate / 10).rounded(.up))
        }
        // A campaign in each queue, with a rate far below what the queue could send, and a second campaign in one
        // queue.
        for (number, queue) in (queues + [queues[5]]).enumerated() {
            let campaign = Queue(
                id: queue.id, tenant: queue.tenant, isLimited: queue.isLimited, campaign: Int64(number + 1),
                weight: queue.weight)
            let rate = (limits[.queue(queue.id, ofTenant: queue.tenant)]?.rate ?? narrow) / 7
            add(owner(campaign), rate: max(rate, 0.1), burst: max(1, (rate / 10).rounded(.up)))
            queues.append(campaign)
        }
        let count = Int.random(in: 1...3, using: &chance)
        workers = (0..<count).map { [start] _ in Worker(clock: DatabaseClock(now: start), unsent: [:]) }
        for queue in queues {
            let only = Int.random(in: 0...count, using: &chance)
            for index in workers.indices where only == count || only == index {
                workers[index].unsent[queue] = 1_000_000
            }
        }
    }

    private mutating func add(_ owner: RateLimitOwner, rate: Double, burst: Double) {
        limits[owner] = Limit(rate: rate, burst: burst)
    }

    private func owner(_ queue: Queue) -> RateLimitOwner {
        if queue.campaign > 0 { return .campaign(queue.campaign, ofQueue: queue.id, ofTenant: queue.tenant) }
        return queue.isLimited ? .queue(queue.id, ofTenant: queue.tenant) : .tenant(queue.tenant)
    }

    /// All limits that count the pushes of a queue or campaign.
    private func owners(_ queue: Queue) -> Set<RateLimitOwner> {
        let ofQueue = queue.isLimited ? [RateLimitOwner.queue(queue.id, ofTenant: queue.tenant)] : []
        return Set(ofQueue + [owner(queue), .tenant(queue.tenant)]).filter { limits[$0] != nil }
    }

    /// Whether it belongs to the line of its tenant's queues that have no limit of their own.
    private func isPlain(_ queue: Queue) -> Bool { !queue.isLimited && queue.campaign == 0 }

    /// Whether its pushes also take permits of the tenant, each by itself.
    private func takesTenantsAlone(_ queue: Queue) -> Bool {
        sabotage == .takesEachLimitAlone && !isPlain(queue) && limits[.tenant(queue.tenant)] != nil
    }

    private func instant(_ time: Int64) -> ContinuousClock.Instant { start + .microseconds(time) }

    // MARK: Events

    mutating func run(on connection: PostgresConnection, isolation: isolated (any Actor)? = #isolation) async throws {
        try await connection.runScript("delete from pushq.rate_limit")
        for (owner, limit) in limits {
            try await connection.runScript(
                """
                insert into pushq.rate_limit (tenant_id, queue_id, campaign_id, rate, burst, tat)
                values (\(owner.tenantID), \(owner.queueID), \(owner.campaignID), \(limit.rate), \(limit.burst), to_timestamp(\(epoch / 1_000_000)) - interval '1 hour')
                """)
        }
        while now < seconds * 1_000_000, broken == nil {
            let index = workers.indices.min { workers[$0].wakesAt < workers[$1].wakesAt }!
            now = workers[index].wakesAt
            if let call = workers[index].call, call.answer == nil {
                try await execute(call, of: index, connection)
            } else {
                send(index)
                step(index)
            }
        }
        // What lapses while a worker stands still is lost to the rate.
        if broken == nil, !stalls { checkRates() }
    }

    /// Sends with all permits that are due.
    private mutating func send(_ index: Int) {
        var worker = workers[index]
        let time = instant(now)
        for queue in queues.shuffled(using: &chance) {
            guard let unsent = worker.unsent[queue], unsent > 0 else { continue }
            let owner = owner(queue)
            var count = min(unsent, worker.permits[owner]?.allowance(at: time) ?? 0)
            if takesTenantsAlone(queue) {
                count = min(count, worker.permits[.tenant(queue.tenant)]?.allowance(at: time) ?? 0)
                worker.permits[.tenant(queue.tenant)]?.use(count, at: time)
            }
            // Each queue without a limit of its own gets a part.
            if isPlain(queue) { count = min(count, 1 + count / 2) }
            worker.permits[owner]?.use(count, at: time)
            worker.unsent[queue] = unsent - count
            note(sabotage == .usesPermitsTwice ? count * 2 : count, of: queue)
        }
        workers[index] = worker
    }

    private mutating func note(_ count: Int, of queue: Queue) {
        guard count > 0 else { return }
        reached["sent", default: 0] += count
        for owner in owners(queue) {
            if limits[owner]!.count(count, at: Double(now) / 1e6) { continue }
            fail(.limitsHold, "\(owner) at \(now): \(limits[owner]!)")
        }
    }

    private mutating func fail(_ promise: Promise, _ text: String) {
        guard broken == nil else { return }
        (broken, detail) = (promise, text)
    }

    private func lines(_ worker: Worker) -> [PermitPlan.Line] {
        var lines: [RateLimitOwner: PermitPlan.Line] = [:]
        for queue in queues {
            guard let unsent = worker.unsent[queue], unsent > 0 else { continue }
            let owners: [RateLimitOwner] =
                takesTenantsAlone(queue) ? [owner(queue), .tenant(queue.tenant)] : [owner(queue)]
            for owner in owners {
                let known = worker.permits[owner]
                let line = lines[owner]
                lines[owner] = PermitPlan.Line(
                    owner: owner, unsent: unsent + (line?.unsent ?? 0),
                    permits: sabotage == .asksForAll ? 0 : known?.permitsLeft ?? 0, rate: limits[owner]!.rate,
                    weight: queue.weight + (line?.weight ?? 0),
                    nextTake: sabotage == .asksAtOnce ? start : known?.nextTake ?? start)
            }
        }
        return lines.values.sorted {
            ($0.owner.tenantID, $0.owner.queueID, $0.owner.campaignID)
                < ($1.owner.tenantID, $1.owner.queueID, $1.owner.campaignID)
        }
    }

    private mutating func step(_ index: Int) {
        if let call = workers[index].call, let answer = call.answer {
            workers[index].call = nil
            return note(answer, to: call, index)
        }
        let oversleeps = Int64.random(in: 0...3000, using: &chance)
        switch plan.next(lines(workers[index]), now: instant(now)) {
        case .wait(let pause):
            let permit = workers[index].permits.values.compactMap(\.nextPermit).min()
            let due = permit.map { Int64(start.duration(to: $0) / .microseconds(1)) + 1 } ?? .max
            let pause = Int64(pause / .microseconds(1))
            workers[index].wakesAt = max(now + 100, min(now + pause, due)) + oversleeps
        case .take(let requests):
            check(requests, of: workers[index])
            workers[index].call = Call(requests: requests, asked: instant(now))
            workers[index].wakesAt = now + way()
        }
    }

    /// The time that a statement or its answer takes from one side to the other.
    private mutating func way() -> Int64 { Int64.random(in: 250...1750, using: &chance) }

    /// PostgreSQL executes a statement.
    private mutating func execute(
        _ call: Call, of index: Int, _ connection: PostgresConnection, isolation: isolated (any Actor)? = #isolation
    ) async throws {
        // Sometimes another worker has locked a limit at this moment.
        let asked = call.requests.filter { _ in Int.random(in: 0..<30, using: &chance) > 0 }
        let answer = try await take(asked, connection)
        workers[index].call?.answer = answer
        workers[index].wakesAt = now + way()
        if stalls, Int.random(in: 0..<30, using: &chance) == 0 {
            workers[index].wakesAt += Int64.random(in: 0...1_000_000, using: &chance)
            reached["stalled", default: 0] += 1
        }
    }

    private func take(
        _ requests: [PermitRequest], _ connection: PostgresConnection, isolation: isolated (any Actor)? = #isolation
    ) async throws -> [GrantedPermits] {
        guard sabotage == .takesEachLimitAlone else {
            return try await connection.takePermits(requests, horizon: plan.horizon, at: epoch + now)
        }
        // As if each limit belonged to a tenant of its own.
        var granted: [GrantedPermits] = []
        for request in requests {
            let isOfTenant = request.owner.queueID == 0
            if !isOfTenant {
                try await connection.runScript("update pushq.rate_limit set tenant_id = -tenant_id where queue_id = 0")
            }
            granted += try await connection.takePermits([request], horizon: plan.horizon, at: epoch + now)
            if !isOfTenant {
                try await connection.runScript("update pushq.rate_limit set tenant_id = -tenant_id where queue_id = 0")
            }
        }
        return granted
    }

    private mutating func check(_ requests: [PermitRequest], of worker: Worker) {
        for request in requests {
            let rate = limits[request.owner]!.rate
            let unsent = queues.filter { owner($0) == request.owner || sabotage == .takesEachLimitAlone }
                .reduce(0) { $0 + (worker.unsent[$1] ?? 0) }
            let held = worker.permits[request.owner]?.permitsLeft ?? 0
            let most = max(1, Int(rate * (plan.horizon / .seconds(1))))
            if request.wanted > min(unsent - held, most) || request.held != held {
                fail(.noMoreThanFit, "\(request) of \(unsent) with \(held)")
            }
            if instant(now) < worker.permits[request.owner]?.nextTake ?? start { fail(.restsBetween, "\(request)") }
        }
    }

    private mutating func note(_ granted: [GrantedPermits], to call: Call, _ index: Int) {
        let grants = Dictionary(uniqueKeysWithValues: granted.map { ($0.owner, $0) })
        let answered = instant(now)
        var moment = DatabaseClock.Moment(earliest: answered, latest: answered, isSettled: true)
        if let first = granted.first, sabotage != .takesAnswersForGrants {
            moment = workers[index].clock.note(first.grantedAt, askedAt: call.asked, answeredAt: answered)
        }
        for request in call.requests {
            var held = workers[index].permits[request.owner] ?? RateLimit(rate: 1, now: start)
            if let grant = grants[request.owner] {
                if let run = plan.run(of: grant, at: moment) { held.add(run) }
                held.nextTake = plan.nextTake(after: grant, now: instant(now))
                if grant.count == 0 { reached["refused", default: 0] += 1 }
            } else {
                held.nextTake = plan.nextTake(afterNoGrant: true, now: instant(now))
                reached["locked", default: 0] += 1
            }
            workers[index].permits[request.owner] = held
        }
    }

    private mutating func checkRates() {
        for queue in queues where queue.campaign == 0 && queue.isLimited { expectRate(of: owner(queue)) }
        // A campaign gets at most its rate. Beside other pushes that exceed their queue's limit, it gets a part of its
        // rate, and is not starved.
        for queue in queues where queue.campaign > 0 && queue.tenant == 2 { expectRate(of: owner(queue), share: 0.3) }
        expectRate(of: .tenant(1))
    }

    private mutating func expectRate(of owner: RateLimitOwner, share: Double = 0.98) {
        let limit = limits[owner]!
        let due = limit.rate * Double(seconds)
        if Double(limit.sent) < due * share - 3 {
            fail(.ratesAreReached, "\(owner): \(limit.sent) of \(due), \(workers.count) workers")
        }
    }
}

/// Checks the promises of ``PermitPlan`` and `pushq.take_permits` in random sequences of events.
@Suite(.timeLimit(.minutes(10))) struct `Taking permits, in any order of events` {
    @Test func `keeps to every rate and reaches it, whoever has the jobs`() async throws {
        try await withDatabase { _, database in
            let connection = try await database.connect()
            var reached: [String: Int] = [:]
            // The number is the same in CI, because each world takes seconds of PostgreSQL's time.
            for seed in 1...5 as ClosedRange<UInt64> {
                var world = PermitWorld(seed: seed, seconds: 20)
                try await world.run(on: connection)
                if let broken = world.broken {
                    Issue.record("seed \(seed): broken: \(broken.rawValue): \(world.detail)")
                }
                reached.merge(world.reached, uniquingKeysWith: +)
            }
            for event in ["sent", "refused", "locked"] { #expect(reached[event, default: 0] > 100, "\(event)") }
        }
    }

    @Test func `keeps to every rate while workers stand still with answers that they have not read`() async throws {
        try await withDatabase { _, database in
            let connection = try await database.connect()
            var stalls = 0
            for seed in 1...3 as ClosedRange<UInt64> {
                var world = PermitWorld(seed: seed, seconds: 20, stalls: true)
                try await world.run(on: connection)
                if let broken = world.broken {
                    Issue.record("seed \(seed): broken: \(broken.rawValue): \(world.detail)")
                }
                stalls += world.reached["stalled", default: 0]
            }
            #expect(stalls > 10)
        }
    }

    @Test(arguments: PermitWorld.Sabotage.allCases)
    fileprivate func `is found out when it breaks a promise`(sabotage: PermitWorld.Sabotage) async throws {
        try await withDatabase { _, database in
            let connection = try await database.connect()
            for seed in 1...10 as ClosedRange<UInt64> {
                var world = PermitWorld(
                    seed: seed, seconds: 10, stalls: sabotage == .takesAnswersForGrants, sabotage: sabotage)
                try await world.run(on: connection)
                guard let broken = world.broken else { continue }
                return #expect(broken == sabotage.breaks)
            }
            Issue.record("nothing was broken")
        }
    }
}
