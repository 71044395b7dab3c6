import FoundationEssentials
import PostgresStore
import QueueCore

/// Decides which queues this worker knows and serves, when their settings are read, and which of them must not send.
/// ``Queues`` carries out the decisions.
///
/// What holds at every moment (`ServedQueuesExplorationTests`):
/// - Settings are never replaced by those of a reading that began earlier, or that began before the worker learned of a
///   pause.
/// - A queue whose credential APNs refused does not send with it until newly read settings allow that: they have
///   another credential, or no pause although the pause was written.
/// - A pause names the refused credential, and is requested until PostgreSQL has answered.
/// - A queue that has work is not forgotten.
/// - After a round of readings, this worker does what the settings in PostgreSQL say.
///
/// A value without a clock: its owner passes the time.
struct ServedQueues {
    /// The time without work after which a queue is no longer in use.
    static let idleAfter = Duration.seconds(10)
    /// How often the settings of queues that are not in use are read.
    static let idleRefresh = Duration.seconds(60)
    static let forgottenAfter = Duration.seconds(3600)
    /// The maximum number of queues whose settings one statement reads for the first time. Each queue brings its
    /// credential, and opening thousands of credentials in one turn of the loop takes seconds.
    static let maximumLearned = 100
    /// The maximum number of queues whose settings one statement reads again.
    static let maximumReadAgain = 2000

    /// A statement that reads settings.
    struct Reading {
        /// The number of the reading. Each reading has a higher one than those sent before.
        let number: Int64
        let ids: [Int32]
    }

    /// Settings that were adopted. The owner gives the queue its gateways, and then calls ``noteGateways(after:)``.
    struct Change {
        let queue: QueueState
        fileprivate let reading: Int64
        let isNew: Bool
        /// Whether the queue was able to send before.
        let didWork: Bool
        /// What a log says about the change.
        let news: EngineEvent?
    }

    /// What the owner has to do.
    enum Action {
        case report(EngineEvent)
        /// Give back the held jobs of the queue, which holds some. To find them, the owner looks at all jobs that this
        /// worker holds. For a thousand paused queues without any, that would take half a second at each reading.
        case yieldJobs(QueueState)
        /// Rest those gateways of the queue over which no queue may send.
        case restGateways(QueueState)
    }

    /// A queue that is to be paused because APNs refuses its credential.
    struct Pause: Equatable {
        let queueID: Int32
        let reason: String
        let credential: CredentialVersion
    }

    enum PauseAnswer {
        /// - Parameter isNews: false if the queue was paused already, or has another credential by now.
        case written(isNews: Bool)
        /// PostgreSQL cannot write the pause at this moment.
        case refused
    }

    /// Why a queue is blocked.
    private struct Fault {
        let reason: String
        let credential: CredentialVersion
        /// How often PostgreSQL has refused to write the pause, and when it is written again.
        var refusals = 0
        var nextTry: ContinuousClock.Instant
        /// The number of readings that had begun when the pause was written; nil until it is written.
        var writtenAfter: Int64?

        func isWritten(before reading: Int64) -> Bool { writtenAfter.map { reading > $0 } ?? false }
    }

    /// What is known of one queue. A class, because all entries are looked at many times a second, and a copy costs
    /// more than a look.
    private final class Entry {
        let queue: QueueState
        /// The reading that returned the settings, or a later reading before which the settings changed.
        var reading: Int64
        /// The credential with which the queue's gateways were opened.
        var credential: CredentialVersion?
        var fault: Fault?

        init(queue: QueueState, reading: Int64) {
            self.queue = queue
            self.reading = reading
        }
    }

    private let pattern: QueuePattern
    /// The maximum age of settings of a queue that has work again. Older settings are read again.
    private let maximumAge: Duration
    private var entries: [Int32: Entry] = [:]
    /// The tenants of these queues.
    private var tenants: [Int32: TenantShare] = [:]
    /// Queues that this worker does not serve, or that no longer exist.
    private var ignored: Set<Int32> = []
    /// Queues whose settings are to be read at once, because the queue was paused or the settings changed.
    private var inDoubt: Set<Int32> = []
    private var lastReading: Int64 = 0
    /// The last reading that was sent before a queue was forgotten. It and earlier readings do not bring back a queue.
    private var lastForgotten: Int64 = 0
    /// Whether a gateway may be unused now: a queue was forgotten, or sends with another credential.
    private var hasReleasedGateways = false
    private var allReadAt: ContinuousClock.Instant
    private var measuredAt: ContinuousClock.Instant
    private let figures: EngineFigures

    /// - Parameter figures: counts what is done for each queue.
    init(
        _ settings: EngineSettings, figures: EngineFigures = EngineFigures(QueueAdmission()),
        now: ContinuousClock.Instant
    ) {
        pattern = QueuePattern(settings.queues)
        self.figures = figures
        maximumAge = max(settings.settingsRefresh * 2, .seconds(1))
        allReadAt = now
        measuredAt = now
    }

    /// The queue with this id, if this worker serves and knows it.
    subscript(id: Int32) -> QueueState? { entries[id]?.queue }

    /// All known queues.
    var all: some Sequence<QueueState> { entries.values.lazy.map(\.queue) }

    /// Whether settings are to be read at once.
    var hasDoubts: Bool { !inDoubt.isEmpty }

    // MARK: Which settings are read

    /// Begins a reading of these queues, which is sent now. Readings are carried out in the order of sending.
    mutating func beginReading(_ ids: [Int32]) -> Reading {
        lastReading += 1
        return Reading(number: lastReading, ids: ids)
    }

    /// The queues whose settings have to be read because they have work for the first time, or again after a while; in
    /// parts, each for one reading.
    /// - Parameter isClaim: whether the queues' jobs are claimed now. If not, the settings of queues that wait in the
    ///   database for a connection are not read again: there may be thousands of them.
    mutating func learn(_ ids: Set<Int32>, forClaim isClaim: Bool, now: ContinuousClock.Instant) -> [[Int32]] {
        let readSince = now - maximumAge
        let unread = ids.filter { id in
            guard let queue = entries[id]?.queue else { return !ignored.contains(id) }
            queue.lastWanted = now
            return queue.readAt < readSince && (isClaim || !queue.waitsForTurn)
        }
        return unread.sorted().parts(of: Self.maximumLearned)
    }

    /// Notes that the settings of these queues may have changed.
    mutating func doubt(_ ids: some Sequence<Int32>) {
        for id in ids where entries[id] != nil { inDoubt.insert(id) }
    }

    /// The same for all queues of a tenant.
    mutating func doubt(tenant id: Int32) {
        doubt(all.filter { $0.settings.tenantID == id }.map(\.id))
    }

    /// Returns the queues whose settings are to be read at once, in parts.
    mutating func readDoubted() -> [[Int32]] {
        defer { inDoubt = [] }
        return inDoubt.sorted().parts(of: Self.maximumReadAgain)
    }

    /// The queues whose settings are read again: those in use, except those that wait in the database, and all queues
    /// every minute. Forgets the queues that are not used any more.
    mutating func readAgain(now: ContinuousClock.Instant) -> [[Int32]] {
        ignored.removeAll(keepingCapacity: true)
        let isAll = allReadAt + Self.idleRefresh <= now
        if isAll {
            allReadAt = now
            forgetUnused(now: now)
        }
        let ids = all.filter { isAll || $0.isInUse(since: now - Self.idleAfter) && !$0.waitsForTurn }.map(\.id)
        return ids.sorted().parts(of: Self.maximumReadAgain)
    }

    private mutating func forgetUnused(now: ContinuousClock.Instant) {
        for (id, entry) in entries where entry.fault == nil && !entry.queue.isInUse(since: now - Self.idleAfter) {
            let queue = entry.queue
            queue.messages.forgetAll()
            if !queue.routes.contains(where: \.hasConnections) || !queue.isInUse(since: now - Self.forgottenAfter) {
                forget(id)
            }
        }
        let known = Set(all.map(\.settings.tenantID))
        tenants = tenants.filter { known.contains($0.key) }
    }

    private mutating func forget(_ id: Int32) {
        entries[id] = nil
        lastForgotten = lastReading
        hasReleasedGateways = true
    }

    /// Notes that a gateway was opened for settings that have changed meanwhile.
    mutating func noteReleasedGateway() { hasReleasedGateways = true }

    /// Whether gateways may have become unused since the last call. With thousands of queues, finding them takes a
    /// fiftieth of a core if it is done every second.
    mutating func takeReleasedGateways() -> Bool {
        defer { hasReleasedGateways = false }
        return hasReleasedGateways
    }

    // MARK: Settings that were read

    /// Adopts settings. Returns nil if this worker does not serve the queue, or the settings are out of date.
    mutating func note(_ new: QueueSettings, of reading: Reading, now: ContinuousClock.Instant) -> Change? {
        let id = new.queueID
        guard pattern.matches(new.name.description) else {
            ignored.insert(id)
            return nil
        }
        guard let entry = entries[id] else {
            guard reading.number > lastForgotten else { return nil }
            let tenant = tenants[new.tenantID] ?? TenantShare(now: now)
            tenants[new.tenantID] = tenant
            take(new, for: tenant, now: now)
            let queue = QueueState(settings: new, of: tenant, figures: figures.figures(of: new.name), now: now)
            entries[id] = Entry(queue: queue, reading: reading.number)
            return Change(queue: queue, reading: reading.number, isNew: true, didWork: false, news: nil)
        }
        guard reading.number >= entry.reading else { return nil }
        entry.reading = reading.number
        let queue = entry.queue
        let (didWork, wasPaused) = (queue.mayWork, queue.settings.isPaused)
        // When the tenant's rate has changed, the next permit of the queue is due at another time, too.
        if new.tenantRate != queue.settings.tenantRate { queue.limit.nextTake = now }
        if GatewayUse(new) != GatewayUse(queue.settings) { hasReleasedGateways = true }
        queue.settings = new
        queue.readAt = now
        queue.turn.weight = new.weight
        queue.limit.change(to: new.rate, now: now)
        take(new, for: queue.tenant, now: now)
        let news: EngineEvent? =
            if new.isPaused == wasPaused { nil } else if new.isPaused { .queueIsPaused(queue: "\(new.name)") } else {
                .queueResumed(queue: "\(new.name)")
            }
        return Change(queue: queue, reading: reading.number, isNew: false, didWork: didWork, news: news)
    }

    /// Adopts the settings that all queues of a tenant have in common.
    private func take(_ new: QueueSettings, for tenant: TenantShare, now: ContinuousClock.Instant) {
        tenant.turn.weight = new.tenantWeight
        tenant.limit.change(to: new.tenantRate, now: now)
    }

    /// Whether settings are still the last adopted ones. Others may have been read while gateways were opened.
    func isCurrent(_ change: Change) -> Bool {
        entries[change.queue.id].map { $0.queue === change.queue && $0.reading == change.reading } ?? false
    }

    /// Notes that a queue has the gateways of its settings, if the settings are still current. Only then is it known
    /// that a refused credential was replaced.
    mutating func noteGateways(after change: Change, now: ContinuousClock.Instant) -> [Action] {
        let queue = change.queue
        guard isCurrent(change), let entry = entries[queue.id] else { return change.news.map { [.report($0)] } ?? [] }
        entry.credential = queue.settings.credential.map(CredentialVersion.init)
        if let fault = entry.fault, fault.credential != entry.credential || fault.isWritten(before: change.reading) {
            entry.fault = nil
        }
        queue.isBlocked = entry.fault != nil
        var actions = change.news.map { [Action.report($0)] } ?? []
        if change.isNew, queue.settings.credential == nil {
            actions.append(.report(.queueWithoutCredential(queue: queue.settings.name.description)))
        }
        actions += blockIfExpired(queue, now: now)
        if !queue.mayWork {
            actions += yieldJobs(of: queue)
            if change.didWork { actions.append(.restGateways(queue)) }
        }
        return actions
    }

    /// Notes that a reading was answered with settings of `found` only: the other queues no longer exist.
    mutating func noteAnswered(_ reading: Reading, found: some Sequence<Int32>) -> [Action] {
        var actions: [Action] = []
        for id in Set(reading.ids).subtracting(found) {
            guard let entry = entries[id] else {
                ignored.insert(id)
                continue
            }
            guard reading.number >= entry.reading else { continue }
            forget(id)
            entry.queue.isBlocked = true
            actions += yieldJobs(of: entry.queue)
        }
        return actions
    }

    private func yieldJobs(of queue: QueueState) -> [Action] { queue.heldJobs > 0 ? [.yieldJobs(queue)] : [] }

    // MARK: Queues that must not send

    /// Stops a queue that was paused, or whose tenant was suspended. Nothing more of it is sent from now on.
    mutating func halt(_ id: Int32) -> [Action] {
        guard let queue = entries[id]?.queue, !queue.settings.isPaused else { return [] }
        let didWork = queue.mayWork
        queue.settings.isPaused = true
        // Readings that were sent before are out of date.
        entries[id]?.reading = lastReading + 1
        lastReading += 1
        doubt([id])
        // The reading that follows finds nothing changed.
        return [Action.report(.queueIsPaused(queue: "\(queue.settings.name)"))] + yieldJobs(of: queue)
            + (didWork ? [.restGateways(queue)] : [])
    }

    /// Notes that APNs refuses the credential of a queue. The queue stops sending, and soon is paused for the fleet.
    /// - Parameter answer: what APNs answered: a reason, or APNs' own text if the reason is unknown.
    mutating func noteFault(of queue: QueueState, _ answer: String, now: ContinuousClock.Instant) -> [Action] {
        guard let entry = entries[queue.id], entry.queue === queue, let credential = entry.credential,
            // The queue already has another credential, whose gateway is being opened.
            credential == queue.settings.credential.map(CredentialVersion.init)
        else { return [] }
        return block(
            queue, credential,
            because:
                "APNs answered \(answer): replace the credential, then the queue resumes; it is also tried again by "
                + "itself, after 15 minutes to 6 hours", now)
    }

    /// Pauses a queue whose certificate has expired: with it, APNs would end every connection.
    private mutating func blockIfExpired(_ queue: QueueState, now: ContinuousClock.Instant) -> [Action] {
        guard let credential = queue.settings.credential, let end = credential.expiredAt, !queue.settings.isPaused
        else { return [] }
        return block(
            queue, CredentialVersion(credential),
            because:
                "the certificate expired at \(end.formatted(.iso8601)): replace the credential, then the queue resumes",
            now)
    }

    private mutating func block(
        _ queue: QueueState, _ credential: CredentialVersion, because reason: String, _ now: ContinuousClock.Instant
    ) -> [Action] {
        guard entries[queue.id]?.fault == nil else { return [] }
        entries[queue.id]?.fault = Fault(reason: reason, credential: credential, nextTry: now)
        queue.isBlocked = true
        return yieldJobs(of: queue) + [Action.restGateways(queue)]
    }

    /// The pauses that are to be written now. If PostgreSQL refuses to write a pause, this worker keeps the queue
    /// blocked and tries again. Otherwise it would go on sending with the refused credential.
    func duePauses(now: ContinuousClock.Instant) -> [Pause] {
        entries.values.compactMap { entry in
            guard let fault = entry.fault, fault.writtenAfter == nil, fault.nextTry <= now else { return nil }
            return Pause(queueID: entry.queue.id, reason: fault.reason, credential: fault.credential)
        }.sorted { $0.queueID < $1.queueID }
    }

    /// Notes the answer to a pause that was due.
    mutating func note(
        _ answer: PauseAnswer, to pause: Pause, now: ContinuousClock.Instant,
        using generator: inout some RandomNumberGenerator
    ) -> [Action] {
        guard let entry = entries[pause.queueID], var fault = entry.fault, fault.credential == pause.credential else {
            return []
        }
        switch answer {
        case .refused:
            fault.refusals += 1
            fault.nextTry = now + Backoff.connection.delay(afterAttempt: fault.refusals, using: &generator)
            entry.fault = fault
            return []
        case .written(let isNews):
            // From now on, the settings say whether the queue is paused.
            fault.writtenAfter = lastReading
            entry.fault = fault
            inDoubt.insert(pause.queueID)
            guard isNews else { return [] }
            entry.queue.settings.isPaused = true
            return [.report(.queuePaused(queue: entry.queue.settings.name.description, reason: pause.reason))]
        }
    }

    // MARK: Rates

    /// Measures how fast each queue is sent, at most four times a second. Stocks and fan-out depend on these rates.
    mutating func measureRates(now: ContinuousClock.Instant) {
        let seconds = measuredAt.duration(to: now) / .seconds(1)
        guard seconds >= 0.25 else { return }
        measuredAt = now
        for queue in all {
            let rate = Double(queue.sentSinceMeasured) / seconds
            queue.sentSinceMeasured = 0
            queue.sendRate = max(rate, queue.sendRate * 0.9)
        }
    }
}
