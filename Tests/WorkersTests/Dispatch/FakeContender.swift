import QueueCore

@testable import Workers

/// A queue that has only counts: the recipients waiting in each lane, and the pushes that may be sent.
final class FakeContender: Contender {
    let tenant: TenantShare
    var turn: FairShare.Turn
    var isActive = false
    var place = 0
    var isParked = false
    var throttledUntil: ContinuousClock.Instant?
    var inFlight = 0
    var inSilence = 0
    var mayWork = true
    /// The waiting recipients, by lane.
    var waiting = [0, 0, 0]
    /// The pushes that its connections can take, including those in flight.
    var slots = Int.max
    /// The remaining permits; nil: no limit. They may be used from `permitsFrom` on; nil: at any time.
    var permits: Int?
    var permitsFrom: ContinuousClock.Instant?
    /// The pushes sent so far, by lane.
    private(set) var sent = [0, 0, 0]

    init(_ tenant: TenantShare = TenantShare(), weight: Double = 1, urgent: Int = 0, bulk: Int = 0) {
        self.tenant = tenant
        turn = FairShare.Turn(weight: weight)
        waiting = [urgent, 0, bulk]
    }

    var hasJobs: Bool { waiting.contains { $0 > 0 } }
    func hasJobs(in lane: Lane) -> Bool { waiting[Int(lane.rawValue)] > 0 }
    /// The number of times that it was asked for the room of its connections.
    private(set) var visits = 0
    func roomForPushes(now: ContinuousClock.Instant) -> Int {
        visits += 1
        return max(0, slots - inFlight)
    }
    func eachGateway(_ body: (ObjectIdentifier) -> Void) { body(ObjectIdentifier(self)) }
    func allowance(at now: ContinuousClock.Instant) -> Int {
        guard let permits else { return .max }
        return permitsFrom.map { now < $0 } == true ? 0 : permits
    }
    var nextPermit: ContinuousClock.Instant? { permits == nil || permits == 0 ? nil : permitsFrom }
    func noteSent(_ count: Int) { permits = permits.map { $0 - count } }

    /// Sends what a turn allows, but no more than `most`. Returns the number of pushes.
    func send(_ turn: Turns<FakeContender>.Turn, most: Int = .max) -> Int {
        var left = min(turn.room, most)
        for lane in turn.isUrgent ? 0..<1 : 0..<3 {
            let count = min(left, waiting[lane])
            waiting[lane] -= count
            sent[lane] += count
            left -= count
        }
        return min(turn.room, most) - left
    }

    var sentInAll: Int { sent.reduce(0, +) }
}

extension Turns<FakeContender> {
    /// Runs a round in which every queue sends what it may. Returns the turns in order.
    @discardableResult
    mutating func round(_ now: ContinuousClock.Instant = .now) -> [(queue: FakeContender, isUrgent: Bool, sent: Int)] {
        var all: [(FakeContender, Bool, Int)] = []
        beginRound(now: now)
        while let turn = next(now: now) {
            let count = turn.queue.send(turn)
            note(sent: count, inSilence: 0, at: now)
            all.append((turn.queue, turn.isUrgent, count))
        }
        endRound(now: now)
        return all
    }
}
