import PostgresStore
import QueueCore
import Transport

/// The parts of an engine, and what connects them.
///
/// A part receives the parts that it calls when it is created, so the order below is the order of the layers. To tell a
/// higher layer something, a part raises a signal of the context or calls its delegate: this object, or
/// ``GatewayEvents``.
///
/// Belongs to the engine's event loop.
final class EngineParts {
    /// A loop that runs as long as the engine does.
    enum Loop: CaseIterable {
        case intake, fanOut, permits, endings, flushing, audit, queues, tokens, rescue, duties, upkeep, schedules,
            listing, feedback, webhooks, figures, heartbeat, judging, notifications, drain

        /// The loops that run duties of the fleet.
        static let ofDuties: Set<Loop> = [.duties, .upkeep, .schedules, .listing, .feedback, .webhooks, .figures]
    }

    let context: EngineContext
    let database: DatabaseAddress
    let jobs = HeldJobs()
    private let audit: LeaseAudit
    let settler: Settler
    let gateways: Gateways
    let queues: Queues
    let dispatcher: Dispatcher
    private let gatewayEvents: GatewayEvents
    private let fanOut: FanOut
    private let intake: Intake
    private let permits: PermitTaker
    private let rescuer: Rescuer
    /// The runners of duties, by loop. Contains the duties that this worker can carry out and whose results are used.
    private let dutyRunners: [Loop: DutyRunner]
    /// Nil if this worker does not publish the figures that it would read.
    let figuresDuty: FleetFiguresDuty?
    private let heartbeat: Heartbeat
    private let judge: CampaignErrorLimit
    private let notifications: NotificationListener
    private let loopLag: LoopLag
    private(set) var isDraining = false
    /// Whether the database keeps the engine from starting.
    private(set) var isHeldUp = false
    /// Whether the engine is connecting for the first time.
    private var isStarting = false

    init(_ context: EngineContext, database: DatabaseAddress) {
        self.context = context
        self.database = database
        audit = LeaseAudit(context, jobs: jobs)
        settler = Settler(context, jobs: jobs)
        gateways = Gateways(context)
        queues = Queues(context, jobs: jobs, gateways: gateways, settler: settler)
        dispatcher = Dispatcher(context, jobs: jobs, settler: settler, queues: queues, gateways: gateways)
        gatewayEvents = GatewayEvents(context, gateways: gateways, queues: queues, dispatcher: dispatcher)
        fanOut = FanOut(context, queues: queues)
        intake = Intake(
            context, jobs: jobs, queues: queues, gateways: gateways, dispatcher: dispatcher, settler: settler,
            audit: audit, fanOut: fanOut)
        permits = PermitTaker(context, dispatcher: dispatcher)
        rescuer = Rescuer(context)
        figuresDuty = context.settings.publishesMetrics ? FleetFiguresDuty(context) : nil
        dutyRunners = Self.dutyRunners(context, figures: figuresDuty)
        heartbeat = Heartbeat(
            context, jobs: jobs, dispatcher: dispatcher, queues: queues, gateways: gateways, settler: settler)
        judge = CampaignErrorLimit(context) { [queues] in queues[$0] }
        loopLag = LoopLag(context)
        notifications = NotificationListener(context, intake: intake, queues: queues, settler: settler)

        gateways.handler = gatewayEvents
        settler.delegate = self
        context.postgres.delegate = self
    }

    /// Creates the runners of the fleet's duties. No duty waits for a duty of another loop, because some are held for
    /// long.
    private static func dutyRunners(_ context: EngineContext, figures: FleetFiguresDuty?) -> [Loop: DutyRunner] {
        var duties: [Loop: [any Duty]] = [
            .duties: [
                SuspectsDuty(context), ReportsDuty(context), QuotasDuty(context), CredentialsDuty(context),
            ],
            .upkeep: [UpkeepDuty(context)],
            .schedules: [SchedulesDuty(context)],
            .listing: [ListingDuty(context)],
        ]
        // A worker that does not know the address of the feedback service leaves it to workers that do. So does one
        // that cannot open certificates or the secrets of webhooks.
        if context.masterKeys != nil, context.settings.feedbackEndpoint(of: .production) != nil {
            duties[.feedback] = [FeedbackDuty(context)]
        }
        if let figures { duties[.figures] = [figures] }
        var runners = duties.mapValues { DutyRunner(context, duties: $0) }
        if let masterKeys = context.masterKeys {
            runners[.webhooks] = DutyRunner(
                context, duties: [WebhooksDuty(context, masterKeys: masterKeys)], lease: WebhooksDuty.lease)
        }
        return runners
    }

    /// The loops that this engine runs.
    var loops: [Loop] { Loop.allCases.filter { !Loop.ofDuties.contains($0) || dutyRunners[$0] != nil } }

    /// Runs one loop, until it ends because of ``stopIntake()`` and what follows from that.
    func run(_ loop: Loop) async throws {
        switch loop {
        case .intake: await intake.run()
        case .fanOut: await fanOut.run()
        case .permits: await permits.run()
        case .endings: await settler.runEndings()
        case .flushing: await settler.runFlushing()
        case .audit: await audit.run()
        case .queues: await queues.run()
        case .tokens: await gateways.run()
        case .rescue: await rescuer.run()
        case .duties, .upkeep, .schedules, .listing, .feedback, .webhooks, .figures: await dutyRunners[loop]?.run()
        case .heartbeat: try await heartbeat.run()
        case .judging: await judge.run()
        case .notifications: await notifications.run()
        case .drain: await drain()
        }
    }

    /// Connects to PostgreSQL for the first time, and reports the start of the worker. After that, the engine waits out
    /// every outage of PostgreSQL.
    /// - Returns: false if the engine was told to drain before it could start.
    /// - Throws: `PostgresError` if PostgreSQL cannot be reached; `SchemaMismatch` if this worker and the schema do not
    ///   suit each other. Neither if the settings say that the worker waits until this is mended.
    func start() async throws -> Bool {
        guard let names = try await connect() else { return false }
        let settings = context.settings
        context.report(
            .started(
                name: settings.name, version: settings.version, database: database.description, queues: settings.queues)
        )
        loopLag.start()
        let pattern = QueuePattern(settings.queues)
        // A matching queue may be created at any time, so the worker goes on.
        if !names.contains(where: { pattern.matches($0) }) {
            context.report(.noQueueMatches(pattern: settings.queues))
        }
        return true
    }

    /// Returns the names of all queues, once there is a connection; nil if a drain ended the wait for it.
    private func connect() async throws -> [String]? {
        var generator = SystemRandomNumberGenerator()
        var failures = 0
        isStarting = true
        defer { isStarting = false }
        while true {
            do {
                defer { isHeldUp = false }
                return try await context.postgres.start { [self] error in
                    if failures == 0, waits(for: error) { noteUnavailable(error) }
                }
            } catch let error where isDraining || waits(for: error) {
                if isDraining { return nil }
                failures += 1
                noteUnavailable(error)
                let pause = Backoff.store.delay(afterAttempt: failures, using: &generator)
                await context.drainProgress.wait(atMost: pause)
                if isDraining { return nil }
            }
        }
    }

    private func waits(for error: any Error) -> Bool {
        switch context.settings.waits {
        case .never: false
        case .untilInReach: (error as? PostgresError)?.isTransient ?? false
        case .always: true
        }
    }

    private func noteUnavailable(_ error: any Error) {
        isHeldUp = true
        context.report(.storeUnavailable(database: database.description, reason: "\(error)"))
    }

    // MARK: Draining

    /// Begins a drain: nothing more is claimed or sent.
    func stopIntake() {
        context.report(.draining)
        intake.stop()
        fanOut.stop()
        dispatcher.stop()
        heartbeat.noteDraining()
        isDraining = true
        // An attempt to connect may last until the server's limit.
        if isStarting { context.postgres.close() }
        context.drainProgress.raise()
    }

    /// Waits for the drain to begin and for pushes in flight, and then makes everything be written or given back.
    private func drain() async {
        while !isDraining { await context.drainProgress.wait(atMost: .seconds(3600)) }
        let deadline = ContinuousClock.now + context.settings.drain
        // What cannot be written by then is left: its leases expire.
        context.postgres.giveUp(after: deadline)
        permits.stop()
        rescuer.stop()
        for runner in dutyRunners.values { runner.stop() }
        queues.stop()
        judge.stop()
        gateways.stop()
        for job in jobs.all where !job.isSettling { settler.close(job, .yielded(after: .zero)) }
        // One by one, jobs are through when their answers arrive, and the settler gives them back meanwhile.
        while dispatcher.inFlight > 0 || intake.isRunning || audit.isRunning, ContinuousClock.now < deadline {
            if !intake.isRunning { audit.stop() }
            await context.drainProgress.wait(atMost: ContinuousClock.now.duration(to: deadline))
        }
        audit.stop()
        if dispatcher.inFlight > 0 { context.report(.leftInFlight(dispatcher.inFlight, drain: context.settings.drain)) }
        gateways.closeAll()
        settler.stop()
        heartbeat.stop()
        notifications.stop()
        loopLag.stop()
    }
}

extension EngineParts: SettlerDelegate {
    func leaseWasRenewed(of job: HeldJob) { dispatcher.continueSending(job) }

    func canRecordAgain() { dispatcher.continueIfHeldUp() }

    func queueIsHalted(_ id: Int32) { queues.halt(id) }

    func campaignHasAnswers(_ campaign: CampaignKey) { judge.note(campaign) }
}

extension EngineParts: EngineConnectionsDelegate {
    func storeIsBack() {
        intake.noteInterruption()
        notifications.listenAnew()
        rescuer.holdOff()
        dispatcher.continueIfHeldUp()
    }
}
