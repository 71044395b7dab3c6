import APNs
import Foundation
import QueueCore
import TestSupport
import Testing

@testable import PostgresStore
@testable import Workers

/// Served queues, and a clock that the test moves. The test decides what a reading finds.
private final class Dialogue {
    var served: ServedQueues
    var now = ContinuousClock.now
    var generator = SeededGenerator(seed: 1)
    let jobs = HeldJobs()
    private(set) var reports: [String] = []
    private(set) var yielded: [Int32] = []
    private(set) var rested: [Int32] = []

    init(pattern: String = "*") {
        var settings = EngineSettings()
        settings.queues = pattern
        served = ServedQueues(settings, now: now)
    }

    static func settings(
        _ id: Int32 = 1, credential: CredentialVersion? = .init(id: 1, version: 1), isPaused: Bool = false,
        expiredAt: Date? = nil
    ) -> QueueSettings {
        QueueSettings(
            queueID: id, tenantID: 1, name: QueueName(tenant: "acme", app: "com.acme.n\(id)", environment: .sandbox),
            weight: 2, tenantWeight: 1,
            connections: 4, tenantConnections: nil, maxAttempts: 3, gateway: .http2, derivesCollapseID: true, rate: nil,
            tenantRate: nil,
            isPaused: isPaused,
            credential: credential.map {
                StoredCredential(
                    id: $0.id, tenantID: 9, version: $0.version, kind: .certificate(fingerprint: []), sealed: [],
                    expiredAt: expiredAt)
            })
    }

    func carryOut(_ actions: [ServedQueues.Action]) {
        for action in actions {
            switch action {
            case .report(let event): reports.append(event.description)
            case .yieldJobs(let queue): yielded.append(queue.id)
            case .restGateways(let queue): rested.append(queue.id)
            }
        }
    }

    /// Answers a reading with the settings found.
    func answer(_ reading: ServedQueues.Reading, _ found: [QueueSettings]) {
        for settings in found {
            guard let change = served.note(settings, of: reading, now: now) else { continue }
            if change.queue.route == nil, settings.credential != nil {
                change.queue.route = GatewayRoute(FakeGateway())
            }
            carryOut(served.noteGateways(after: change, now: now))
        }
        carryOut(served.noteAnswered(reading, found: found.map(\.queueID)))
    }

    /// Learns one queue.
    func learn(_ settings: QueueSettings) -> QueueState {
        answer(served.beginReading(served.learn([settings.queueID], forClaim: true, now: now)[0]), [settings])
        return served[settings.queueID]!
    }

    /// Makes the worker hold a job of a queue.
    func hold(_ queue: QueueState) -> HeldJob {
        jobs.insert(of: queue) { JobFixture.job(recipients: 1, queueID: queue.id, slot: $0) }
    }

    func fault(_ queue: QueueState) { carryOut(served.noteFault(of: queue, "InvalidProviderToken", now: now)) }

    func note(_ answer: ServedQueues.PauseAnswer, to pause: ServedQueues.Pause) {
        carryOut(served.note(answer, to: pause, now: now, using: &generator))
    }
}

@Suite struct `Knowing the settings of queues` {
    @Test func `reads each queue once, and again when it has work after a pause`() {
        let dialogue = Dialogue()
        _ = dialogue.learn(Dialogue.settings())
        #expect(dialogue.served.learn([1], forClaim: true, now: dialogue.now).isEmpty)
        dialogue.now += .seconds(5)
        #expect(dialogue.served.learn([1, 2], forClaim: true, now: dialogue.now) == [[1, 2]])
    }

    @Test func `reads so many at once that opening their credentials takes no seconds`() {
        let dialogue = Dialogue()
        #expect(dialogue.served.learn(Set(1...250), forClaim: true, now: dialogue.now).map(\.count) == [100, 100, 50])
    }

    @Test func `leaves queues alone that are another worker's, or gone, until the next round`() {
        let dialogue = Dialogue(pattern: "acme/com.acme.n1/*")
        dialogue.answer(
            dialogue.served.beginReading(dialogue.served.learn([1, 2, 3], forClaim: true, now: dialogue.now)[0]),
            [Dialogue.settings(1), Dialogue.settings(2)])
        #expect([1, 2, 3].map { dialogue.served[$0] != nil } == [true, false, false])
        #expect(dialogue.served.learn([1, 2, 3], forClaim: true, now: dialogue.now).isEmpty)
        _ = dialogue.served.readAgain(now: dialogue.now)
        #expect(dialogue.served.learn([1, 2, 3], forClaim: true, now: dialogue.now) == [[2, 3]])
    }

    @Test func `reads those in use every time, and the others once a minute`() {
        let dialogue = Dialogue()
        let busy = dialogue.learn(Dialogue.settings(1))
        _ = dialogue.learn(Dialogue.settings(2))
        busy.inFlight = 1
        dialogue.now += .seconds(30)
        #expect(dialogue.served.readAgain(now: dialogue.now) == [[1]])
        dialogue.now += .seconds(30)
        #expect(dialogue.served.readAgain(now: dialogue.now) == [[1, 2]], "it has connections")
        dialogue.now += .seconds(3600)
        #expect(dialogue.served.readAgain(now: dialogue.now) == [[1]])
        #expect(dialogue.served[2] == nil)
    }

    @Test func `reads those that wait for a connection when they are claimed, and not again and again before`() {
        let dialogue = Dialogue()
        let queue = dialogue.learn(Dialogue.settings())
        dialogue.now += .seconds(5)
        (queue.route?.gateway as? FakeGateway)?.state = .idle
        #expect(queue.waitsForTurn)
        #expect(dialogue.served.learn([1], forClaim: false, now: dialogue.now).isEmpty)
        #expect(dialogue.served.readAgain(now: dialogue.now).isEmpty)
        #expect(dialogue.served.learn([1], forClaim: true, now: dialogue.now) == [[1]])
        queue.isBlocked = true
        #expect(dialogue.served.learn([1], forClaim: false, now: dialogue.now) == [[1]], "it may be mended")
        dialogue.now += .seconds(60)
        queue.isBlocked = false
        _ = dialogue.served.learn([1], forClaim: false, now: dialogue.now)
        #expect(dialogue.served.readAgain(now: dialogue.now) == [[1]], "once a minute like all")
    }

    @Test func `does not go back to what a reading saw that began before another`() {
        let dialogue = Dialogue()
        let queue = dialogue.learn(Dialogue.settings())
        dialogue.now += .seconds(5)
        let early = dialogue.served.beginReading(dialogue.served.learn([1], forClaim: true, now: dialogue.now)[0])
        dialogue.served.doubt([1])
        let late = dialogue.served.beginReading(dialogue.served.readDoubted()[0])
        dialogue.answer(late, [Dialogue.settings(isPaused: true)])
        dialogue.answer(early, [Dialogue.settings(isPaused: false)])
        #expect(queue.settings.isPaused)
        #expect(
            dialogue.reports
                == ["acme/com.acme.n1/sandbox is paused"].map { text in
                    dialogue.reports.first { $0.contains(text) } ?? ""
                })
    }

    @Test func `stays paused when it hears of a pause while older settings are on their way`() {
        let dialogue = Dialogue()
        let queue = dialogue.learn(Dialogue.settings())
        dialogue.now += .seconds(5)
        let early = dialogue.served.beginReading(dialogue.served.learn([1], forClaim: true, now: dialogue.now)[0])
        _ = dialogue.hold(queue)
        dialogue.carryOut(dialogue.served.halt(1))
        #expect(dialogue.yielded == [1])
        dialogue.answer(early, [Dialogue.settings(isPaused: false)])
        #expect(!queue.mayWork)
        dialogue.answer(
            dialogue.served.beginReading(dialogue.served.readDoubted()[0]), [Dialogue.settings(isPaused: false)])
        #expect(queue.mayWork)
        // Whoever reads the log sees why it stood still.
        #expect(
            dialogue.reports.map { String($0.prefix { $0 != "," }) } == [
                "acme/com.acme.n1/sandbox is paused", "acme/com.acme.n1/sandbox resumed",
            ])
    }

    /// To find the jobs of a queue, the worker looks at all that it holds, of whatever queue.
    @Test func `gives back what is held of a paused queue at each reading, and looks for nothing where none is`() {
        let dialogue = Dialogue()
        let paused = Dialogue.settings(isPaused: true)
        let queue = dialogue.learn(paused)
        let working = dialogue.learn(Dialogue.settings(2))
        _ = dialogue.hold(working)
        func read() { dialogue.answer(dialogue.served.beginReading([1]), [paused]) }
        read()
        #expect(dialogue.yielded.isEmpty)
        let jobs = (0..<2).map { _ in dialogue.hold(queue) }
        // Such a job stays in its slot until its end is written, and another one may have come meanwhile.
        read()
        dialogue.jobs.remove(jobs[0])
        read()
        #expect(dialogue.yielded == [1, 1])
        dialogue.jobs.remove(jobs[1])
        read()
        dialogue.answer(dialogue.served.beginReading([1]), [])
        #expect(dialogue.yielded == [1, 1])
        dialogue.answer(dialogue.served.beginReading([2]), [])
        #expect(dialogue.yielded == [1, 1, 2])
    }

    @Test func `does not bring back a queue that is gone with what a reading saw before`() {
        let dialogue = Dialogue()
        _ = dialogue.learn(Dialogue.settings())
        let early = dialogue.served.beginReading([1])
        dialogue.answer(dialogue.served.beginReading([1]), [])
        dialogue.answer(early, [Dialogue.settings()])
        #expect(dialogue.served[1] == nil)
    }

    @Test func `says once when a gateway may be used no more`() {
        let dialogue = Dialogue()
        let queue = dialogue.learn(Dialogue.settings())
        func isReleased() -> Bool { dialogue.served.takeReleasedGateways() }
        #expect(!isReleased())
        func read(_ found: [QueueSettings]) -> Bool {
            dialogue.answer(dialogue.served.beginReading([queue.id]), found)
            return isReleased()
        }
        #expect(!read([Dialogue.settings(isPaused: true)]))
        #expect(read([Dialogue.settings(credential: .init(id: 1, version: 2))]))
        #expect(!read([Dialogue.settings(credential: .init(id: 1, version: 2))]))
        #expect(read([Dialogue.settings(credential: .init(id: 1, version: 2), expiredAt: .now)]))
        #expect(read([]), "it is gone")
        #expect(!isReleased())
    }

    @Test func `gives back what is held of a queue that is gone, and serves it no more`() {
        let dialogue = Dialogue()
        let queue = dialogue.learn(Dialogue.settings())
        dialogue.fault(queue)
        dialogue.served.doubt([1])
        dialogue.answer(dialogue.served.beginReading(dialogue.served.readDoubted()[0]), [])
        #expect(dialogue.served[1] == nil && !queue.mayWork)
        #expect(dialogue.served.duePauses(now: dialogue.now + .seconds(100)).isEmpty, "nobody is left to be paused")
    }
}

@Suite struct `A queue whose credential APNs refuses` {
    private func blocked() -> (Dialogue, QueueState) {
        let dialogue = Dialogue()
        let queue = dialogue.learn(Dialogue.settings())
        _ = dialogue.hold(queue)
        dialogue.fault(queue)
        return (dialogue, queue)
    }

    @Test func `stops at once, gives back what is held, and is paused once for the fleet`() {
        let (dialogue, queue) = blocked()
        #expect(!queue.mayWork)
        #expect(dialogue.yielded == [1] && dialogue.rested == [1])
        dialogue.fault(queue)
        let pauses = dialogue.served.duePauses(now: dialogue.now)
        #expect(pauses.map(\.credential) == [.init(id: 1, version: 1)])
        dialogue.note(.written(isNews: true), to: pauses[0])
        #expect(dialogue.served.duePauses(now: dialogue.now).isEmpty)
        #expect(dialogue.reports.count == 1 && queue.settings.isPaused)
    }

    @Test func `stays stopped while the pause cannot be written, which is tried ever more seldom`() {
        let (dialogue, queue) = blocked()
        var waits = 0
        for _ in 0..<5 {
            let pauses = dialogue.served.duePauses(now: dialogue.now)
            #expect(pauses.count == 1)
            dialogue.note(.refused, to: pauses[0])
            while dialogue.served.duePauses(now: dialogue.now).isEmpty {
                dialogue.now += .milliseconds(100)
                waits += 1
            }
            #expect(!queue.mayWork)
        }
        #expect(waits > 50)
    }

    @Test func `sends again with another credential, and not before that has its connections`() {
        let (dialogue, queue) = blocked()
        dialogue.served.doubt([1])
        let reading = dialogue.served.beginReading(dialogue.served.readDoubted()[0])
        let replaced = Dialogue.settings(credential: .init(id: 1, version: 2))
        let change = dialogue.served.note(replaced, of: reading, now: dialogue.now)!
        #expect(!queue.mayWork, "it would go out over the connections of the old one")
        dialogue.carryOut(dialogue.served.noteGateways(after: change, now: dialogue.now))
        #expect(queue.mayWork)
        #expect(dialogue.served.duePauses(now: dialogue.now).isEmpty)
    }

    @Test func `sends again with the first version of another credential`() {
        let (dialogue, queue) = blocked()
        dialogue.served.doubt([1])
        dialogue.answer(
            dialogue.served.beginReading(dialogue.served.readDoubted()[0]),
            [Dialogue.settings(credential: .init(id: 2, version: 1))])
        #expect(queue.mayWork)
    }

    @Test func `is not paused for what the old connections are told while the new ones are opened`() {
        let dialogue = Dialogue()
        let queue = dialogue.learn(Dialogue.settings())
        dialogue.served.doubt([1])
        let reading = dialogue.served.beginReading(dialogue.served.readDoubted()[0])
        let replaced = Dialogue.settings(credential: .init(id: 1, version: 2))
        let change = dialogue.served.note(replaced, of: reading, now: dialogue.now)!
        dialogue.fault(queue)
        dialogue.carryOut(dialogue.served.noteGateways(after: change, now: dialogue.now))
        #expect(queue.mayWork)
        #expect(dialogue.served.duePauses(now: dialogue.now).isEmpty)
    }

    @Test func `waits for its settings where the pause was not needed, and is not said to be resumed`() {
        let (dialogue, queue) = blocked()
        let early = dialogue.served.beginReading(
            dialogue.served.learn([1], forClaim: true, now: dialogue.now + .seconds(5))[0])
        dialogue.note(.written(isNews: false), to: dialogue.served.duePauses(now: dialogue.now)[0])
        dialogue.answer(early, [Dialogue.settings()])
        #expect(!queue.mayWork, "that reading may be of the time before")
        dialogue.answer(
            dialogue.served.beginReading(dialogue.served.readDoubted()[0]),
            [Dialogue.settings(credential: .init(id: 1, version: 2))])
        #expect(queue.mayWork)
        #expect(dialogue.reports.isEmpty)
    }

    @Test func `is paused before it connects, if its certificate has expired`() {
        let dialogue = Dialogue()
        let queue = dialogue.learn(Dialogue.settings(expiredAt: .now))
        #expect(!queue.mayWork)
        #expect(dialogue.served.duePauses(now: dialogue.now).map { $0.reason.contains("expired") } == [true])
    }
}
