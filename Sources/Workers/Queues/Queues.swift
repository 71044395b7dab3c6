import APNs
import PostgresStore
import QueueCore
import Transport

/// The queues that this worker knows, with their settings. The settings of queues with work are a moment old, and those
/// of other queues up to a minute. ``ServedQueues`` decides which settings are read when, and which queues must not
/// send. This type carries out its decisions, and gives each queue its gateways.
///
/// A worker may know ten thousand queues, of which a few hundred have work. It forgets a queue without work when the
/// queue has no connections, and after an hour in any case.
///
/// Belongs to the engine's event loop.
final class Queues {
    private let store: RetryingConnection
    private let settings: EngineSettings
    private let jobs: HeldJobs
    private let gateways: Gateways
    private let settler: Settler
    private let report: (EngineEvent) -> Void
    private let signal: Signal
    private var served: ServedQueues
    private var generator = SystemRandomNumberGenerator()
    private var isStopping = false

    init(_ context: EngineContext, jobs: HeldJobs, gateways: Gateways, settler: Settler) {
        store = context.postgres.claims
        settings = context.settings
        self.jobs = jobs
        self.gateways = gateways
        self.settler = settler
        report = context.report
        served = ServedQueues(settings, figures: context.figures, now: .now)
        signal = Signal(loop: context.loop)
    }

    /// The queue with this id; nil if this worker does not serve the queue.
    subscript(id: Int32) -> QueueState? { served[id] }

    // MARK: Settings

    /// Reads the settings of queues that are new to this worker, or have work again after a while.
    /// - Parameter isClaim: whether the queues' jobs are claimed now.
    func learn(_ ids: Set<Int32>, forClaim isClaim: Bool) async throws(PostgresError) {
        try await read(served.learn(ids, forClaim: isClaim, now: .now))
    }

    /// Reads the settings again and again, so that an operator's changes take effect, until ``stop()``.
    func run() async {
        var next = ContinuousClock.now + settings.settingsRefresh
        while !isStopping {
            await signal.wait(atMost: max(.zero, ContinuousClock.now.duration(to: next)))
            try? await read(served.readDoubted())
            await writePauses()
            guard !isStopping, ContinuousClock.now >= next else { continue }
            next = .now + settings.settingsRefresh
            try? await read(served.readAgain(now: .now))
            weighGateways()
            if served.takeReleasedGateways() { gateways.keepOnly(usedBy: served.all) }
        }
    }

    /// Ends ``run()``.
    func stop() {
        isStopping = true
        signal.raise()
    }

    /// Reads the settings of the given queues at once, if this worker knows the queues: a notification says that they
    /// have changed.
    func wake(_ ids: [Int32]) {
        served.doubt(ids)
        if served.hasDoubts { signal.raise() }
    }

    /// The same for all queues of a tenant.
    func wakeAll(ofTenant id: Int32) {
        served.doubt(tenant: id)
        if served.hasDoubts { signal.raise() }
    }

    private func read(_ parts: [[Int32]]) async throws(PostgresError) {
        for ids in parts {
            let connection = try await store.connection()
            let reading = served.beginReading(ids)
            let found = try await connection.queueSettings(reading.ids)
            for settings in found {
                guard let change = served.note(settings, of: reading, now: .now) else { continue }
                await useGateways(after: change)
                carryOut(served.noteGateways(after: change, now: .now))
            }
            carryOut(served.noteAnswered(reading, found: found.map(\.queueID)))
        }
    }

    private func carryOut(_ actions: [ServedQueues.Action]) {
        for action in actions {
            switch action {
            case .report(let event): report(event)
            case .yieldJobs(let queue):
                for holding in jobs.holdings where holding.queue === queue && !holding.job.isSettling {
                    settler.close(holding.job, .yielded(after: .zero))
                }
            case .restGateways(let queue): restGateways(of: queue)
            }
        }
    }

    // MARK: Queues that must not send

    /// Stops sending for a queue that was paused, or whose tenant was suspended.
    func halt(_ id: Int32) {
        carryOut(served.halt(id))
        if served.hasDoubts { signal.raise() }
    }

    /// Stops sending for a queue whose credential APNs has refused in an answer.
    func noteFault(of queue: QueueState, _ refusal: Refusal, of message: StoredMessage) {
        let isKnown = refusal.reason != .otherCredential
        let answer = isKnown ? refusal.reason.text : "\(refusal.status) \(refusal.text ?? "without a reason")"
        let topic = queue.settings.name.app + message.topicSuffix
        noteFault(
            of: queue,
            refusal.reason.mayDependOnTopic ? "\(answer) to a push of type \(message.pushType) to \(topic)" : answer)
    }

    /// Stops sending for a queue whose credential APNs refuses. Soon afterwards, the queue is paused for the fleet.
    /// - Parameter answer: what APNs answered: a reason, or APNs' own text if the reason is unknown.
    func noteFault(of queue: QueueState, _ answer: String) {
        carryOut(served.noteFault(of: queue, answer, now: .now))
        signal.raise()
    }

    private func writePauses() async {
        for pause in served.duePauses(now: .now) {
            // The result is also nil while another session changes the queue and has not committed.
            let isNews = await store.persist {
                try await $0.pauseQueue(pause.queueID, reason: pause.reason, credential: pause.credential)
            }
            let answer: ServedQueues.PauseAnswer =
                if case .some(.some(let isNews)) = isNews { .written(isNews: isNews) } else { .refused }
            carryOut(served.note(answer, to: pause, now: .now, using: &generator))
        }
        if served.hasDoubts { signal.raise() }
    }

    // MARK: Gateways

    /// Gives a queue the gateways of its settings. When a credential was replaced, the connections with the new one are
    /// opened before those with the old one are drained.
    private func useGateways(after change: ServedQueues.Change) async {
        let queue = change.queue
        let settings = queue.settings
        var route = await gateways.route(for: settings)
        let broadcastRoute = await gateways.route(for: settings, broadcasts: true)
        guard served.isCurrent(change) else { return served.noteReleasedGateway() }
        queue.broadcastRoute = broadcastRoute
        // Without its route for broadcasts, the queue's broadcasts would go to the wrong host.
        if gateways.hasBroadcastHost(settings), broadcastRoute == nil { route = nil }
        guard queue.route?.gateway !== route?.gateway else { return }
        queue.route = route
        queue.unrelatedKey = UnrelatedKey()
        queue.topicRefusals = TopicRefusals()
        if queue.hasJobs, queue.mayWork { route?.gateway.requestCapacity() }
    }

    /// Sets each gateway's weight to that of the queues that use it. Each queue has its part of its tenant's weight.
    private func weighGateways() {
        let now = ContinuousClock.now
        let inUse = served.all.filter { $0.isInUse(since: now - ServedQueues.idleAfter) }
        let ofTenant = inUse.reduce(into: [:]) { $0[$1.settings.tenantID, default: 0] += $1.settings.weight }
        var weights: [ObjectIdentifier: Double] = [:]
        for queue in inUse {
            for gateway in queue.routes.map(\.gateway) {
                let added = queue.settings.tenantWeight * queue.settings.weight / ofTenant[queue.settings.tenantID]!
                let weight = weights[ObjectIdentifier(gateway), default: 0] + added
                weights[ObjectIdentifier(gateway)] = weight
                gateway.weight = weight
            }
        }
    }

    /// Stops a gateway from connecting while no queue that uses it may send: each attempt with a refused certificate
    /// would fail again, and count against this machine.
    private func restGateways(of queue: QueueState) {
        for gateway in queue.routes.map(\.gateway) where !using(gateway).contains(where: \.mayWork) {
            gateway.rest()
            gateways.noteRest(of: gateway)
        }
    }

    /// The queues whose gateway cannot connect to APNs.
    var unreachable: [Int32] { served.all.filter(\.isDisconnected).map(\.id) }

    /// The queues for which APNs refuses most pushes for transient reasons, or answers none, with APNs' answers.
    var inOutage: [WorkerReport.Trouble] {
        served.all.compactMap { queue in
            queue.routes.lazy.compactMap(\.circuit.refusal).first.map {
                WorkerReport.Trouble(queueID: queue.id, reason: $0.printable(upTo: 100))
            }
        }
    }

    /// The queues whose credential this worker cannot use, with the reason.
    var unusable: [WorkerReport.Trouble] {
        guard gateways.hasFaults else { return [] }
        return served.all.compactMap { queue in
            gateways.fault(of: queue.settings).map { WorkerReport.Trouble(queueID: queue.id, reason: $0) }
        }
    }

    /// What was sent for each queue since the last call, and what is in flight. Contains only queues with any of
    /// either, and at most the `limit` queues for which most was sent.
    func takeThroughput(limit: Int) -> [Throughput] {
        var taken: [Throughput] = []
        for queue in served.all where queue.inFlight > 0 || !queue.throughput.isEmpty {
            taken.append(queue.throughput.shown(of: queue.id, inFlight: queue.inFlight))
            queue.throughput = QueueThroughput()
        }
        guard taken.count > limit else { return taken }
        return Array(taken.sorted { ($0.sent, $0.inFlight) > ($1.sent, $1.inFlight) }.prefix(limit))
    }

    /// Whether a queue has a connection to APNs, or there is nothing to send and nothing has failed.
    var isConnectedOrIdle: Bool {
        let now = ContinuousClock.now
        var isIdle = true
        for queue in served.all where queue.mayWork {
            if queue.isConnected { return true }
            if queue.hasJobs || queue.inFlight > 0 || !queue.canReachAPNs(now: now) { isIdle = false }
        }
        return isIdle
    }

    /// The queues that send through a gateway.
    func using(_ gateway: any PushGateway) -> [QueueState] {
        served.all.filter { $0.route(over: gateway) != nil }
    }

    /// The names of the queues that send through a gateway, for a log.
    func names(using gateway: any PushGateway) -> String {
        let names = using(gateway).map(\.settings.name.description).sorted()
        return names.count > 3 ? "\(names[0]) and \(names.count - 1) more queues" : names.joined(separator: ", ")
    }

    /// Notes that the answers over a gateway show an outage of APNs. The jobs for that gateway wait in the database.
    func noteOutage(of gateway: any PushGateway, reason: String) {
        report(.outageBegun(queue: names(using: gateway), reason: reason))
        yieldJobs(using: gateway)
    }

    /// Notes that the outage of a gateway is over.
    func noteEndOfOutage(of gateway: any PushGateway) {
        report(.outageOver(queue: names(using: gateway)))
    }

    /// Gives back all jobs that would be sent through a gateway.
    /// - Parameter isForGood: whether jobs with pushes in flight go back even if the gateway is open again before these
    ///   are answered.
    func yieldJobs(using gateway: any PushGateway, isForGood: Bool = true) {
        let now = ContinuousClock.now
        for holding in jobs.holdings where !holding.job.isSettling {
            let (job, queue) = (holding.job, holding.queue)
            guard queue.route(for: job)?.gateway === gateway else { continue }
            settler.close(job, .yielded(after: queue.delay(of: job, now: now) ?? .zero, isForGood: isForGood))
        }
    }

    /// Measures how fast each queue is sent.
    func measureRates() { served.measureRates(now: .now) }
}
