import APNs
import PostgresStore
import QueueCore
import Transport

/// The parts of an engine and the wires between them.
///
/// Belongs to the engine's event loop.
final class EngineParts {
    /// What runs for as long as the engine does.
    enum Part: CaseIterable {
        case intake, fanOut, permits, retiring, flushing, audit, queues, tokens, rescue, duties, feedback, presence,
            notifications, drain
    }

    let loop: EventLoop
    let settings: EngineSettings
    let owner: Int64
    let report: (EngineEvent) -> Void
    /// What looks and claims; what renews leases and ends jobs, which nothing may hold up; fan-out, whose steps take 25 ms; and upkeep,
    /// whose statements may wait for others. Each has a connection of its own.
    let store: EngineStore
    let leaseStore: EngineStore
    let fanOutStore: EngineStore
    let upkeepStore: EngineStore
    private let connections: [StoreConnection]
    /// How many of the first two connections are lost.
    private var lostConnections = 0
    private let notifications: NotificationListener

    let jobs = HeldJobs()
    let gateways: Gateways
    let queues: Queues
    let dispatcher: Dispatcher
    let settler: Settler
    let audit: LeaseAudit
    let intake: Intake
    let permits: PermitTaker
    let rescuer: Rescuer
    let duties: DutyRunner
    /// Nil where this worker could not ask the feedback service.
    let feedback: DutyRunner?
    private let presence: Presence
    private let drainSignal: Signal
    /// Gateways of which it was said that they are out of reach.
    private var unreachable: Set<ObjectIdentifier> = []

    init(
        loop: EventLoop, settings: EngineSettings, database: DatabaseAddress, masterKey: MasterKey?, owner: Int64,
        report: @escaping (EngineEvent) -> Void
    ) {
        self.loop = loop
        self.settings = settings
        self.owner = owner
        self.report = report
        let session = WorkerSession(report: report)
        connections = ["", " (leases)", " (fan-out)", " (upkeep)"].map {
            StoreConnection(to: database, as: "pushq work\($0)", on: loop, prepare: session.prepare)
        }
        let stores = connections.map { EngineStore($0, loop: loop, report: report) }
        (store, leaseStore, fanOutStore, upkeepStore) = (stores[0], stores[1], stores[2], stores[3])
        notifications = NotificationListener(loop: loop, database: database, owner: owner)

        dispatcher = Dispatcher(loop: loop, settings: settings, jobs: jobs)
        settler = Settler(loop: loop, store: leaseStore, settings: settings, owner: owner, jobs: jobs, report: report)
        gateways = Gateways(loop: loop, store: store, settings: settings, masterKey: masterKey, report: report)
        queues = Queues(
            loop: loop, store: store, settings: settings, jobs: jobs, gateways: gateways, settler: settler,
            report: report)
        audit = LeaseAudit(
            loop: loop, store: fanOutStore, settings: settings, owner: owner, jobs: jobs, report: report)
        intake = Intake(
            loop: loop, store: store, fanOutStore: fanOutStore, settings: settings, owner: owner, jobs: jobs,
            queues: queues, dispatcher: dispatcher, settler: settler, audit: audit)
        permits = PermitTaker(loop: loop, store: store, settings: settings, dispatcher: dispatcher)
        rescuer = Rescuer(loop: loop, store: store, settings: settings, report: report)
        let all: [any Duty] = [
            SuspectsDuty(store: upkeepStore, report: report), UpkeepDuty(store: upkeepStore, report: report),
            CredentialsDuty(store: upkeepStore, report: report),
        ]
        duties = DutyRunner(
            loop: loop, store: upkeepStore, owner: owner, duties: all, retry: settings.dutyRetry, report: report)
        // A worker that does not know whom to ask, or has no key to the certificates, leaves it to those that do.
        let canAsk = settings.feedbackEndpoint(.production) != nil && masterKey != nil
        feedback = canAsk ? Self.feedback(upkeepStore, owner, settings, masterKey, loop, report) : nil
        presence = Presence(loop: loop, store: upkeepStore, settings: settings, owner: owner) { [dispatcher, queues] in
            (dispatcher.inFlight, queues.unreachable)
        }
        drainSignal = Signal(loop: loop)
        connectParts()
    }

    private static func feedback(
        _ store: EngineStore, _ owner: Int64, _ settings: EngineSettings, _ masterKey: MasterKey?, _ loop: EventLoop,
        _ report: @escaping (EngineEvent) -> Void
    ) -> DutyRunner {
        let duty = FeedbackDuty(store: store, settings: settings, masterKey: masterKey, loop: loop, report: report)
        return DutyRunner(
            loop: loop, store: store, owner: owner, duties: [duty], retry: settings.dutyRetry, report: report)
    }

    /// Runs one part until ``stopIntake()`` and what follows from it have ended it.
    func run(_ part: Part) async {
        switch part {
        case .intake: await intake.run()
        case .fanOut: await intake.runFanOut()
        case .permits: await permits.run()
        case .retiring: await settler.runRetiring()
        case .flushing: await settler.runFlushing()
        case .audit: await audit.run()
        case .queues: await queues.run()
        case .tokens: await gateways.run()
        case .rescue: await rescuer.run()
        case .duties: await duties.run()
        case .feedback: await feedback?.run()
        case .presence: await presence.run()
        case .notifications: await notifications.run()
        case .drain: await drain()
        }
    }

    private func connectParts() {
        gateways.handler = self
        dispatcher.jobIsThrough = { [settler] in settler.take($0) }
        dispatcher.wantsPermits = { [permits] in permits.hurry() }
        dispatcher.wantsJobs = { [intake] in intake.noteStocks() }
        dispatcher.wantsFlush = { [settler] in settler.hurryFlush() }
        dispatcher.credentialIsAtFault = { [queues] queue, refusal in
            let isKnown = refusal.reason != .otherCredential
            queues.noteFault(
                of: queue, isKnown ? refusal.reason.text : "\(refusal.status) \(refusal.text ?? "without a reason")")
        }
        dispatcher.tokenHasExpired = { [gateways] in gateways.noteExpiredToken(of: $0) }
        dispatcher.tokenMustStay = { [gateways] in gateways.noteTooManyTokens(of: $0) }
        dispatcher.outageHasBegun = { [queues, report] gateway, reason in
            report(.outageBegun(queue: queues.names(using: gateway), reason: reason))
            queues.yieldJobs(using: gateway)
        }
        dispatcher.outageIsOver = { [queues, intake, report] gateway in
            report(.outageOver(queue: queues.names(using: gateway)))
            intake.hurry()
        }
        dispatcher.mayTryAgain = { [intake] in intake.hurry() }
        settler.mayGoOn = { [dispatcher] in dispatcher.goOn(with: $0) }
        settler.hasAbandoned = { [audit] in audit.hurry() }
        for connection in connections[..<2] {
            connection.onLost = { [unowned self] error in
                lostConnections += 1
                if lostConnections == 1 { report(.storeLost(error.description)) }
            }
            connection.onBack = { [unowned self] in
                lostConnections -= 1
                guard lostConnections == 0 else { return }
                intake.noteInterruption()
                rescuer.holdOff()
                report(.storeBack)
            }
        }
        rescuer.hasRescued = { [intake] in intake.hurry() }
        notifications.hear = { [unowned self] in hear($0) }
        notifications.listens = { [intake] in intake.noteInterruption() }
        settler.isHalted = { [queues] in queues.halt($0) }
    }

    /// Connects to PostgreSQL for the first time: what is wrong with the address shows at once. Says what it is that starts.
    func start(_ database: DatabaseAddress) async throws(PostgresError) {
        let names = try await connections[0].current(within: .seconds(10)).queueNames()
        // From here on an outage of PostgreSQL is waited out.
        report(
            .started(
                name: settings.name, version: settings.version, database: database.description, queues: settings.queues)
        )
        let pattern = QueuePattern(settings.queues)
        // One may be made at any time, so the worker goes on.
        if !names.contains(where: { pattern.matches($0) }) { report(.noQueueMatches(pattern: settings.queues)) }
    }

    /// Closes the connections to PostgreSQL.
    func leave() {
        for connection in connections { connection.close() }
    }

    private func hear(_ notice: Notice) {
        switch notice {
        case .work: intake.noteNotification()
        case .queue(let id): queues.hurry([id])
        case .tenant(let id): queues.hurryAll(ofTenant: id)
        case .root(let id): settler.lookAfter(root: id)
        }
    }

    // MARK: Draining

    /// Begins to drain: nothing more is claimed or sent.
    func stopIntake() {
        report(.draining)
        intake.stop()
        dispatcher.stop()
        presence.noteDraining()
        drainSignal.raise()
    }

    /// Waits for the drain to begin, for what is in flight, and then has everything written or given back.
    private func drain() async {
        while !(await drainSignal.wait(atMost: .seconds(3600))) {}
        let deadline = ContinuousClock.now + settings.drain
        // What cannot be written by then is left to the leases' end.
        store.giveUp(after: deadline)
        leaseStore.giveUp(after: deadline)
        permits.stop()
        rescuer.stop()
        duties.stop()
        feedback?.stop()
        queues.stop()
        gateways.stop()
        for job in jobs.all where !job.isSettling { settler.close(job, .yielded(after: .zero)) }
        // Jobs become through one by one as their answers come in, and the settler gives them back meanwhile.
        while dispatcher.inFlight > 0 || intake.isRunning || audit.isRunning, ContinuousClock.now < deadline {
            if !intake.isRunning { audit.stop() }
            await drainSignal.wait(atMost: min(.milliseconds(50), ContinuousClock.now.duration(to: deadline)))
        }
        audit.stop()
        if dispatcher.inFlight > 0 { report(.leftInFlight(dispatcher.inFlight, drain: settings.drain)) }
        gateways.closeAll()
        settler.stop()
        presence.stop()
        notifications.stop()
    }
}

extension EngineParts: PushGatewayHandler {
    func answered(_ answers: [Answer], by gateway: any PushGateway) {
        dispatcher.take(answers, from: gateway)
    }

    func capacityChanged(of gateway: any PushGateway) {
        noteReachability(of: gateway)
        dispatcher.schedule()
    }

    func deliveredTooSoon(_ count: Int, by gateway: any PushGateway) {
        report(.deliveredTooSoon(queue: queues.names(using: gateway), count: count, grace: settings.binary.grace))
    }

    func connectionLost(_ reason: String, uncertain count: Int, by gateway: any PushGateway) {
        report(.pushesUncertain(queue: queues.names(using: gateway), count: count, reason: reason))
    }

    func credentialRefused(_ reason: Reason, detail: String, by gateway: any PushGateway) {
        switch reason.row.action {
        case .renewToken: gateways.noteExpiredToken(of: gateway)
        case .keepToken:
            gateways.noteTooManyTokens(of: gateway)
            if let circuit = gateways.circuit(of: gateway) { dispatcher.rest(gateway, circuit, because: reason.text) }
        case .reconnectOnce:
            // A connection that ends so has taken nothing: the next one that does so, too, is not to blame.
            for queue in queues.using(gateway)
            where queue.unrelatedKey.noteRefused(sentAt: loop.now, now: loop.now) == .keyIsWrong {
                queues.noteFault(of: queue, reason.text)
            }
        default: for queue in queues.using(gateway) { queues.noteFault(of: queue, reason.text) }
        }
    }

    /// Says once that APNs is out of reach, and once that it is back. What is held for it goes back meanwhile.
    private func noteReachability(of gateway: any PushGateway) {
        if case .unreachable(let outage) = gateway.state {
            // Of an outage that its answers told of, everything has been said.
            guard gateways.circuit(of: gateway)?.isClosed != false else { return queues.yieldJobs(using: gateway) }
            guard unreachable.insert(ObjectIdentifier(gateway)).inserted else { return }
            report(.gatewayUnreachable(queue: queues.names(using: gateway), reason: outage.error))
            queues.yieldJobs(using: gateway)
        } else if gateway.state == .idle {
            // At rest: nobody waits for it to come back.
            unreachable.remove(ObjectIdentifier(gateway))
        } else if gateway.state == .open, unreachable.remove(ObjectIdentifier(gateway)) != nil {
            report(.gatewayReachable(queue: queues.names(using: gateway)))
            intake.hurry()
        }
    }
}
