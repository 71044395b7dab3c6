import PostgresStore
import QueueCore
import Transport

/// Acts on what the settler learns about jobs and queues.
protocol SettlerDelegate: AnyObject {
    /// The lease of a job was renewed, and its watermark may have moved: sending may continue.
    func leaseWasRenewed(of job: HeldJob)
    /// PostgreSQL stores outcomes again: see ``Settler/canRecord(now:)``.
    func canRecordAgain()
    /// A queue was paused, or its tenant suspended.
    func queueIsHalted(_ id: Int32)
    /// Jobs of a campaign that pauses itself when too many answers are bad have ended.
    func campaignHasAnswers(_ campaign: CampaignKey)
}

/// Writes what the dispatcher learns: flushes progress, ends jobs that are through, and gives back jobs that this
/// worker must not send. ``Settlement`` decides what is written when.
///
/// Two loops share a connection of their own, so that no slow statement comes between them and the deadline of a lease.
/// Each write is fenced by the lease's epoch, and harmless when repeated.
///
/// Belongs to the engine's event loop.
final class Settler {
    private let store: RetryingConnection
    private let settings: EngineSettings
    private let workerID: Int64
    private let jobs: HeldJobs
    private let figures: EngineFigures
    private let report: (EngineEvent) -> Void
    private let mayHaveWork: Signal
    private let endingSignal: Signal
    private let flushSignal: Signal
    private let pauseSignal: Signal
    private var settlement: Settlement
    private var generator = SystemRandomNumberGenerator()
    /// How late answers to statements that end jobs are. A job whose lease is locked does not count, because the
    /// statement is answered. A statement that waits for a table lock counts.
    private(set) var answerDelay = AnswerDelay()
    /// Whether it was reported that PostgreSQL refuses ends, and not yet that this is over.
    private var hasReportedPrevention = false
    /// When the first statement after the last one that PostgreSQL stored was sent; nil if none waits.
    private var unstoredSince: ContinuousClock.Instant?

    /// Whether outcomes can be recorded. If not, nothing may be sent: if this worker gets no session again before its
    /// leases expire, others send again what it has sent and not recorded.
    func canRecord(now: ContinuousClock.Instant) -> Bool {
        guard store.isOpen else { return false }
        return unstoredSince.map { now < $0 + settings.writePatience } ?? true
    }

    /// Why PostgreSQL probably refuses the ends of all jobs; nil if it does not. Meanwhile nothing may be claimed.
    var prevention: String? { settlement.prevention?.problem }

    /// A description of the delay if PostgreSQL takes unusually long to answer a statement that ends jobs; nil
    /// otherwise.
    var standstill: String? { answerDelay.isLong ? "PostgreSQL has stored no end of a job for some seconds" : nil }

    /// The maximum number of leases that this worker may hold now. What it may not send, others can.
    var maximumLeases: Int { canRecord(now: .now) ? settlement.maximumLeases : 0 }

    weak var delegate: (any SettlerDelegate)?

    init(_ context: EngineContext, jobs: HeldJobs) {
        store = context.postgres.leases
        settings = context.settings
        workerID = context.workerID
        self.jobs = jobs
        figures = context.figures
        report = context.report
        mayHaveWork = context.mayHaveWork
        settlement = Settlement(settings, jobs: jobs, now: .now)
        endingSignal = Signal(loop: context.loop)
        flushSignal = Signal(loop: context.loop)
        pauseSignal = Signal(loop: context.loop)
    }

    /// Takes a job that is through: every recipient has an outcome or the job was closed, and nothing is in flight.
    func take(_ job: HeldJob) {
        settlement.take(job)
        wakeEndings()
    }

    /// Closes a job, and takes it at once if it has nothing in flight.
    func close(_ job: HeldJob, _ reason: HeldJob.Closing) {
        settlement.close(job, reason)
        wakeEndings()
    }

    /// Reports that a job ends without having been sent.
    func reportQuarantine(of job: HeldJob, in queue: QueueState, because damage: String) {
        report(.jobQuarantined(queue: "\(queue.settings.name)", job: job.claim.key.jobID, reason: damage))
    }

    /// Asks at once whether a campaign, send or job was paused or cancelled.
    func lookAfter(root: Int64) {
        settlement.doubt(root)
        flushSignal.raise()
    }

    /// Flushes as soon as possible, because a job waits for its watermark to move.
    func flushSoon() { flushSignal.raise() }

    /// Ends both loops once there is nothing left to settle.
    func stop() {
        settlement.stop()
        endingSignal.raise()
        flushSignal.raise()
    }

    /// Has jobs written that are through, if they need not wait for more of them.
    private func wakeEndings() { if settlement.hasDueEndings(now: .now) { endingSignal.raise() } }

    private func follow(_ consequences: Settlement.Consequences) {
        if consequences.lost > 0 { report(.leasesLost(consequences.lost)) }
        for job in consequences.hindered {
            report(.endHindered(queue: "\(jobs.queue(of: job).settings.name)", job: job.claim.key.jobID))
        }
        for campaign in consequences.judged { delegate?.campaignHasAnswers(campaign) }
        for job in consequences.renewed { delegate?.leaseWasRenewed(of: job) }
        if consequences.wantsRound { flushSignal.raise() }
        wakeEndings()
    }

    // MARK: Endings

    /// Ends jobs that are through, or gives them back, until ``stop()``.
    func runEndings() async {
        while true {
            switch settlement.nextEnding(now: .now, hasGivenUp: store.hasGivenUp, using: &generator) {
            case .wait(let pause): await endingSignal.wait(atMost: pause)
            case .end: return flushSignal.raise()
            case .write(let batch):
                answerDelay.noteAsked()
                let answer = await write(batch)
                switch answer {
                case .unanswered, .contended: break
                case .written, .refused, .prevented, .givenUp: answerDelay.noteAnswered()
                }
                count(answer, to: batch)
                follow(settlement.note(answer, to: batch, now: .now))
                reportPrevention()
                // Renewals use the same connection, and would wait behind the next end for as long as this one took.
                if case .unanswered = answer { await pauseSignal.wait(atMost: RetryingConnection.restAfterSilence) }
            }
        }
    }

    private func reportPrevention() {
        let prevention = settlement.prevention
        if let prevention, prevention.isConfirmed, !hasReportedPrevention {
            hasReportedPrevention = true
            report(.endsRefused(prevention.problem))
        } else if prevention == nil, hasReportedPrevention {
            hasReportedPrevention = false
            report(.endsAccepted)
            mayHaveWork.raise()
        }
    }

    private func write(_ batch: Endings.Batch) async -> Endings.Answer {
        var tries = 0
        var refusal: PostgresError?
        // The line tells the statements apart: PostgreSQL may refuse one and accept another.
        func persist(
            line: UInt = #line, _ body: (PostgresConnection) async throws -> WrittenLeases
        ) async -> WrittenLeases? {
            // Two more errors count as refusals. While another transaction prevents this write, all later writes would
            // wait for that, too. A statement that was not answered in time may have too many jobs.
            await store.persist(
                {
                    tries += 1
                    if tries > 1 { figures.counts.endRetries += 1 }
                    return try await body($0)
                }, isRefusal: { $0.isContended || $0.isUnanswered && batch.jobs.count > 1 }, refused: { refusal = $0 },
                line: line)
        }
        let written =
            switch batch.statement {
            case .endJobs(let jobs):
                await persist { connection in
                    try await timed(.end) { try await connection.endJobs(jobs, workerID: workerID) }
                }
            case .yield(let jobs):
                await persist { connection in
                    try await timed(.yield) { try await connection.yield(jobs, workerID: workerID) }
                }
            case .setAside(let lease, let problem):
                await persist { connection in
                    let answer = try await connection.setAside(
                        lease, because: problem, settings.setAside, workerID: workerID)
                    if answer == .setAside { reportSetAside(of: batch.jobs[0], because: problem) }
                    let key = lease.progress.key
                    return WrittenLeases(keys: answer == .locked ? [] : [key], locked: answer == .locked ? [key] : [])
                }
            }
        if let written { return .written(written, isRepeated: tries > 1) }
        if store.hasGivenUp { return .givenUp }
        if refusal?.isContended == true { return .contended }
        if refusal?.isUnanswered == true { return .unanswered }
        guard let refusal, refusal.mayBlameRows else { return .prevented(refusal?.description ?? "no answer") }
        return .refused(refusal.description)
    }

    /// Counts the jobs and outcomes that PostgreSQL has stored now.
    private func count(_ answer: Endings.Answer, to batch: Endings.Batch) {
        guard case .written(let written, _) = answer else { return }
        noteStored()
        switch batch.statement {
        case .endJobs:
            for job in batch.jobs where written.keys.contains(job.claim.key) {
                figures.counts.jobsEnded += 1
                jobs.queue(of: job).figures.counts.noteEnd(in: job.claim.lane, outcomes: job.outcomes)
            }
        case .yield, .setAside: figures.counts.jobsGivenBack += written.keys.count
        }
    }

    /// Records how long a statement took, if it was answered.
    private func timed<Result>(
        _ statement: TimedStatement, _ body: () async throws -> Result
    ) async rethrows -> Result {
        let begun = ContinuousClock.now
        let result = try await body()
        figures.counts.note(statement, took: begun.duration(to: .now))
        return result
    }

    private func reportSetAside(of job: HeldJob, because problem: String) {
        let key = job.claim.key
        report(.jobSetAside(queue: "\(jobs.queue(of: job).settings.name)", job: key.jobID, reason: problem))
    }

    // MARK: Renewals

    /// Writes progress and renews leases, until every job that was held at ``stop()`` is ended. Whatever prevents an
    /// end from being written, no other worker must get the job meanwhile.
    func runFlushing() async {
        while !settlement.isOver {
            await flushSignal.wait(atMost: settings.flushInterval)
            // A job may be gone before the statement about it that failed is repeated.
            if jobs.count == 0 { noteStored() }
            settlement.beginRound(now: .now)
            wakeEndings()
            while !settlement.isOver, let step = settlement.nextRenewal(now: .now, using: &generator) {
                await carryOut(step)
            }
        }
    }

    private func carryOut(_ step: Renewals.Step) async {
        switch step {
        case .askForHalts(let ids):
            // The writes of this round follow. If it fails, they show whether they fail, too.
            let isFirst = noteAsked()
            defer { if isFirst { noteStored() } }
            for id in await store.attempt({ try await $0.haltedQueues(ids) }) ?? [] { delegate?.queueIsHalted(id) }
        case .flush(let batch):
            let answer = await ask(.flush) {
                try await $0.flush(batch.progress, workerID: workerID, lease: settings.lease, number: batch.number)
            }
            follow(settlement.note(answer, to: batch, now: .now))
        case .handOver(let batch):
            let answer = await ask(.handover) {
                try await $0.handOver(
                    batch.handOvers, workerID: workerID, lease: settings.lease, number: batch.number)
            }
            follow(settlement.note(answer, to: batch, now: .now))
        case .renew(let batch):
            let answer = await ask(.renew) { try await $0.renew(batch.keys, workerID: workerID, lease: settings.lease) }
            follow(settlement.note(answer, to: batch, now: .now))
        }
    }

    private func ask(
        _ statement: TimedStatement, line: UInt = #line, _ body: (PostgresConnection) async throws -> KeptLeases
    ) async -> Renewals.Answer {
        let call = RetryingConnection.Call(file: #fileID, line: line)
        noteAsked()
        do {
            let connection = try await store.connection()
            let kept = try await timed(statement) { try await body(connection) }
            noteStored()
            store.noteAccepted(call)
            return .kept(kept)
        } catch {
            store.note(error, call)
            figures.counts.flushRetries += 1
            switch error as? PostgresError {
            case .cannotConnect, .refused, .timedOut, .connectionLost: return .unanswered
            case let error? where error.isTransient: return .failed
            default:
                // The batch may contain a lease that cannot be written. The others follow.
                noteStored()
                return .refused
            }
        }
    }

    /// Returns whether PostgreSQL has stored everything before.
    @discardableResult
    private func noteAsked() -> Bool {
        guard unstoredSince == nil else { return false }
        unstoredSince = .now
        return true
    }

    private func noteStored() {
        guard unstoredSince != nil else { return }
        unstoredSince = nil
        delegate?.canRecordAgain()
    }
}
