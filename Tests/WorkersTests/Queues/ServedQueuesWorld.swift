import APNs
import QueueCore
import TestSupport

@testable import PostgresStore
@testable import Workers

/// Queues in a database that operators change, a worker that serves them, and APNs that refuses some credentials.
/// Readings and pauses are answered late and in any order. Events are random; the promises are checked after each
/// event.
final class ServedQueuesWorld {
    /// The row of a queue in the database.
    private struct Row {
        var credential: CredentialVersion?
        var isPaused = false
        /// Grows with each change. The settings show it as the maximum number of attempts.
        var revision = 1
    }

    private static let count: Int32 = 6

    private(set) var violation: String?
    private(set) var events: [String] = []
    private(set) var reached: [String: Int] = [:]

    private var generator: SeededGenerator
    private var now = ContinuousClock.now
    private var served: ServedQueues
    private var rows: [Int32: Row] = [:]
    /// The credentials that APNs refuses.
    private var bad: Set<CredentialVersion> = []
    private var revision = 1

    /// Queues to be read, readings that the database has carried out, and settings that wait for gateways.
    private var asked: [[Int32]] = []
    private var answered: [(reading: ServedQueues.Reading, found: [QueueSettings])] = []
    private var opening: [(change: ServedQueues.Change, credential: CredentialVersion?)] = []
    private var pause: ServedQueues.Pause?
    private var paused: [Int32: Set<CredentialVersion>] = [:]

    /// The credential with which each gateway sends.
    private var gateways: [ObjectIdentifier: (gateway: FakeGateway, credential: CredentialVersion)] = [:]
    /// Queues that must not send with a refused credential until this revision of their row was read.
    private var refused: [Int32: (credential: CredentialVersion, since: Int)] = [:]
    private var kept: [QueueState] = []
    private var haltedAt: [Int32: Int] = [:]

    init(seed: UInt64) {
        generator = SeededGenerator(seed: seed)
        served = ServedQueues(EngineSettings(), now: now)
        for id in 1...Self.count { rows[id] = Row(credential: CredentialVersion(id: id, version: 1)) }
    }

    private func chance(_ share: Double) -> Bool { Double.random(in: 0..<1, using: &generator) < share }
    private func anyID() -> Int32 { Int32.random(in: 1...Self.count, using: &generator) }

    private func happened(_ event: String) {
        events.append(event)
        reached[event, default: 0] += 1
    }

    private func broken(_ promise: String) { violation = violation ?? promise }

    func run(events count: Int) {
        for _ in 0..<count where violation == nil {
            step()
            check()
        }
    }

    private func step() {
        switch Int.random(in: 0..<100, using: &generator) {
        case ..<15: asked += served.learn(Set((0..<2).map { _ in anyID() }), forClaim: chance(0.5), now: now)
        case ..<20: asked += served.readAgain(now: now)
        case ..<25: asked += served.readDoubted()
        case ..<42: carryOutReading()
        case ..<59: answerReading()
        case ..<75: openGateway()
        case ..<83: refuse()
        case ..<88: stepPause()
        case ..<94: operate()
        case ..<96: notify()
        default: now += .milliseconds(Int.random(in: 1...3000, using: &generator))
        }
    }

    // MARK: The database

    private func settings(_ id: Int32, _ row: Row) -> QueueSettings {
        QueueSettings(
            queueID: id, tenantID: 1, name: QueueName(tenant: "acme", app: "com.acme.n\(id)", environment: .sandbox),
            weight: 1, tenantWeight: 1,
            connections: 4, tenantConnections: nil, maxAttempts: row.revision, gateway: .http2, derivesCollapseID: true,
            rate: nil,
            tenantRate: nil,
            isPaused: row.isPaused,
            credential: row.credential.map {
                StoredCredential(
                    id: $0.id, tenantID: 1, version: $0.version, kind: .certificate(fingerprint: []), sealed: [],
                    expiredAt: nil)
            })
    }

    private func change(_ id: Int32, _ body: (inout Row) -> Void) {
        guard var row = rows[id] else { return }
        body(&row)
        revision += 1
        row.revision = revision
        rows[id] = row
    }

    /// An operator pauses or resumes the queue, replaces its credential, gives it another one, or removes it.
    private func operate() {
        let id = anyID()
        switch Int.random(in: 0..<12, using: &generator) {
        case ..<3: change(id) { $0.isPaused = true }
        case ..<6: change(id) { $0.isPaused = false }
        case ..<9:
            change(id) { row in
                row.credential = row.credential.map { CredentialVersion(id: $0.id, version: $0.version + 1) }
                row.isPaused = false
            }
        case 9: change(id) { $0 = Row(credential: CredentialVersion(id: $0.credential!.id % 6 + 1, version: 1)) }
        case 10: rows[id] = nil
        default:
            revision += 1
            if rows[id] == nil { rows[id] = Row(credential: CredentialVersion(id: id, version: 1), revision: revision) }
        }
        happened("operate")
    }

    private func carryOutReading() {
        guard !asked.isEmpty else { return }
        let reading = served.beginReading(asked.remove(at: Int.random(in: asked.indices, using: &generator)))
        answered.append((reading, reading.ids.compactMap { id in rows[id].map { settings(id, $0) } }))
    }

    /// Answers to one loop come in the order of its readings. Answers to another loop come between them.
    private func answerReading() {
        guard !answered.isEmpty else { return }
        let (reading, found) = answered.remove(at: Int.random(in: answered.indices, using: &generator))
        for settings in found {
            let before = served[settings.queueID]
            let revision = before?.settings.maxAttempts ?? 0
            guard let change = served.note(settings, of: reading, now: now) else {
                happened("out of date")
                continue
            }
            if before === change.queue, settings.maxAttempts < revision {
                broken("queue \(settings.queueID) went back to revision \(settings.maxAttempts) from \(revision)")
            }
            if before == nil { kept.append(change.queue) }
            opening.append((change, change.queue.settings.credential.map(CredentialVersion.init)))
        }
        carryOut(served.noteAnswered(reading, found: found.map(\.queueID)))
        happened("reading")
    }

    private func openGateway() {
        guard !opening.isEmpty else { return }
        let (change, credential) = opening.remove(at: Int.random(in: opening.indices, using: &generator))
        let queue = change.queue
        if served.isCurrent(change), let credential,
            queue.route.map({ gateways[ObjectIdentifier($0.gateway)]!.credential }) != credential
        {
            let gateway = FakeGateway()
            gateways[ObjectIdentifier(gateway)] = (gateway, credential)
            queue.route = GatewayRoute(gateway)
        }
        carryOut(served.noteGateways(after: change, now: now))
    }

    private func carryOut(_ actions: [ServedQueues.Action]) {
        for action in actions { if case .report(.queuePaused) = action { happened("paused") } }
    }

    // MARK: Refusals and pauses

    /// APNs refuses a push of a queue.
    private func refuse() {
        let id = anyID()
        guard let queue = served[id], let gateway = queue.route?.gateway as? FakeGateway else { return }
        let credential = gateways[ObjectIdentifier(gateway)]!.credential
        if chance(0.3) { bad.insert(credential) }
        guard bad.contains(credential) else { return }
        let isOfSettings = queue.settings.credential.map(CredentialVersion.init) == credential
        carryOut(served.noteFault(of: queue, "InvalidProviderToken", now: now))
        if isOfSettings { refused[id] = refused[id] ?? (credential, queue.settings.maxAttempts) }
        happened("refuse")
    }

    private func stepPause() {
        guard let pause else {
            self.pause = served.duePauses(now: now).randomElement(using: &generator)
            return
        }
        self.pause = nil
        if chance(0.3) {
            happened("refused pause")
            return carryOut(served.note(.refused, to: pause, now: now, using: &generator))
        }
        let row = rows[pause.queueID]
        let isNews = row.map { !$0.isPaused && $0.credential == pause.credential } ?? false
        if isNews {
            if !bad.contains(pause.credential) { broken("queue \(pause.queueID) is paused and its credential is good") }
            change(pause.queueID) { $0.isPaused = true }
        }
        if chance(0.2) { return happened("pause without an answer") }
        carryOut(served.note(.written(isNews: isNews), to: pause, now: now, using: &generator))
    }

    private func notify() {
        let id = anyID()
        if rows[id]?.isPaused == true, served[id] != nil {
            haltedAt[id] = rows[id]!.revision
            carryOut(served.halt(id))
        } else {
            served.doubt([id])
        }
        happened("notify")
    }

    // MARK: Promises

    private func check() {
        for id in 1...Self.count {
            guard let queue = served[id], queue.mayWork, let gateway = queue.route?.gateway else { continue }
            let revision = queue.settings.maxAttempts
            if let halted = haltedAt[id], revision <= halted { broken("queue \(id) sends, and is known to be paused") }
            let credential = gateways[ObjectIdentifier(gateway)]!.credential
            guard let (refusedOne, since) = refused[id], refusedOne == credential else { continue }
            if revision <= since {
                broken("queue \(id) sends with a credential that was refused")
            } else {
                refused[id] = nil
            }
        }
        for id in 1...Self.count {
            if let row = rows[id], let (one, _) = refused[id], row.credential != one { refused[id] = nil }
        }
    }

    /// Answers everything, and checks that the worker agrees with the database.
    func settle() {
        for _ in 0..<20 where violation == nil {
            now += .seconds(61)
            asked +=
                served.readDoubted() + served.learn(Set(1...Self.count), forClaim: true, now: now)
                + served.readAgain(now: now)
            while !asked.isEmpty || !answered.isEmpty {
                carryOutReading()
                answerReading()
            }
            while !opening.isEmpty { openGateway() }
            pause = nil
            for pause in served.duePauses(now: now) {
                let isNews = rows[pause.queueID].map { !$0.isPaused && $0.credential == pause.credential } ?? false
                if isNews { change(pause.queueID) { $0.isPaused = true } }
                carryOut(served.note(.written(isNews: isNews), to: pause, now: now, using: &generator))
            }
            check()
        }
        for id in 1...Self.count {
            guard let row = rows[id], let queue = served[id] else {
                if served[id] != nil { broken("queue \(id) is gone and still served") }
                if rows[id] != nil { broken("queue \(id) is not served") }
                continue
            }
            if queue.settings.maxAttempts != row.revision { broken("queue \(id) has old settings") }
            if queue.mayWork == row.isPaused { broken("queue \(id) sends: \(queue.mayWork), paused: \(row.isPaused)") }
        }
    }
}
