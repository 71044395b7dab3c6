import FoundationEssentials
import PostgresStore
import QueueCore

/// The queues that this worker serves: which of them it knows, when their settings are read, and which of them must not
/// send. ``Queues`` carries it out.
///
/// What holds at every moment (`ServedQueuesExplorationTests`):
/// - Settings are never replaced by those of a reading that began earlier, nor by one that began before a pause was
///   heard of.
/// - A queue whose credential APNs refused does not send with it until settings were read that say otherwise: another
///   credential, or no pause after the pause was written.
/// - A pause names the credential that was refused, and is asked for until PostgreSQL has answered.
/// - A queue that has work is not forgotten.
/// - What PostgreSQL says holds here after a round of readings.
///
/// A value without a clock: its owner passes the time.
struct ServedQueues {
    /// A queue without work for this time is in use no more.
    static let idleAfter = Duration.seconds(10)
    /// How often the settings of queues that are not in use are read.
    static let idleRefresh = Duration.seconds(60)
    static let forgottenAfter = Duration.seconds(3600)
    /// The maximum number of queues whose settings are read by one statement the first time. Each brings its
    /// credential, and to open thousands of them in one turn of the loop takes seconds.
    static let maximumLearned = 100
    /// The maximum number of those whose settings are read again by one statement.
    static let maximumReadAgain = 2000

    /// A statement that reads settings.
    struct Reading {
        /// Grows with each reading that is sent.
        let number: Int64
        let ids: [Int32]
    }

    /// Settings that were taken over. The owner gives the queue its gateways, and then calls ``noteGateways(after:)``.
    struct Change {
        let queue: QueueState
        fileprivate let reading: Int64
        let isNew: Bool
        /// Whether it was sending.
        let didWork: Bool
        /// Said of it in a log.
        let news: EngineEvent?
    }

    /// What the owner does.
    enum Action {
        case report(EngineEvent)
        /// Give back what is held of the queue.
        case yieldJobs(QueueState)
        /// Let those gateways of the queue rest that no queue may send over.
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
        /// PostgreSQL does not take it at this moment.
        case refused
    }

    /// Why a queue is blocked.
    private struct Fault {
        let reason: String
        let credential: CredentialVersion
        /// How often PostgreSQL has refused to write the pause, and when it is asked again.
        var refusals = 0
        var nextTry: ContinuousClock.Instant
        /// The number of readings begun before the pause was written; nil until then.
        var writtenAfter: Int64?

        func isWritten(before reading: Int64) -> Bool { writtenAfter.map { reading > $0 } ?? false }
    }

    /// A class, since all are looked at many times a second, and a copy costs more than the look.
    private final class Entry {
        let queue: QueueState
        /// The reading of which the settings are, or a later one before which they changed.
        var reading: Int64
        /// The credential that its gateways were opened with.
        var credential: CredentialVersion?
        var fault: Fault?

        init(queue: QueueState, reading: Int64) {
            self.queue = queue
            self.reading = reading
        }
    }

    private let pattern: QueuePattern
    /// Settings of a queue that has work again are read anew if they are older.
    private let maximumAge: Duration
    private var entries: [Int32: Entry] = [:]
    /// The tenants of these queues.
    private var tenants: [Int32: TenantShare] = [:]
    /// Queues that are another worker's to serve, or are gone.
    private var ignored: Set<Int32> = []
    /// Queues whose settings are to be read at once: they were paused or changed.
    private var inDoubt: Set<Int32> = []
    private var lastReading: Int64 = 0
    /// The last reading that was sent before a queue was forgotten: none up to it brings one back.
    private var lastForgotten: Int64 = 0
    /// Whether a gateway may be used no more: a queue was forgotten, or sends with another credential.
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

    /// The queue with this id, if it is this worker's to serve and known.
    subscript(id: Int32) -> QueueState? { entries[id]?.queue }

    /// All that are known.
    var all: some Sequence<QueueState> { entries.values.lazy.map(\.queue) }

    /// Whether settings are to be read, or pauses written, at once.
    var hasDoubts: Bool { !inDoubt.isEmpty }

    // MARK: Which settings are read

    /// A reading of these queues is sent now. Readings are carried out in the order in which they are sent.
    mutating func beginReading(_ ids: [Int32]) -> Reading {
        lastReading += 1
        return Reading(number: lastReading, ids: ids)
    }

    /// Queues that have work and are met for the first time, or again after a pause; in parts, each for one reading.
    /// - Parameter isClaim: their jobs are claimed now. Settings of those that wait for a connection in the database
    ///   are read again no sooner: there may be thousands.
    mutating func learn(_ ids: Set<Int32>, forClaim isClaim: Bool, now: ContinuousClock.Instant) -> [[Int32]] {
        let readSince = now - maximumAge
        let unread = ids.filter { id in
            guard let queue = entries[id]?.queue else { return !ignored.contains(id) }
            queue.lastWanted = now
            return queue.readAt < readSince && (isClaim || !queue.waitsForTurn)
        }
        return Self.parts(of: unread.sorted(), atMost: Self.maximumLearned)
    }

    /// Somebody says that the settings of these queues have changed.
    mutating func doubt(_ ids: some Sequence<Int32>) {
        for id in ids where entries[id] != nil { inDoubt.insert(id) }
    }

    /// The same of all queues of a tenant.
    mutating func doubt(tenant id: Int32) {
        doubt(all.filter { $0.settings.tenantID == id }.map(\.id))
    }

    /// The queues that were said to have changed.
    mutating func readDoubted() -> [[Int32]] {
        defer { inDoubt = [] }
        return Self.parts(of: inDoubt.sorted(), atMost: Self.maximumReadAgain)
    }

    /// The queues in use but for those that wait in the database, and every minute all. Forgets those that are used no
    /// more.
    mutating func readAgain(now: ContinuousClock.Instant) -> [[Int32]] {
        ignored.removeAll(keepingCapacity: true)
        let isAll = allReadAt + Self.idleRefresh <= now
        if isAll {
            allReadAt = now
            forgetUnused(now: now)
        }
        let ids = all.filter { isAll || $0.isInUse(since: now - Self.idleAfter) && !$0.waitsForTurn }.map(\.id)
        return Self.parts(of: ids.sorted(), atMost: Self.maximumReadAgain)
    }

    private static func parts(of ids: [Int32], atMost count: Int) -> [[Int32]] {
        stride(from: 0, to: ids.count, by: count).map { Array(ids[$0..<min($0 + count, ids.count)]) }
    }

    private mutating func forgetUnused(now: ContinuousClock.Instant) {
        for (id, entry) in entries where entry.fault == nil && !entry.queue.isInUse(since: now - Self.idleAfter) {
            let queue = entry.queue
            queue.messages.forgetAll()
            if !queue.hasConnections || !queue.isInUse(since: now - Self.forgottenAfter) { forget(id) }
        }
        let known = Set(all.map(\.settings.tenantID))
        tenants = tenants.filter { known.contains($0.key) }
    }

    private mutating func forget(_ id: Int32) {
        entries[id] = nil
        lastForgotten = lastReading
        hasReleasedGateways = true
    }

    /// A gateway was opened for settings that have changed meanwhile.
    mutating func noteReleasedGateway() { hasReleasedGateways = true }

    /// Whether gateways may have become free since this was last asked. With thousands of queues, it takes a fiftieth
    /// of a core to find out which each second.
    mutating func takeReleasedGateways() -> Bool {
        defer { hasReleasedGateways = false }
        return hasReleasedGateways
    }

    // MARK: What was read

    /// Takes over settings. Nil where they are not this worker's, or out of date.
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
        // The next permit is due at another time, too, when the rate around it is another one.
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

    /// Takes over what a tenant's queues have in common.
    private func take(_ new: QueueSettings, for tenant: TenantShare, now: ContinuousClock.Instant) {
        tenant.turn.weight = new.tenantWeight
        tenant.limit.change(to: new.tenantRate, now: now)
    }

    /// Whether settings are still the last that were taken over. Others may have come while gateways were opened.
    func isCurrent(_ change: Change) -> Bool {
        entries[change.queue.id].map { $0.queue === change.queue && $0.reading == change.reading } ?? false
    }

    /// Notes that a queue has the gateways of its settings, if those are still current. Not before, what was refused is
    /// known to be replaced.
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
            actions.append(.yieldJobs(queue))
            if change.didWork { actions.append(.restGateways(queue)) }
        }
        return actions
    }

    /// Notes that a reading was answered with settings of `found` alone: the others are gone.
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
            actions.append(.yieldJobs(entry.queue))
        }
        return actions
    }

    // MARK: Queues that must not send

    /// A queue was paused, or its tenant suspended: nothing more of it is sent from now on.
    mutating func halt(_ id: Int32) -> [Action] {
        guard let queue = entries[id]?.queue, !queue.settings.isPaused else { return [] }
        queue.settings.isPaused = true
        // What was asked for before is out of date.
        entries[id]?.reading = lastReading + 1
        lastReading += 1
        doubt([id])
        return [.yieldJobs(queue)]
    }

    /// APNs refuses the credential of a queue. It stops sending; soon it is paused for the fleet.
    /// - Parameter answer: what APNs said: a reason, or its own words where the reason is unknown.
    mutating func noteFault(of queue: QueueState, _ answer: String, now: ContinuousClock.Instant) -> [Action] {
        guard let entry = entries[queue.id], entry.queue === queue, let credential = entry.credential,
            // It has another one already, whose gateway is about to come.
            credential == queue.settings.credential.map(CredentialVersion.init)
        else { return [] }
        return block(
            queue, credential, because: "APNs answered \(answer): replace the credential, then the queue resumes", now)
    }

    /// With a certificate that has expired APNs would end every connection: the queue pauses instead.
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
        return [.yieldJobs(queue), .restGateways(queue)]
    }

    /// The pauses that are to be written now. A pause that PostgreSQL refuses to write blocks the queue in this worker,
    /// and is tried again: to forget it would be to go on sending with that credential.
    func duePauses(now: ContinuousClock.Instant) -> [Pause] {
        entries.values.compactMap { entry in
            guard let fault = entry.fault, fault.writtenAfter == nil, fault.nextTry <= now else { return nil }
            return Pause(queueID: entry.queue.id, reason: fault.reason, credential: fault.credential)
        }.sorted { $0.queueID < $1.queueID }
    }

    /// Notes what became of a pause that was due.
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
            // From here on the settings say whether it is paused.
            fault.writtenAfter = lastReading
            entry.fault = fault
            inDoubt.insert(pause.queueID)
            guard isNews else { return [] }
            entry.queue.settings.isPaused = true
            return [.report(.queuePaused(queue: entry.queue.settings.name.description, reason: pause.reason))]
        }
    }

    // MARK: Rates

    /// Measures how fast each queue is sent, by which stocks and fan-out are sized; a few times a second at most.
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
