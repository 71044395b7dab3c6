import APNs
import FoundationEssentials
import PostgresStore
import QueueCore
import Transport

/// The queues that this worker has met, with their settings: those that have work as of a moment ago, the others as of a minute.
/// A worker may have met ten thousand, of which a few hundred have work; one that has neither work nor connections is forgotten, and
/// after an hour without work in any case.
///
/// Belongs to the engine's event loop.
final class Queues {
    /// A queue without work for so long is in use no more.
    private static let idleAfter = Duration.seconds(10)
    /// How often the settings of queues that are not in use are read.
    private static let idleRefresh = Duration.seconds(60)
    private static let forgottenAfter = Duration.seconds(3600)
    /// Queues whose settings are read by one statement the first time. Each brings its credential, and to open thousands of them in one
    /// turn of the loop takes seconds.
    private static let mostLearned = 100
    /// Those whose settings are read again by one statement.
    private static let mostReadAgain = 2000

    private let store: EngineStore
    private let settings: EngineSettings
    private let jobs: HeldJobs
    private let gateways: Gateways
    private let settler: Settler
    private let report: (EngineEvent) -> Void
    private let pattern: QueuePattern
    private let signal: Signal

    private var known: [Int32: QueueState] = [:]
    /// Queues that are not this worker's to serve, or are gone.
    private var ignored: Set<Int32> = []
    /// Queues whose credential was refused and that are to be paused.
    private var faults: [Fault] = []
    private var generator = SystemRandomNumberGenerator()
    /// Queues whose settings are to be read at once: they were paused or changed.
    private var changed: Set<Int32> = []
    private var isStopping = false
    private var measuredAt = ContinuousClock.now

    /// Why a queue is held, until the pause is written.
    private struct Fault {
        let queue: QueueState
        let reason: String
        /// Of the credential that is at fault; nil if the queue had none by then.
        let credentialVersion: Int32?
        /// How often PostgreSQL has refused to write it, and when it is asked again.
        var refusals = 0
        var nextTry = ContinuousClock.now

        /// Whether the queue has another credential by now, or none.
        var isOver: Bool { queue.settings.credential?.version != credentialVersion || credentialVersion == nil }
    }

    private var allReadAt = ContinuousClock.now

    init(_ context: EngineContext, jobs: HeldJobs, gateways: Gateways, settler: Settler) {
        store = context.stores.claims
        settings = context.settings
        self.jobs = jobs
        self.gateways = gateways
        self.settler = settler
        report = context.report
        pattern = QueuePattern(settings.queues)
        signal = Signal(loop: context.loop)
    }

    /// The queue with this id, if it is this worker's to serve.
    subscript(id: Int32) -> QueueState? { known[id] }

    /// Reads the settings of queues that are met for the first time, or have work again after a pause.
    func learn(_ ids: Set<Int32>) async throws(PostgresError) {
        let now = ContinuousClock.now
        var new: [Int32] = []
        for id in ids {
            guard let queue = known[id] else {
                if !ignored.contains(id) { new.append(id) }
                continue
            }
            queue.lastWanted = now
            if queue.readAt + max(settings.settingsRefresh * 2, .seconds(1)) < now { new.append(id) }
        }
        try await read(new, atMost: Self.mostLearned)
    }

    /// Reads the settings again, so that what an operator changes takes effect; until ``stop()``.
    func run() async {
        var next = ContinuousClock.now + settings.settingsRefresh
        while !isStopping {
            await signal.wait(atMost: max(.zero, ContinuousClock.now.duration(to: next)))
            await readChanged()
            await pauseFaulty()
            guard !isStopping, ContinuousClock.now >= next else { continue }
            next = .now + settings.settingsRefresh
            ignored.removeAll(keepingCapacity: true)
            try? await readAgain()
            weighGateways()
            gateways.keepOnly(usedBy: known.values)
        }
    }

    /// A gateway counts for as much as the queues that use it.
    private func weighGateways() {
        var weights: [ObjectIdentifier: Double] = [:]
        let now = ContinuousClock.now
        for queue in known.values where queue.isInUse(since: now - Self.idleAfter) {
            for gateway in [queue.gateway, queue.broadcastGateway] {
                guard let gateway else { continue }
                weights[ObjectIdentifier(gateway), default: 0] += queue.settings.weight
                gateway.weight = weights[ObjectIdentifier(gateway)] ?? 1
            }
        }
    }

    /// Reads the settings of these queues at once, as far as this worker knows them: somebody says that they have changed.
    func hurry(_ ids: [Int32]) {
        changed.formUnion(ids.filter { known[$0] != nil })
        if !changed.isEmpty { signal.raise() }
    }

    /// The same for all queues of a tenant.
    func hurryAll(ofTenant id: Int32) {
        hurry(known.values.filter { $0.settings.credential?.tenantID == id }.map(\.id))
    }

    /// A queue was paused, or its tenant suspended: nothing more of it is sent from now on.
    func halt(_ id: Int32) {
        guard let queue = known[id], !queue.settings.isPaused else { return }
        queue.settings.isPaused = true
        yieldJobs(of: queue)
        hurry([id])
    }

    private func readChanged() async {
        guard !changed.isEmpty else { return }
        let ids = Array(changed)
        changed = []
        try? await read(ids, atMost: Self.mostReadAgain)
    }

    /// Reads the settings of the queues in use, and every minute those of all.
    private func readAgain() async throws(PostgresError) {
        let now = ContinuousClock.now
        let isAll = allReadAt + Self.idleRefresh <= now
        if isAll {
            allReadAt = now
            forgetUnused(now: now)
        }
        let ids = known.values.filter { isAll || $0.isInUse(since: now - Self.idleAfter) }.map(\.id)
        try await read(ids, atMost: Self.mostReadAgain)
    }

    private func forgetUnused(now: ContinuousClock.Instant) {
        for queue in known.values where !queue.isInUse(since: now - Self.idleAfter) && !queue.isHeld {
            queue.forgetMessages()
            if !queue.hasConnections || !queue.isInUse(since: now - Self.forgottenAfter) { known[queue.id] = nil }
        }
    }

    func stop() {
        isStopping = true
        signal.raise()
    }

    /// Stops sending for a queue whose credential an answer refuses.
    func noteFault(of queue: QueueState, _ refusal: Refusal) {
        let isKnown = refusal.reason != .otherCredential
        noteFault(
            of: queue, isKnown ? refusal.reason.text : "\(refusal.status) \(refusal.text ?? "without a reason")")
    }

    /// Stops sending for a queue whose credential APNs refuses; soon the queue is paused for the fleet.
    /// - Parameter answer: what APNs said: a reason, or its own words where the reason is unknown.
    func noteFault(of queue: QueueState, _ answer: String) {
        hold(queue, because: "APNs answered \(answer): replace the credential, then the queue resumes")
    }

    private func hold(_ queue: QueueState, because reason: String) {
        guard !queue.isHeld else { return }
        queue.isHeld = true
        faults.append(
            Fault(queue: queue, reason: reason, credentialVersion: queue.settings.credential?.version))
        yieldJobs(of: queue)
        restGateways(of: queue)
        signal.raise()
    }

    /// While none of the queues that use a gateway may send, it does not connect: each attempt with a refused certificate would end as the
    /// one before, and count against this machine.
    private func restGateways(of queue: QueueState) {
        for gateway in [queue.gateway, queue.broadcastGateway] {
            guard let gateway, !using(gateway).contains(where: \.mayWork) else { continue }
            gateway.rest()
        }
    }

    /// Pauses the queues whose credential was refused, unless that was replaced meanwhile. A pause that PostgreSQL refuses to write
    /// holds in this worker, and is tried again: to forget it would be to go on sending with that credential.
    private func pauseFaulty() async {
        let now = ContinuousClock.now
        let due = faults.filter { $0.nextTry <= now || $0.isOver }
        faults.removeAll { $0.nextTry <= now || $0.isOver }
        for var fault in due {
            let queue = fault.queue
            guard let version = fault.credentialVersion, !fault.isOver else {
                queue.isHeld = false
                continue
            }
            // Nil, too, while somebody changes the queue and has not committed.
            let paused = await store.persist { [fault] in
                try await $0.pauseQueue(queue.id, reason: fault.reason, credentialVersion: version)
            }
            guard case .some(.some(let paused)) = paused else {
                fault.refusals += 1
                fault.nextTry = .now + Backoff.connection.delay(afterAttempt: fault.refusals, using: &generator)
                faults.append(fault)
                continue
            }
            if paused { report(.queuePaused(queue: queue.settings.name.description, reason: fault.reason)) }
            // From here on the settings say whether it is paused.
            queue.settings.isPaused = true
            queue.isHeld = false
        }
    }

    /// The queues for which APNs is out of reach.
    var unreachable: [Int32] { known.values.filter { !$0.canReachAPNs(now: .now) }.map(\.id) }

    /// The queues that send through a gateway.
    func using(_ gateway: any PushGateway) -> [QueueState] {
        known.values.filter { $0.gateway === gateway || $0.broadcastGateway === gateway }
    }

    /// Their names, for a log.
    func names(using gateway: any PushGateway) -> String {
        let names = using(gateway).map(\.settings.name.description).sorted()
        return names.count > 3 ? "\(names[0]) and \(names.count - 1) more queues" : names.joined(separator: ", ")
    }

    // MARK: Settings

    private func read(_ ids: [Int32], atMost count: Int) async throws(PostgresError) {
        for start in stride(from: 0, to: ids.count, by: count) {
            try await readPart(Array(ids[start..<min(start + count, ids.count)]))
        }
    }

    private func readPart(_ ids: [Int32]) async throws(PostgresError) {
        let found = try await store.connection().queueSettings(ids)
        for settings in found { await apply(settings) }
        let gone = Set(ids).subtracting(found.map(\.queueID))
        for id in gone { forget(id) }
    }

    private func apply(_ new: QueueSettings) async {
        guard pattern.matches(new.name.description) else {
            ignored.insert(new.queueID)
            return
        }
        let queue = known[new.queueID] ?? QueueState(settings: new, now: .now)
        let isNew = known[new.queueID] == nil
        if queue.settings.isPaused != new.isPaused {
            report(new.isPaused ? .queueIsPaused(queue: "\(new.name)") : .queueResumed(queue: "\(new.name)"))
        }
        let didWork = queue.mayWork
        known[new.queueID] = queue
        queue.settings = new
        queue.readAt = .now
        queue.turn.weight = new.weight
        await useGateways(for: queue)
        if isNew, new.credential == nil { report(.queueWithoutCredential(queue: new.name.description)) }
        holdIfExpired(queue)
        if !queue.mayWork { yieldJobs(of: queue) }
        if didWork, !queue.mayWork { restGateways(of: queue) }
    }

    /// Of a replaced credential the connections are opened before those of the old one are drained.
    private func useGateways(for queue: QueueState) async {
        let settings = queue.settings
        var gateway = await gateways.gateway(for: settings)
        let broadcastGateway = await gateways.gateway(for: settings, broadcasts: true)
        if queue.broadcastGateway !== broadcastGateway {
            queue.broadcastGateway = broadcastGateway
            queue.broadcastCircuit = broadcastGateway.flatMap(gateways.circuit(of:))
        }
        // Without it, broadcasts would go where they are not meant to.
        if gateways.hasBroadcastHost(settings), queue.broadcastGateway == nil { gateway = nil }
        guard queue.gateway !== gateway else { return }
        queue.gateway = gateway
        queue.circuit = gateway.flatMap(gateways.circuit(of:))
        queue.unrelatedKey = UnrelatedKey()
        if queue.hasJobs, queue.mayWork { gateway?.requestCapacity() }
    }

    /// With a certificate that has expired APNs would end every connection: the queue pauses instead.
    private func holdIfExpired(_ queue: QueueState) {
        guard let end = queue.settings.credential?.expiredAt, !queue.settings.isPaused else { return }
        hold(
            queue,
            because:
                "the certificate expired at \(end.formatted(.iso8601)): replace the credential, then the queue resumes")
    }

    private func forget(_ id: Int32) {
        guard let queue = known.removeValue(forKey: id) else {
            ignored.insert(id)
            return
        }
        queue.isHeld = true
        yieldJobs(of: queue)
    }

    /// APNs has an outage, as the answers over a gateway tell: the jobs that would be sent over it wait in the database.
    func noteOutage(of gateway: any PushGateway, reason: String) {
        report(.outageBegun(queue: names(using: gateway), reason: reason))
        yieldJobs(using: gateway)
    }

    /// The outage is over.
    func noteEndOfOutage(of gateway: any PushGateway) {
        report(.outageOver(queue: names(using: gateway)))
    }

    /// Gives back all jobs that would be sent through a gateway.
    func yieldJobs(using gateway: any PushGateway) {
        let now = ContinuousClock.now
        for job in jobs.all where job.queue.gateway(for: job) === gateway && !job.isSettling {
            settler.close(job, .yielded(after: job.queue.delay(of: job, now: now) ?? .zero))
        }
    }

    private func yieldJobs(of queue: QueueState) {
        for job in jobs.all where job.queue === queue && !job.isSettling { settler.close(job, .yielded(after: .zero)) }
    }

    /// Measures how fast each queue is sent, by which stocks and fan-out are sized; a few times a second at the most.
    func measureRates() {
        let now = ContinuousClock.now
        let seconds = measuredAt.duration(to: now) / .seconds(1)
        guard seconds >= 0.25 else { return }
        measuredAt = now
        for queue in known.values {
            let rate = Double(queue.sentSinceMeasured) / seconds
            queue.sentSinceMeasured = 0
            queue.sendRate = max(rate, queue.sendRate * 0.9)
        }
    }
}
