import QueueCore
import TestSupport
import Testing

@testable import PostgresStore
@testable import Workers

/// Queues whose credentials change, gateways that take time to open or fail to open, and rounds that drop unused
/// gateways.
private struct GatewayTableWorld {
    private final class Gateway {
        let secret: UInt8
        let use: GatewayUse
        var isGone = false

        init(secret: UInt8, use: GatewayUse) { (self.secret, self.use) = (secret, use) }
    }

    private(set) var violation: String?
    private(set) var reached: [String: Int] = [:]
    private var generator: SeededGenerator
    private var now = ContinuousClock.now
    private var table = GatewayTable<Gateway>()
    private var queues: [Int32: QueueSettings] = [:]
    private var secrets: [CredentialVersion: UInt8] = [:]
    /// Unusable credentials.
    private var broken: Set<CredentialVersion> = []
    private var opening: [GatewayUse] = []
    private var all: [Gateway] = []
    private var triedAt: [GatewayUse: ContinuousClock.Instant] = [:]
    private var isSaid: Set<[Int32]> = []

    init(seed: UInt64) {
        generator = SeededGenerator(seed: seed)
        for id in 1...5 as ClosedRange<Int32> { change(id) }
    }

    private mutating func fail(_ promise: String) { violation = violation ?? promise }

    private mutating func change(_ id: Int32) {
        let credential = CredentialVersion(
            id: .random(in: 1...3, using: &generator), version: .random(in: 1...2, using: &generator))
        secrets[credential] = secrets[credential] ?? UInt8.random(in: 1...3, using: &generator)
        queues[id] = QueueSettings(
            queueID: id, tenantID: credential.id / 3,
            name: QueueName(
                tenant: "acme", app: "com.acme.n\(id)",
                environment: Bool.random(using: &generator) ? .sandbox : .production),
            weight: 1, tenantWeight: 1, connections: .random(in: 1...2, using: &generator), tenantConnections: nil,
            maxAttempts: 3,
            gateway: Int.random(in: 0...4, using: &generator) == 0 ? .binary : .http2, derivesCollapseID: true,
            rate: nil, tenantRate: nil,
            isPaused: false,
            credential: StoredCredential(
                id: credential.id, tenantID: credential.id / 3, version: credential.version,
                kind: .certificate(fingerprint: []),
                sealed: [],
                expiredAt: nil))
    }

    private var uses: [GatewayUse] { queues.values.compactMap { GatewayUse($0) } }

    mutating func run(events count: Int) {
        for _ in 0..<count where violation == nil { step() }
        for gateway in table.close() {
            if gateway.isGone { fail("a gateway is open that was dropped") }
            gateway.isGone = true
        }
        while !opening.isEmpty { finishOpening() }
        if all.contains(where: { !$0.isGone }) { fail("a gateway stays open after the end") }
    }

    private mutating func step() {
        switch Int.random(in: 0..<20, using: &generator) {
        case ..<8: look()
        case ..<12: finishOpening()
        case ..<14: change(.random(in: 1...5, using: &generator))
        case 14: queues[.random(in: 1...5, using: &generator)] = nil
        case 15:
            let credential = secrets.keys.sorted { ($0.id, $0.version) < ($1.id, $1.version) }
                .randomElement(using: &generator)!
            if broken.remove(credential) == nil { broken.insert(credential) }
        case 16: now += .seconds(Int.random(in: 1...70, using: &generator))
        default: drop()
        }
    }

    /// A queue asks for its gateway.
    private mutating func look() {
        guard let id = queues.keys.sorted().randomElement(using: &generator), let use = GatewayUse(queues[id]!) else {
            return
        }
        switch table.find(use, now: now) {
        case .open(let gateway):
            reached["found", default: 0] += 1
            if gateway.isGone { fail("a queue gets a gateway that was dropped") }
            let theirs = gateway.use
            if gateway.secret != secrets[use.credential] || theirs.credential.id / 3 != use.credential.id / 3
                || theirs.credential.version != use.credential.version
                || theirs.environment != use.environment || theirs.interface != use.interface
                || theirs.connections != use.connections
            {
                fail("a queue gets a gateway that is for another use")
            }
        case .unopened:
            if let tried = triedAt[use], now < tried + .seconds(60) { fail("a credential is tried again too soon") }
            opening.append(use)
        case .unusable: reached["unusable", default: 0] += 1
        }
    }

    /// Opening a credential succeeds or fails.
    private mutating func finishOpening() {
        guard let index = opening.indices.randomElement(using: &generator) else { return }
        let use = opening.remove(at: index)
        let kind = [use.credential.id, use.credential.version, use.interface == .binary ? 1 : 0]
        guard !broken.contains(use.credential) else {
            triedAt[use] = now
            let isNews = table.noteUnusable(use, because: "no key", now: now)
            if isNews == isSaid.contains(kind) { fail("that a credential is unusable is said twice, or never") }
            isSaid.insert(kind)
            return
        }
        table.note(secret: [secrets[use.credential]!], of: use.credential)
        let gateway = Gateway(secret: secrets[use.credential]!, use: use)
        all.append(gateway)
        switch table.insert(gateway, for: use) {
        case .inserted:
            triedAt[use] = nil
            isSaid.remove(kind)
            triedAt = triedAt.filter { $0.key.credential != use.credential || $0.key.interface != use.interface }
        case .superseded, .tooLate:
            if case .superseded = table.insert(gateway, for: use) {
                isSaid.remove(kind)
                triedAt = triedAt.filter { $0.key.credential != use.credential || $0.key.interface != use.interface }
            }
            gateway.isGone = true
            reached["superseded", default: 0] += 1
        }
    }

    /// A round drops unused gateways.
    private mutating func drop() {
        let used = uses
        let before = used.compactMap { use in
            if case .open(let gateway) = table.find(use, now: now) { gateway } else { nil }
        }
        for gateway in table.keepOnly(used) {
            if gateway.isGone { fail("a gateway is dropped twice") }
            if before.contains(where: { $0 === gateway }) { fail("a gateway is dropped that is used") }
            gateway.isGone = true
            reached["dropped", default: 0] += 1
        }
        for gateway in table.entries where !before.contains(where: { $0 === gateway }) {
            fail("a gateway is kept that nobody uses")
        }
        let credentials = Set(used.map(\.credential))
        isSaid = isSaid.filter { credentials.contains(CredentialVersion(id: $0[0], version: $0[1])) }
        triedAt = triedAt.filter { credentials.contains($0.key.credential) }
    }
}

/// Checks the promises of ``GatewayTable`` in random sequences of events.
@Suite struct `Which gateway serves whom, in any order of events` {
    @Test func `is always one of its own, which is open while it is used and dropped once after`() {
        explore(seeds: 60, reaching: ["found", "unusable", "superseded", "dropped"], moreThan: 20) { seed in
            var world = GatewayTableWorld(seed: seed)
            world.run(events: 300)
            return (world.violation, world.reached)
        }
    }
}
