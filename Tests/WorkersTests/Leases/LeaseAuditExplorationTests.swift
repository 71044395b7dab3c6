import TestSupport
import Testing

@testable import Workers

/// A worker that claims, a PostgreSQL whose answers may be late or lost, and a lease audit. Events are random.
private struct AuditWorld {
    enum Promise: String, CaseIterable {
        case keepsWhatIsHeld = "no lease is given back that is held, or will be"
        case findsWhatIsLost = "a lease that nobody knows of is given back within a bounded time"
        case ends = "after the order to stop it ends"
    }

    enum Sabotage: CaseIterable {
        case awaitsNoClaims, forgetsLostAnswers, neverStops

        var breaks: Promise {
            switch self {
            case .awaitsNoClaims: .keepsWhatIsHeld
            case .forgetsLostAnswers: .findsWhatIsLost
            case .neverStops: .ends
            }
        }
    }

    private(set) var broken: Promise?
    private(set) var givenBack = 0
    private let sabotage: Sabotage?
    private var chance: SeededGenerator
    private var state = LeaseAuditState(pause: .seconds(5), shortPause: .milliseconds(500))
    private var now = Duration.zero
    private var nextLease = 0

    /// The leases in the database, those that the worker holds, and those of claims whose answer is on its way.
    private var stored: Set<Int> = []
    private var held: Set<Int> = []
    private var onTheirWay: [(lease: Int, isLost: Bool)] = []
    /// Of these, the leases that PostgreSQL has not stored yet.
    private var underWay: Set<Int> = []
    private var lostSince: [Int: Duration] = [:]
    private var found: Set<Int> = []

    init(seed: UInt64, sabotage: Sabotage?) {
        chance = SeededGenerator(seed: seed)
        self.sabotage = sabotage
    }

    mutating func run(steps: Int) {
        for _ in 0..<steps where broken == nil {
            for _ in 0..<Int.random(in: 0...2, using: &chance) { happen() }
            step()
        }
        while !onTheirWay.isEmpty { answer() }
        if sabotage != .neverStops { state.stop() }
        for _ in 0..<10 where broken == nil && !state.hasEnded { step() }
        if broken == nil, !state.hasEnded { broken = .ends }
    }

    private mutating func happen() {
        switch Int.random(in: 0..<5, using: &chance) {
        case 0 where onTheirWay.isEmpty:
            state.noteClaimBegun()
            nextLease += 1
            underWay.insert(nextLease)
            onTheirWay.append((nextLease, isLost: Int.random(in: 0..<5, using: &chance) == 0))
        case 1: answer()
        case 2:
            guard let lease = held.sorted().randomElement(using: &chance) else { return }
            held.remove(lease)
            stored.remove(lease)
        case 3: carryOut()
        default: break
        }
    }

    private mutating func carryOut() {
        stored.formUnion(underWay)
        underWay = []
    }

    private mutating func answer() {
        guard !onTheirWay.isEmpty else { return }
        carryOut()
        let (lease, isLost) = onTheirWay.removeFirst()
        if isLost { lostSince[lease] = now } else { held.insert(lease) }
        state.noteClaimEnded(isAnswered: !isLost || sabotage == .forgetsLostAnswers)
    }

    private mutating func step() {
        switch state.next() {
        case .wait(let pause): now += pause
        case .ask:
            let known = held
            let isSeenLate = Bool.random(using: &chance)
            if isSeenLate { happen() }
            found = stored.subtracting(known)
            if sabotage == .forgetsLostAnswers { found = [] }
            for _ in 0..<Int.random(in: 0...2, using: &chance) { happen() }
            if Int.random(in: 0..<8, using: &chance) == 0 { return state.noteNoAnswer() }
            state.noteFound(found.count)
        case .awaitClaim:
            guard sabotage == .awaitsNoClaims else { return answer() }
            for lease in found.intersection(onTheirWay.filter { !$0.isLost }.map(\.lease)) { giveBack(lease) }
            answer()
        case .giveBack:
            for lease in found.subtracting(held) { giveBack(lease) }
            state.noteGivenBack(true)
        case .end: break
        }
        // The audit asks about a lost lease after half a second, or later while answers are lost.
        if let since = lostSince.values.min(), now - since > .seconds(30) { broken = .findsWhatIsLost }
    }

    private mutating func giveBack(_ lease: Int) {
        if held.contains(lease) || onTheirWay.contains(where: { $0.lease == lease && !$0.isLost }) {
            broken = .keepsWhatIsHeld
        }
        guard stored.remove(lease) != nil else { return }
        lostSince[lease] = nil
        givenBack += 1
    }
}

/// Checks the promises of the lease audit in random sequences of events, without PostgreSQL.
@Suite struct `Auditing leases, in any order of events` {
    @Test func `gives back what is lost, and nothing else`() {
        explore(seeds: 200, reaching: ["given back"], moreThan: 1000) { seed in
            var world = AuditWorld(seed: seed, sabotage: nil)
            world.run(steps: 200)
            return (world.broken.map { "broken: \($0.rawValue)" }, ["given back": world.givenBack])
        }
    }

    @Test func `is found out when it breaks a promise`() {
        for sabotage in AuditWorld.Sabotage.allCases {
            let broken = firstBroken(seeds: 300) { seed in
                var world = AuditWorld(seed: seed, sabotage: sabotage)
                world.run(steps: 200)
                return world.broken
            }
            #expect(broken == sabotage.breaks)
        }
    }
}
