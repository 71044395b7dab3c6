import APNs
import Metrics
import PostgresStore
import QueueCore
import Transport

/// Hands recipients to the gateways. ``Turns`` decides which queue sends next. A round runs at the end of each loop
/// turn in which anything changed, so that a burst of answers leads to one round of sends.
///
/// Belongs to the engine's event loop.
final class Dispatcher {
    private let loop: EventLoop
    private let settings: EngineSettings
    private let jobs: HeldJobs
    private let settler: Settler
    private let queues: Queues
    private let gateways: Gateways
    private let mayHaveWork: Signal
    private let lacksPermits: Signal
    private let drainProgress: Signal
    private var turns: Turns<QueueState>
    private var isScheduled = false
    private var isStopped = false
    /// Whether a round was left out because outcomes cannot be recorded.
    private var isHeldUp = false
    private var permitTimer: Timer?
    /// Starts a round that looks at the parked queues, so that none is forgotten.
    private var sweepTimer: Timer?
    /// Wakes this worker when a push may try whether an outage of APNs is over.
    private var tryTimers: [ObjectIdentifier: Timer] = [:]

    init(_ context: EngineContext, jobs: HeldJobs, settler: Settler, queues: Queues, gateways: Gateways) {
        loop = context.loop
        settings = context.settings
        mayHaveWork = context.mayHaveWork
        lacksPermits = context.lacksPermits
        drainProgress = context.drainProgress
        self.jobs = jobs
        self.settler = settler
        self.queues = queues
        self.gateways = gateways
        turns = Turns(limit: settings.inFlight)
    }

    /// The queues of which jobs are held.
    var active: [QueueState] { turns.active }

    /// The number of requests in flight, over all queues.
    var inFlight: Int { turns.inFlight }

    /// The number of requests sent since the start.
    var sent: Int { turns.sent }

    /// Lets a job be sent from the next round on: a claimed job, or one that has recipients to send to again.
    func add(_ job: HeldJob, of queue: QueueState) {
        turns.join(queue)
        queue.add(job)
        schedule()
    }

    /// Sends from a job again after its lease was renewed or its watermark moved.
    func continueSending(_ job: HeldJob) {
        if job.isSendable { add(job, of: jobs.queue(of: job)) }
    }

    /// Sends again if it was held up because outcomes could not be recorded. They can be now.
    func continueIfHeldUp() {
        guard isHeldUp else { return }
        schedule()
        mayHaveWork.raise()
    }

    /// Continues jobs after a gateway has a connection again. Such jobs wait for answers over an earlier connection,
    /// and were to be given back after that. Recipients that were not sent to, or whose push APNs certainly did not act
    /// on, need not wait.
    func continueSending(over gateway: any PushGateway) {
        guard !isStopped else { return }
        for holding in jobs.holdings
        where holding.queue.mayWork && holding.queue.route(for: holding.job)?.gateway === gateway {
            holding.job.reopen()
            if !holding.job.isQueued { continueSending(holding.job) }
        }
    }

    /// Stops sending.
    func stop() { isStopped = true }

    /// Runs a round at the end of this loop turn.
    func schedule() {
        guard !isScheduled else { return }
        isScheduled = true
        loop.atEndOfTurn { [self] in
            isScheduled = false
            dispatch()
        }
    }

    /// Notes that queues may have more permits than before, or need none any more.
    func permitsChanged(of queues: some Sequence<QueueState>) {
        for queue in queues { turns.wake(queue) }
        schedule()
    }

    /// Notes that a gateway may take more pushes than before, or none any more.
    func capacityChanged(of gateway: any PushGateway) {
        turns.wake(waitingFor: ObjectIdentifier(gateway))
        schedule()
    }

    // MARK: Sending

    private func dispatch() {
        guard !isStopped else { return }
        isHeldUp = !settler.canRecord(now: loop.now)
        guard !isHeldUp else { return }
        // Not the time at which the loop's turn began: a turn may take long, or stand still with the whole process, and
        // permits lapse.
        var now = ContinuousClock.now
        turns.beginRound(now: now)
        while let turn = turns.next(now: now) {
            let present = ContinuousClock.now
            // All turns of a round have one time, unless permits that were due then may have lapsed meanwhile.
            guard present - now <= RateLimit.step else {
                now = present
                continue
            }
            send(turn, now: now)
        }
        askForMore()
        turns.endRound(now: now)
        setPermitTimer(now: now)
        guard turns.hasParked, sweepTimer == nil else { return }
        sweepTimer = loop.schedule(after: Turns<QueueState>.sweepInterval) { [self] in
            sweepTimer = nil
            dispatch()
        }
    }

    /// Sends to at most as many recipients of a queue as its turn allows.
    private func send(_ turn: Turns<QueueState>.Turn, now: ContinuousClock.Instant) {
        let queue = turn.queue
        var (sent, silent) = (0, 0)
        let choice = queue.nextJobChoice(now: now)
        for lane in queue.lanesOfTurn(isUrgent: turn.isUrgent, choice) {
            if queue.route?.holdsBack(LanePlace(queue.id, lane), now: now) == true { continue }
            let room = min(turn.room - sent, queue.allowance(of: lane, at: now))
            let count = send(from: lane, of: queue, choice, maximum: room, now: now)
            guard count.sent > 0 else { continue }
            queue.usePermits(count.sent, in: lane, at: now)
            sent += count.sent
            silent += count.silent
        }
        // These sends may have taken the last room. A queue that still has jobs asks for more room, because an answer
        // may never come.
        if sent < Turns<QueueState>.quantum, queue.hasJobs { _ = queue.roomForPushes(now: now) }
        turns.note(sent: sent, inSilence: silent, at: now)
    }

    /// Sends to recipients of jobs of one lane.
    private func send(
        from lane: Lane, of queue: QueueState, _ choice: JobChoice, maximum: Int, now: ContinuousClock.Instant
    ) -> (sent: Int, silent: Int) {
        var (sent, silent, choice) = (0, 0, choice)
        while sent < maximum, let job = queue.sendableJob(in: lane, choice, now: now) {
            guard isFresh(job, now: now) else {
                if job.isClosed { continue }
                break
            }
            guard let route = queue.route(for: job) else { break }
            let room = min(maximum - sent, route.circuit.room(now: now))
            let count = send(from: job, of: queue, over: route.gateway, maximum: room)
            guard count > 0 else {
                // A connection that is kept free for a push that was lost before takes no other one.
                guard choice == .unlostFirst, room > 0 else { break }
                choice = .oldest
                continue
            }
            // The gateway counts from this time, too.
            route.circuit.noteSent(count, now: loop.now)
            if route.circuit.isAwaitingTry(now: now) { awaitAnswer(to: route.circuit, route.gateway) }
            if route.gateway.confirmsBySilence { silent += count }
            sent += count
        }
        return (sent, silent)
    }

    /// Sends to recipients of one job. Returns 0 when its gateway takes no more at this moment.
    private func send(from job: HeldJob, of queue: QueueState, over gateway: any PushGateway, maximum: Int) -> Int {
        let push = queue.push(for: job)
        let (tokens, personal) = (job.claim.tokens, job.claim.personal)
        var sent = 0
        while sent < maximum, let recipient = job.takeRecipient() {
            personal?.join(for: recipient.ordinal, into: &push.payload)
            let taken = gateway.send(
                push, to: tokens.bytes.span.extracting(recipient.token),
                apnsID: APNsID(root: job.claim.rootID, key: job.claim.deviceIDs[recipient.ordinal]),
                losses: job.losses(of: recipient.ordinal), wasRefused: job.wasRefused(recipient.ordinal),
                ticket: Ticket(slot: job.slot, ordinal: recipient.ordinal).rawValue)
            guard taken else {
                job.untake(recipient.ordinal)
                break
            }
            job.noteSent()
            sent += 1
        }
        if sent > 0 {
            let lane = Int(job.claim.lane.peer.rawValue)
            queue.figures.counts.sent[lane] += sent
            queue.throughput.sent += sent
            queue.figures.counts.age[lane].observe(job.claim.waited + job.claimedAt.duration(to: loop.now), count: sent)
        }
        if job.awaitsWatermark { settler.flushSoon() }
        return sent
    }

    /// Whether a job may still be sent: its `send_by` has not passed, its tokens were read recently enough, and its
    /// lease was renewed recently enough.
    private func isFresh(_ job: HeldJob, now: ContinuousClock.Instant) -> Bool {
        if now >= job.sendBy {
            job.close(.expired)
        } else if job.hasOldTokens(settings, now: now) {
            // A push that had no answer for long comes back to be sent again: the device may be another user's by now.
            job.close(.yielded(after: .zero))
        } else {
            return now < job.renewedAt + settings.fence
        }
        finishIfThrough(job)
        return false
    }

    /// Asks for jobs and permits where they run low.
    private func askForMore() {
        for queue in turns.awake {
            if queue.mayWork, queue.isPaced, queue.takeLackOfPermits() { lacksPermits.raise() }
            if queue.takeRunsLow() { mayHaveWork.raise() }
        }
    }

    /// Schedules a round for when the next permit is due. If a permit is due already, the queue waits for room, which
    /// answers bring.
    private func setPermitTimer(now: ContinuousClock.Instant) {
        var alarm = turns.nextPermit
        // Queues that can send may have campaigns that cannot, because each has a limit of its own.
        for queue in turns.awake where queue.mayWork && queue.isPaced {
            if let next = queue.nextPermit, next > now { alarm = min(alarm ?? next, next) }
        }
        permitTimer?.cancel()
        permitTimer = alarm.map { next in
            loop.schedule(after: loop.now.duration(to: next)) { [self] in dispatch() }
        }
    }

    // MARK: Answers

    /// Takes a burst of answers from a gateway.
    func take(_ answers: [Answer], from gateway: any PushGateway) {
        for answer in answers { take(answer, from: gateway) }
        if isStopped, inFlight == 0 { drainProgress.raise() }
        capacityChanged(of: gateway)
    }

    private func take(_ answer: Answer, from gateway: any PushGateway) {
        let ticket = Ticket(rawValue: answer.ticket)
        guard let holding = jobs[ticket.slot] else { fatalError("an answer for a job that is not held") }
        let (job, queue) = (holding.job, holding.queue)
        job.noteEnded()
        turns.noteEnded(queue, isSilent: gateway.confirmsBySilence)
        // The age is converted to instants only where they are needed: a conversion costs as much as everything else
        // here.
        let age = loop.nowNanoseconds &- answer.sentAt
        queue.figures.counts.answers.note(answer.result, afterNanoseconds: age)
        queue.throughput.answers.note(answer.result, afterNanoseconds: age)
        let circuit = queue.route(over: gateway)?.circuit
        circuit?.noteEnded(sentAt: loop.now - .nanoseconds(age))
        let isOfFormerCredential = queue.route(for: job)?.gateway !== gateway
        switch answer.result {
        case .accepted:
            AnswerRules.accepted(
                ticket.ordinal, of: job, in: queue, isOfFormerCredential: isOfFormerCredential,
                sentAt: loop.now - .nanoseconds(age))
            if let circuit {
                circuit.lastAcceptedAt = answer.sentAt
                let change = circuit.noteServed(push(ticket.ordinal, of: holding, afterNanoseconds: age), now: loop.now)
                follow(change, of: circuit, gateway)
            }
        case .refused(let refusal):
            follow(
                refusal, to: ticket.ordinal, of: holding, over: circuit, gateway,
                isOfFormerCredential: isOfFormerCredential, afterNanoseconds: age)
        case .streamRefused:
            if let refusal = AnswerRules.streamRefused(ticket.ordinal, of: job, in: queue, now: loop.now) {
                follow(
                    refusal, to: ticket.ordinal, of: holding, over: circuit, gateway,
                    isOfFormerCredential: isOfFormerCredential, afterNanoseconds: age)
            }
        case .unanswered: AnswerRules.unanswered(ticket.ordinal, of: job)
        case .reset:
            let wasReset = job.noteReset(of: ticket.ordinal)
            AnswerRules.unanswered(ticket.ordinal, of: job)
            if let circuit {
                let push = push(ticket.ordinal, of: holding, afterNanoseconds: age, wasReset: wasReset)
                follow(circuit.noteReset(push, inFlight: queue.inFlight, now: loop.now), of: circuit, gateway)
            }
        case .untouched: AnswerRules.untouched(ticket.ordinal, of: job)
        }
        if job.isSendable, !job.isQueued { add(job, of: queue) }
        finishIfThrough(job)
        // If no other lane is served, the lanes that wait for that continue after this time.
        if let circuit, circuit.isRecovering {
            setTryTimer(of: gateway, at: loop.now + Circuit.timeForOthers) { [self] in
                capacityChanged(of: gateway)
                awaitEndOfRecovery(of: circuit, gateway)
            }
        }
    }

    private func follow(
        _ refusal: Refusal, to ordinal: HeldJob.Ordinal, of holding: HeldJobs.Holding, over circuit: Circuit?,
        _ gateway: any PushGateway, isOfFormerCredential: Bool, afterNanoseconds age: UInt64
    ) {
        let (job, queue, now) = (holding.job, holding.queue, loop.now)
        let change = circuit?.noteRefused(
            refusal, refusal.reason.action(for: job.claim.message),
            push(ordinal, of: holding, afterNanoseconds: age), now: now)
        let lastAcceptedAt = circuit.flatMap { circuit in
            circuit.lastAcceptedAt > 0 ? now - .nanoseconds(loop.nowNanoseconds &- circuit.lastAcceptedAt) : nil
        }
        let consequence = AnswerRules.refused(
            ordinal, of: job, in: queue, refusal,
            .init(
                sentAt: now - .nanoseconds(age), now: now, spendsAttempts: circuit?.spendsAttempts ?? true,
                isRare: circuit?.acceptsNearlyAll ?? false, isOfFormerCredential: isOfFormerCredential,
                lastAcceptedAt: lastAcceptedAt))
        if !isOfFormerCredential { follow(consequence, of: refusal, to: job, of: queue, gateway) }
        if let circuit, let change { follow(change, of: circuit, gateway) }
    }

    private func follow(
        _ consequence: AnswerRules.Consequence, of refusal: Refusal, to job: HeldJob, of queue: QueueState,
        _ gateway: any PushGateway
    ) {
        switch consequence {
        case .none: break
        case .pauseQueue: queues.noteFault(of: queue, refusal, of: job.claim.message)
        case .renewToken: gateways.noteExpiredToken(of: gateway)
        case .keepToken: gateways.noteTooManyTokens(of: gateway)
        }
    }

    // MARK: Outages

    /// An answered push, in the form that its circuit needs.
    /// - Parameter wasReset: whether it was reset now, and perhaps before.
    private func push(
        _ ordinal: HeldJob.Ordinal, of holding: HeldJobs.Holding, afterNanoseconds age: UInt64, wasReset: Bool = false
    ) -> Circuit.Push {
        let claim = holding.job.claim
        return Circuit.Push(
            place: LanePlace(holding.queue.id, claim.lane), device: claim.deviceIDs[ordinal],
            isRepeated: claim.attempt > 1 || wasReset,
            sentAt: loop.now - .nanoseconds(age))
    }

    /// Lets the key of a gateway rest: the server closed a connection because provider tokens are replaced too often.
    func rest(_ gateway: any PushGateway, _ circuit: Circuit, because reason: String) {
        follow(circuit.noteRest(because: reason, now: loop.now), of: circuit, gateway)
    }

    /// Notes that nothing is answered any more over any connection of a gateway.
    /// - Parameter sentAt: when the oldest push that waits for its answer was sent.
    func noteSilence(of gateway: any PushGateway, _ circuit: Circuit, sentAt: ContinuousClock.Instant) {
        follow(circuit.noteSilence(sentAt: sentAt, now: loop.now), of: circuit, gateway)
    }

    /// Notes that a gateway that was out of reach has a connection again.
    func noteReached(_ gateway: any PushGateway, _ circuit: Circuit) {
        if circuit.noteReached(now: loop.now) { awaitNextTry(of: circuit, gateway) }
    }

    private func follow(_ change: Circuit.Change, of circuit: Circuit, _ gateway: any PushGateway) {
        switch change {
        case .none: return
        case .opened(let reason):
            // This gives back jobs, which must wait until the current answer is recorded.
            loop.atEndOfTurn { [queues] in queues.noteOutage(of: gateway, reason: reason) }
            awaitNextTry(of: circuit, gateway)
        case .stayedOpen:
            // Perhaps only one of many servers refuses.
            gateway.tryAnotherConnection()
            // The next try may need other jobs than those that are held.
            loop.atEndOfTurn { [queues] in queues.yieldJobs(using: gateway) }
            awaitNextTry(of: circuit, gateway)
        case .closed:
            queues.noteEndOfOutage(of: gateway)
            mayHaveWork.raise()
        }
    }

    private func awaitNextTry(of circuit: Circuit, _ gateway: any PushGateway) {
        guard let next = circuit.nextTry else { return }
        setTryTimer(of: gateway, at: next) { [self] in
            // The server may have asked for more time meanwhile.
            if circuit.isOpen(now: loop.now) { return awaitNextTry(of: circuit, gateway) }
            letOneTry(over: gateway)
        }
    }

    /// Lets a push try: one that was not refused before, and after a moment any.
    private func letOneTry(over gateway: any PushGateway) {
        mayHaveWork.raise()
        capacityChanged(of: gateway)
        setTryTimer(of: gateway, at: loop.now + Circuit.timeForOthers) { [self] in capacityChanged(of: gateway) }
    }

    /// Gives the other jobs back if the push that tries has no answer soon, as workers that get answers may send them.
    /// Then claims some anew for the next try.
    private func awaitAnswer(to circuit: Circuit, _ gateway: any PushGateway) {
        setTryTimer(of: gateway, at: loop.now + Circuit.timeForOthers) { [self] in
            guard circuit.isAwaitingTry(now: loop.now) else { return capacityChanged(of: gateway) }
            queues.yieldJobs(using: gateway)
            setTryTimer(of: gateway, at: loop.now + AwaitedPushes.patience) { [self] in letOneTry(over: gateway) }
        }
    }

    /// Ends a recovery for which nothing more is sent. While something is, its answer decides.
    private func awaitEndOfRecovery(of circuit: Circuit, _ gateway: any PushGateway) {
        guard gateway.inFlightCount == 0, let end = circuit.endOfQuietRecovery else { return }
        setTryTimer(of: gateway, at: end) { [self] in
            guard gateway.inFlightCount == 0 else { return }
            follow(circuit.noteQuiet(now: loop.now), of: circuit, gateway)
        }
    }

    private func setTryTimer(
        of gateway: any PushGateway, at time: ContinuousClock.Instant, _ action: @escaping () -> Void
    ) {
        let id = ObjectIdentifier(gateway)
        tryTimers[id]?.cancel()
        tryTimers[id] = loop.schedule(after: loop.now.duration(to: time)) { [self] in
            tryTimers[id] = nil
            action()
        }
    }

    /// Passes a job to the settler if nothing of it is in flight and nothing more will be sent.
    func finishIfThrough(_ job: HeldJob) {
        if job.inFlight == 0, job.waiting == 0 || job.isClosed { settler.take(job) }
    }
}
