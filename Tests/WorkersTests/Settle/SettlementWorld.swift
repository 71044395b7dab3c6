import APNs
import QueueCore
import TestSupport

@testable import PostgresStore
@testable import Workers

/// PostgreSQL's rows for some jobs, as far as a settler's statements are concerned.
struct SettlementStore {
    /// A waiting or held job, as it was last written.
    struct Row {
        var epoch: Int32
        var watermark = 0
        var outcomes: [UInt8]
        /// The devices of the recipients.
        var devices: [Int64]
        var root: Int64
        var isAtMostOnce: Bool
        var losses = 0
        /// The number of the last flush under its lease.
        var flush: Int64 = 0
        var deadline: ContinuousClock.Instant?
    }

    struct StatementError: Error {}

    var waiting: [Int64: Row] = [:]
    var leases: [Int64: Row] = [:]
    var results: [Int64: Row] = [:]
    private var lastJob: Int64 = 1000
    /// Jobs that were ended twice.
    var endedTwice: Set<Int64> = []
    /// Jobs whose lease another transaction has locked.
    var locked: Set<Int64> = []
    /// Jobs whose end, or whose flush, is always refused.
    var refusesEnd: Set<Int64> = []
    var refusesFlush: Set<Int64> = []
    /// Whether the store refuses each end and each return, for a reason that no job has.
    var refusesAll = false
    /// Jobs that cannot be given back after their end was refused.
    var refusesSettingAside: Set<Int64> = []
    var pausedRoots: Set<Int64> = []
    var cancelled: Set<Int64> = []

    mutating func carryOut(_ statement: Endings.Batch.Statement) throws(StatementError) -> WrittenLeases {
        if refusesAll { throw StatementError() }
        switch statement {
        case .endJobs(let jobs):
            if jobs.contains(where: { refusesEnd.contains($0.key.jobID) }) { throw StatementError() }
            return write(jobs, \.key) { store, job, row in
                var row = row
                if store.results[job.key.jobID] != nil { store.endedTwice.insert(job.key.jobID) }
                store.add(job.again, of: row)
                row.outcomes = job.outcomes
                store.results[job.key.jobID] = row
            }
        case .yield(let jobs):
            if jobs.contains(where: { refusesEnd.contains($0.progress.key.jobID) }) { throw StatementError() }
            return write(jobs, \.progress.key) { $0.giveBack($1, of: $2, $1.progress.outcomes) }
        case .setAside(let job, _):
            if refusesSettingAside.contains(job.progress.key.jobID) { throw StatementError() }
            return write([job], \.progress.key) { store, job, row in
                var row = row
                let stored = row.outcomes
                row.outcomes = zip(stored, job.progress.outcomes).map {
                    Outcome(rawValue: $0).continuesInOtherJob ? $0 : $1
                }
                store.giveBack(job, of: row, row.outcomes)
            }
        }
    }

    private mutating func giveBack(_ job: YieldedLease, of lease: Row, _ outcomes: [UInt8]) {
        var row = lease
        (row.watermark, row.outcomes, row.deadline) = (job.progress.watermark, outcomes, nil)
        row.losses += job.addedLosses
        waiting[job.progress.key.jobID] = row
    }

    /// Creates the jobs of recipients that continue, except those that have one.
    private mutating func add(_ recipients: [ContinuingRecipient], of row: Row) {
        let new = recipients.filter { !Outcome(rawValue: row.outcomes[$0.ordinal]).continuesInOtherJob }
        for (losses, recipients) in Dictionary(grouping: new, by: \.losses) {
            lastJob += 1
            waiting[lastJob] = Row(
                epoch: 0, outcomes: [UInt8](repeating: 0, count: recipients.count),
                devices: recipients.map(\.deviceID), root: row.root, isAtMostOnce: row.isAtMostOnce,
                losses: row.losses + losses)
        }
    }

    /// The devices whose push does not wait, or has not ended, in exactly one place.
    func misplaced(among devices: Set<Int64>) -> [Int64] {
        var places: [Int64: Int] = [:]
        for row in [waiting.values, leases.values, results.values].joined() {
            for (device, outcome) in zip(row.devices, row.outcomes)
            where !Outcome(rawValue: outcome).continuesInOtherJob {
                places[device, default: 0] += 1
            }
        }
        return devices.filter { places[$0] != 1 }.sorted()
    }

    private mutating func write<Job>(
        _ jobs: [Job], _ key: (Job) -> LeaseKey, _ body: (inout SettlementStore, Job, Row) -> Void
    ) -> WrittenLeases {
        var written: Set<LeaseKey> = []
        var isLocked: Set<LeaseKey> = []
        for job in jobs where leases[key(job).jobID]?.epoch == key(job).epoch {
            let id = key(job).jobID
            if locked.contains(id) {
                isLocked.insert(key(job))
                continue
            }
            let row = leases.removeValue(forKey: id)!
            body(&self, job, row)
            written.insert(key(job))
        }
        return WrittenLeases(keys: written, locked: isLocked)
    }

    mutating func carryOut(
        _ batch: Renewals.Batch, lease: Duration, now: ContinuousClock.Instant
    ) throws(StatementError) -> KeptLeases {
        let written = batch.progress + batch.handOvers.map(\.progress)
        if written.contains(where: { refusesFlush.contains($0.key.jobID) }) { throw StatementError() }
        var (kept, isLocked): (Set<LeaseKey>, Set<LeaseKey>) = ([], [])
        for (index, job) in batch.jobs.enumerated() {
            let key = job.claim.key
            guard var row = leases[key.jobID], row.epoch == key.epoch else { continue }
            guard !locked.contains(key.jobID), batch.kind == .renew || row.flush <= batch.number else {
                isLocked.insert(key)
                continue
            }
            row.deadline = now + lease
            if batch.kind != .renew {
                if batch.kind == .handOver { add(batch.handOvers[index].recipients, of: row) }
                row.watermark = written[index].watermark
                row.outcomes = written[index].outcomes
                row.flush = batch.number
            }
            leases[key.jobID] = row
            kept.insert(key)
        }
        return KeptLeases(
            keys: kept, locked: isLocked,
            cancelled: kept.filter { cancelled.contains($0.jobID) || cancelled.contains(leases[$0.jobID]!.root) },
            paused: kept.filter { pausedRoots.contains(leases[$0.jobID]!.root) })
    }
}

/// A settlement with its surroundings: a store that may refuse, lose answers and carry out statements late, a
/// dispatcher that sends, APNs that answers, and a clock. Events are random; the promises are checked after each event.
final class SettlementWorld {
    private static let window = 2
    private static let jobsHeld = 40

    /// The first broken promise.
    private(set) var violation: String?
    /// A log of the events, for a reader who looks for the cause.
    private(set) var events: [String] = []
    /// The number of events of each kind that the exploration must reach.
    private(set) var reached: [String: Int] = [:]

    private var generator: SeededGenerator
    private var now = ContinuousClock.now
    private let settings: EngineSettings
    private let jobs = HeldJobs()
    private let queue = JobFixture.queue()
    private var settlement: Settlement
    private var store = SettlementStore()

    private var devices: Set<Int64> = []
    private var isRunning = true
    private var inFlight: [(job: HeldJob, ordinal: Int)] = []
    /// The delivered recipients by lease, and how often each device was sent to, except for pushes that were refused.
    private var delivered: [LeaseKey: Set<Int>] = [:]
    private var sent: [Int64: Int] = [:]
    /// Leases that expired. What is known of their jobs may be lost.
    private var excused: Set<LeaseKey> = []

    private var ending: (batch: Endings.Batch, isRepeated: Bool)?
    private var renewal: (batch: Renewals.Batch, sent: ContinuousClock.Instant)?
    private var late: [Renewals.Batch] = []
    private var isInRound = false
    private var roundBegan = ContinuousClock.now
    private var isRoundTroubled = false
    private var settlingAtBegin: Set<ObjectIdentifier> = []
    private var lastNumber: Int64 = 0
    private var over: Set<ObjectIdentifier> = []
    /// Kept so that no other object gets the same identity.
    private var hadOver: [HeldJob] = []

    init(seed: UInt64) {
        generator = SeededGenerator(seed: seed)
        var settings = EngineSettings()
        settings.atMostOnceWindow = Self.window
        self.settings = settings
        settlement = Settlement(settings, jobs: jobs, now: now)
        for id in 1...Int64(Self.jobsHeld) {
            let count = Int64.random(in: 1...5, using: &generator)
            let devices = (0..<count).map { id * 100 + $0 * 10 }
            self.devices.formUnion(devices)
            store.waiting[id] = .init(
                epoch: 0, outcomes: [UInt8](repeating: 0, count: devices.count), devices: devices, root: id % 5,
                isAtMostOnce: id % 3 == 0)
        }
        if chance(0.3) { store.refusesEnd = [Int64.random(in: 1...Int64(Self.jobsHeld), using: &generator)] }
        if chance(0.5) { store.refusesSettingAside = store.refusesEnd }
        if chance(0.3) { store.refusesFlush = [Int64.random(in: 1...Int64(Self.jobsHeld), using: &generator)] }
    }

    // MARK: Chance

    private func chance(_ share: Double) -> Bool { Double.random(in: 0..<1, using: &generator) < share }

    private func happened(_ event: String) {
        events.append(event)
        reached[event, default: 0] += 1
    }

    private func broken(_ promise: String) { violation = violation ?? promise }

    /// Lets `count` events happen.
    func run(events count: Int) {
        for _ in 0..<count where violation == nil {
            step()
            checkPlaces()
        }
    }

    /// Whatever was written, forgotten or repeated: each push waits in one place, or has ended once.
    private func checkPlaces() {
        let misplaced = store.misplaced(among: devices)
        if !misplaced.isEmpty { broken("pushes to \(misplaced) are in several places, or in none") }
    }

    private func step() {
        switch Int.random(in: 0..<100, using: &generator) {
        case ..<14: claim()
        case ..<34: send()
        case ..<56: answer()
        case ..<68: stepEnding()
        case ..<88: stepRenewal()
        case ..<93: pass(.milliseconds(Int.random(in: 1...600, using: &generator)))
        case 94: pass(.milliseconds(Int.random(in: 1000...12000, using: &generator)))
        case 93: store.refusesAll = !store.refusesAll && chance(0.5)
        case 95: lock()
        case 96: stop()
        case 97: giveBack()
        case 98: arriveLate()
        default: rescue()
        }
    }

    // MARK: Surroundings

    private func claim() {
        guard let id = store.waiting.keys.sorted().randomElement(using: &generator), var row = store.waiting[id] else {
            return
        }
        store.waiting[id] = nil
        let previousWatermark = row.watermark
        row.epoch += 1
        row.flush = 0
        row.watermark =
            row.isAtMostOnce ? min(row.outcomes.count, previousWatermark + Self.window) : row.outcomes.count
        row.deadline = now + settings.lease
        store.leases[id] = row
        let job = jobs.insert(of: queue) { slot in
            JobFixture.job(
                recipients: row.outcomes.count, isAtMostOnce: row.isAtMostOnce, previousWatermark: previousWatermark,
                outcomes: row.outcomes, losses: max(row.losses, previousWatermark > 0 ? 1 : 0), window: Self.window,
                queueID: queue.id, id: id, rootID: row.root, epoch: row.epoch, slot: slot,
                sendWithin: .seconds(20), devices: row.devices, now: now)
        }
        RescuedJobRules.apply(to: job)
        if job.waiting == 0 { settlement.take(job) }
        happened("claim")
    }

    private func send() {
        let open = jobs.all.filter { $0.isSendable && now < $0.renewedAt + settings.fence && now < $0.sendBy }
        guard let job = open.randomElement(using: &generator), let recipient = job.takeRecipient() else { return }
        let id = job.claim.key.jobID
        job.noteSent()
        inFlight.append((job, recipient.ordinal))
        let device = job.claim.deviceIDs[recipient.ordinal]
        sent[device, default: 0] += 1
        if job.claim.isAtMostOnce, sent[device]! > 1 { broken("job \(id) sent to device \(device), as another did") }
        if job.unsentRecipients.count + job.inFlight != job.waiting {
            broken("job \(id) does not know which recipients are in flight")
        }
        if let row = store.leases[id], row.epoch == job.claim.key.epoch, recipient.ordinal >= row.watermark {
            broken("job \(id) sent to \(recipient.ordinal), and only \(row.watermark) are committed as sent")
        }
        happened("send")
    }

    private func answer() {
        guard let index = inFlight.indices.randomElement(using: &generator) else { return }
        // The answers about some devices are late.
        if isRunning, inFlight[index].job.claim.deviceIDs[inFlight[index].ordinal] % 30 == 0, chance(0.95) { return }
        let (job, ordinal) = inFlight.remove(at: index)
        job.noteEnded()
        switch Int.random(in: 0..<10, using: &generator) {
        case 0:
            let refusal = Refusal(status: 503, text: "ServiceUnavailable")
            sent[job.claim.deviceIDs[ordinal], default: 0] -= 1
            _ = AnswerRules.refused(ordinal, of: job, in: queue, refusal, .init(sentAt: now, now: now))
        case 1: AnswerRules.unanswered(ordinal, of: job)
        default:
            AnswerRules.accepted(ordinal, of: job, in: queue, sentAt: now)
            if !job.isLost { delivered[job.claim.key, default: []].insert(ordinal) }
        }
        if job.inFlight == 0, job.waiting == 0 || job.isClosed { settlement.take(job) }
        happened("answer")
    }

    private func pass(_ time: Duration) { now += time }

    /// Another transaction locks the lease of a job, or unlocks those that it has locked.
    private func lock() {
        guard store.locked.isEmpty, let id = store.leases.keys.sorted().randomElement(using: &generator) else {
            store.locked = []
            return
        }
        store.locked = [id]
        happened("lock")
    }

    /// An operator pauses or cancels a campaign, or cancels a job.
    private func stop() {
        let id = Int64.random(in: 0...Int64(Self.jobsHeld), using: &generator)
        if id < 5, chance(0.5) { store.pausedRoots.insert(id) } else { store.cancelled.insert(id) }
        if chance(0.5) { settlement.doubt(id) }
        happened("stop")
    }

    private func giveBack() {
        guard let job = jobs.all.randomElement(using: &generator) else { return }
        settlement.close(job, .yielded(after: .zero))
        happened("give back")
    }

    private func arriveLate() {
        guard !late.isEmpty else { return }
        _ = try? store.carryOut(late.removeFirst(), lease: settings.lease, now: now)
        happened("late flush")
    }

    private func rescue() {
        for (id, row) in store.leases where row.deadline! < now - settings.rescueGrace && !store.locked.contains(id) {
            store.leases[id] = nil
            store.waiting[id] = row
            excused.insert(LeaseKey(queueID: queue.id, jobID: id, epoch: row.epoch))
            happened("rescue")
        }
    }

    // MARK: Endings

    private func stepEnding() {
        if let (batch, isRepeated) = ending { return answerEnding(batch, isRepeated: isRepeated) }
        let step = settlement.nextEnding(now: now, hasGivenUp: false, using: &generator)
        guard case .write(let batch) = step else { return }
        check(batch)
        ending = (batch, false)
        if case .write = settlement.nextEnding(now: now, hasGivenUp: false, using: &generator) {
            broken("two statements that end jobs are under way")
        }
    }

    private func check(_ batch: Endings.Batch) {
        if batch.jobs.count > Endings.maximumJobs { broken("\(batch.jobs.count) jobs are ended by one statement") }
        if Set(batch.jobs.map(ObjectIdentifier.init)).count < batch.jobs.count { broken("a job is in a batch twice") }
        for job in batch.jobs {
            if job.inFlight > 0 { broken("a job is ended with answers outstanding") }
            if over.contains(ObjectIdentifier(job)) { broken("a job is written that was written before") }
        }
    }

    private func answerEnding(_ batch: Endings.Batch, isRepeated: Bool, isTroubled: Bool = true) {
        if isTroubled, chance(0.2) {
            if chance(0.5) { _ = try? store.carryOut(batch.statement) }
            ending = (batch, true)
            return happened("ending without an answer")
        }
        ending = nil
        let held = Set(jobs.all.map(ObjectIdentifier.init))
        do throws(SettlementStore.StatementError) {
            let written = try store.carryOut(batch.statement)
            _ = settlement.note(.written(written, isRepeated: isRepeated), to: batch, now: now)
            if case .setAside = batch.statement { happened("set aside") } else { happened("ending") }
        } catch {
            let mayBlameRows = !store.refusesAll && chance(0.7)
            _ = settlement.note(mayBlameRows ? .refused("refused") : .prevented("prevented"), to: batch, now: now)
            happened("refused ending")
            if settlement.prevention != nil { happened("prevented") }
            if settlement.prevention != nil, settlement.maximumLeases > 0 {
                broken("leases may be added although ends are refused")
            }
            if batch.jobs.contains(where: { job in !jobs.all.contains { $0 === job } }) {
                broken("a job that was refused is held no more")
            }
        }
        for job in batch.jobs where !jobs.all.contains(where: { $0 === job }) && held.contains(ObjectIdentifier(job)) {
            over.insert(ObjectIdentifier(job))
            hadOver.append(job)
        }
        let lost = store.endedTwice
        if !lost.isEmpty { broken("jobs were ended twice: \(lost)") }
    }

    // MARK: Renewals

    private func stepRenewal() {
        if let (batch, _) = renewal { return answerRenewal(batch) }
        if !isInRound {
            settlement.beginRound(now: now)
            checkTokens()
            (isInRound, roundBegan, isRoundTroubled) = (true, now, false)
            settlingAtBegin = Set(jobs.all.filter(\.isSettling).map(ObjectIdentifier.init))
        }
        guard let step = settlement.nextRenewal(now: now, using: &generator) else { return endRound() }
        switch step {
        case .askForHalts: break
        case .flush(let batch):
            if batch.number <= lastNumber { broken("flush \(batch.number) comes after \(lastNumber)") }
            lastNumber = batch.number
            if batch.jobs.count > Renewals.maximumFlushed { broken("\(batch.jobs.count) jobs are flushed at once") }
            renewal = (batch, now)
        case .handOver(let batch):
            if batch.number <= lastNumber { broken("hand-over \(batch.number) comes after \(lastNumber)") }
            lastNumber = batch.number
            if batch.jobs.count > Renewals.maximumHandedOver { broken("\(batch.jobs.count) jobs hand over at once") }
            if batch.jobs.contains(where: \.isHandOverInDoubt) { happened("repeated hand-over") }
            renewal = (batch, now)
        case .renew(let batch):
            if batch.jobs.count > Renewals.maximumRenewed { broken("\(batch.jobs.count) leases are renewed at once") }
            renewal = (batch, now)
        }
    }

    private func checkTokens() {
        for job in jobs.all where !job.isSettling && now >= job.claimedAt + settings.tokenAge && job.unsent > 0 {
            broken("job \(job.claim.key) is sent further with the tokens of long ago")
        }
        if jobs.all.contains(where: { $0.closing == .yielded(after: .zero) && now >= $0.claimedAt + settings.tokenAge })
        {
            happened("tokens too old")
        }
    }

    private func answerRenewal(_ batch: Renewals.Batch, isTroubled: Bool = true) {
        renewal = nil
        if isTroubled, chance(batch.kind == .handOver ? 0.5 : 0.15) {
            isRoundTroubled = true
            switch Int.random(in: 0..<4, using: &generator) {
            case 0: _ = try? store.carryOut(batch, lease: settings.lease, now: now)
            case 1 where batch.kind != .renew: late.append(batch)
            case 2:
                _ = settlement.note(.failed, to: batch, now: now)
                return happened("failed renewal")
            default: break
            }
            _ = settlement.note(.unanswered, to: batch, now: now)
            return happened("renewal without an answer")
        }
        do throws(SettlementStore.StatementError) {
            let kept = try store.carryOut(batch, lease: settings.lease, now: now)
            if !kept.locked.isEmpty { isRoundTroubled = true }
            _ = settlement.note(.kept(kept), to: batch, now: now)
            happened(batch.kind == .renew ? "renewal" : batch.kind == .flush ? "flush" : "hand-over")
        } catch {
            _ = settlement.note(.refused, to: batch, now: now)
            happened("refused flush")
        }
    }

    private func endRound() {
        isInRound = false
        guard !isRoundTroubled, store.locked.isEmpty else { return }
        for job in jobs.all where job.closing != .lost && !store.refusesFlush.contains(job.claim.key.jobID) {
            guard store.leases[job.claim.key.jobID]?.epoch == job.claim.key.epoch else { continue }
            // A job that became through during the round is renewed in the next.
            if job.isSettling, !settlingAtBegin.contains(ObjectIdentifier(job)) { continue }
            if roundBegan >= job.renewedAt + settings.lease / 3 {
                broken("job \(job.claim.key) was not renewed in a round that went well")
            }
        }
        happened("round that went well")
    }

    // MARK: The end

    /// Drains with a store that works, and checks that nothing is left or forgotten.
    func drain() {
        isRunning = false
        store.locked = []
        (store.refusesAll, store.refusesSettingAside) = (false, [])
        for job in jobs.all where !job.isSettling { settlement.close(job, .yielded(after: .zero)) }
        while !inFlight.isEmpty { answer() }
        settlement.stop()
        for _ in 0..<2000 where violation == nil && !settlement.isOver {
            if let (batch, isRepeated) = ending {
                answerEnding(batch, isRepeated: isRepeated, isTroubled: false)
            } else {
                stepEnding()
                if ending == nil { pass(.milliseconds(100)) }
            }
            if let (batch, _) = renewal { answerRenewal(batch, isTroubled: false) } else { stepRenewal() }
        }
        if jobs.count > 0 { broken("\(jobs.count) jobs are held after a drain") }
        checkPlaces()
        for (key, ordinals) in delivered where !excused.contains(key) {
            let id = key.jobID
            guard let known = (store.results[id] ?? store.waiting[id])?.outcomes else {
                broken("job \(id) is neither ended nor given back")
                continue
            }
            for ordinal in ordinals where known[ordinal] != Outcome.delivered.rawValue {
                broken("that recipient \(ordinal) of job \(id) took its push was forgotten")
            }
        }
    }
}

extension HeldJob {
    /// As far as this worker knows, another worker holds the job.
    fileprivate var isLost: Bool { closing == .lost }
}
