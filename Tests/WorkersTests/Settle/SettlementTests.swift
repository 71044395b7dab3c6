import APNs
import PostgresStore
import QueueCore
import TestSupport
import Testing

@testable import Workers

/// A settlement with its jobs, and a clock that the test moves.
private final class Dialogue {
    let jobs = HeldJobs()
    let queue = JobFixture.queue()
    var settlement: Settlement
    var now = ContinuousClock.now
    private var generator = SeededGenerator(seed: 1)
    private var nextID: Int64 = 1

    init(_ adjust: (inout EngineSettings) -> Void = { _ in }) {
        var settings = EngineSettings()
        adjust(&settings)
        settlement = Settlement(settings, jobs: jobs, now: now)
        pass(.milliseconds(100))
    }

    func pass(_ time: Duration) { now += time }

    /// Holds a job of which nothing was sent.
    func hold(
        recipients: Int = 1, rootID: Int64 = 5, isAtMostOnce: Bool = false, sendWithin: Duration = .seconds(60)
    ) -> HeldJob {
        defer { nextID += 1 }
        return jobs.insert(of: queue) { [nextID, now] slot in
            JobFixture.job(
                recipients: recipients, isAtMostOnce: isAtMostOnce, id: nextID, rootID: rootID, slot: slot,
                sendWithin: sendWithin, now: now)
        }
    }

    /// Holds jobs whose only recipient's push was delivered.
    func holdDelivered(_ count: Int) -> [HeldJob] {
        (0..<count).map { _ in
            let job = hold()
            for ordinal in job.sendAll() { job.accept(ordinal) }
            settlement.take(job)
            return job
        }
    }

    /// The batch of ends to be written now.
    func ending() -> Endings.Batch? {
        guard case .write(let batch) = step() else { return nil }
        return batch
    }

    /// The batch that is written next if time passes, within some seconds.
    func endingSoon() -> Endings.Batch? {
        for _ in 0..<100 {
            if let batch = ending() { return batch }
            pass(.milliseconds(100))
        }
        return nil
    }

    func step(hasGivenUp: Bool = false) -> Endings.Step {
        settlement.nextEnding(now: now, hasGivenUp: hasGivenUp, using: &generator)
    }

    func answer(_ answer: Endings.Answer, to batch: Endings.Batch) -> Settlement.Consequences {
        settlement.note(answer, to: batch, now: now)
    }

    func nextRenewal() -> Renewals.Step? { settlement.nextRenewal(now: now, using: &generator) }

    /// Runs a round of flushes and renewals. `answer` returns the answer to each.
    @discardableResult
    func round(
        _ answer: (Renewals.Batch) -> Renewals.Answer = { .kept(KeptLeases(keys: Set($0.keys))) }
    ) -> [(batch: Renewals.Batch, consequences: Settlement.Consequences)] {
        settlement.beginRound(now: now)
        var all: [(Renewals.Batch, Settlement.Consequences)] = []
        while let step = nextRenewal() {
            switch step {
            case .askForHalts: break
            case .flush(let batch), .handOver(let batch), .renew(let batch):
                all.append((batch, settlement.note(answer(batch), to: batch, now: now)))
            }
        }
        return all
    }
}

extension Endings.Batch {
    fileprivate var ids: [Int64] { jobs.map(\.claim.key.jobID) }
    fileprivate var isEnd: Bool { if case .endJobs = statement { true } else { false } }
}

extension Renewals.Batch {
    fileprivate var ids: [Int64] { keys.map(\.jobID) }
}

private func written(_ jobs: [HeldJob], isRepeated: Bool = false) -> Endings.Answer {
    .written(WrittenLeases(keys: Set(jobs.map(\.claim.key))), isRepeated: isRepeated)
}

@Suite struct `Ending jobs` {
    @Test func `waits for the interval, or until there are enough for a batch`() throws {
        let dialogue = Dialogue()
        _ = dialogue.holdDelivered(1)
        let early = try #require(dialogue.ending(), "nothing was written for a while")
        _ = dialogue.answer(written(early.jobs), to: early)
        _ = dialogue.holdDelivered(Endings.enoughSmallJobs - 1)
        dialogue.pass(.milliseconds(99))
        #expect(dialogue.ending() == nil)
        _ = dialogue.holdDelivered(1)
        let batch = try #require(dialogue.ending())
        #expect(batch.jobs.count == Endings.enoughSmallJobs && batch.isEnd)
        _ = dialogue.answer(written(batch.jobs), to: batch)
        #expect(dialogue.jobs.count == 0)

        let single = dialogue.holdDelivered(1)
        dialogue.pass(.milliseconds(100))
        #expect(dialogue.ending()?.jobs.first === single.first)
    }

    @Test func `writes no more than a bounded number at once, and the rest after the answer`() throws {
        let dialogue = Dialogue()
        _ = dialogue.holdDelivered(Endings.maximumJobs + 5)
        let first = try #require(dialogue.ending())
        #expect(first.jobs.count == Endings.maximumJobs)
        #expect(dialogue.ending() == nil, "renewals would wait for two statements")
        _ = dialogue.answer(written(first.jobs), to: first)
        dialogue.pass(.milliseconds(100))
        #expect(dialogue.ending()?.jobs.count == 5)
    }

    /// If this worker is lost, the next holder of the jobs sends to nobody again.
    @Test func `has what is known written to the leases meanwhile, where other transactions prevent it`() throws {
        let dialogue = Dialogue()
        _ = dialogue.holdDelivered(2)
        let batch = try #require(dialogue.endingSoon())
        let (first, second) = (batch.jobs[0].claim.key, batch.jobs[1].claim.key)
        _ = dialogue.answer(
            .written(WrittenLeases(keys: [], locked: [first, second]), isRepeated: false), to: batch)
        let flushed = dialogue.round().first { $0.batch.kind == .flush }
        #expect(flushed?.batch.keys == [first, second])
        #expect(
            flushed?.batch.progress.map(\.outcomes) == [[Outcome.delivered.rawValue], [Outcome.delivered.rawValue]])
    }

    @Test func `has what is known written to the leases meanwhile, where it takes long`() throws {
        let dialogue = Dialogue()
        _ = dialogue.holdDelivered(Endings.maximumJobs + 5)
        let batch = try #require(dialogue.ending())
        #expect(batch.jobs.count == Endings.maximumJobs)
        let isFlushed = (0..<30).map { _ in
            dialogue.pass(.milliseconds(100))
            return dialogue.round().contains { $0.batch.kind == .flush }
        }
        #expect(!isFlushed[..<15].contains(true), "usually, the end alone writes it")
        #expect(isFlushed.count { $0 } >= 1)
    }

    @Test func `keeps one job that PostgreSQL refuses and does not set aside, and writes all others`() {
        let dialogue = Dialogue()
        let poison = dialogue.holdDelivered(100)[37].claim.key
        var statements = 0
        while let batch = dialogue.ending() {
            statements += 1
            _ = dialogue.answer(batch.ids.contains(poison.jobID) ? .refused("no") : written(batch.jobs), to: batch)
        }
        #expect(statements <= 16)
        #expect(dialogue.jobs.all.map(\.claim.key) == [poison])
        #expect(dialogue.settlement.prevention == nil)
        dialogue.pass(.seconds(2))
        #expect(dialogue.endingSoon()?.ids == [poison.jobID], "it is tried again")
    }

    @Test func `keeps one job whose return is refused, and gives back all others`() {
        let dialogue = Dialogue()
        let jobs = (0..<8).map { _ in dialogue.hold() }
        for job in jobs { dialogue.settlement.close(job, .yielded(after: .zero)) }
        let poison = jobs[5].claim.key
        while let batch = dialogue.ending() {
            #expect(!batch.isEnd)
            _ = dialogue.answer(batch.ids.contains(poison.jobID) ? .refused("no") : written(batch.jobs), to: batch)
        }
        #expect(dialogue.jobs.all.map(\.claim.key) == [poison])
    }

    @Test func `tries one job at a time while all are refused and none is to blame, and all once one is taken`() throws
    {
        let dialogue = Dialogue()
        let jobs = dialogue.holdDelivered(100)
        var statements = 0
        while let batch = dialogue.ending() {
            statements += 1
            _ = dialogue.answer(.prevented("no right"), to: batch)
        }
        #expect(statements == 7, "halves, down to one job")
        #expect(dialogue.settlement.prevention?.problem == "no right")
        #expect(dialogue.settlement.prevention?.isConfirmed == false, "it may still be because of that one job")
        #expect(dialogue.settlement.maximumLeases == 0)
        var tried: [Int64] = []
        for _ in 0..<20 {
            let batch = try #require(dialogue.endingSoon())
            tried += batch.ids
            _ = dialogue.answer(.prevented("no right"), to: batch)
        }
        #expect(Set(tried).count == 20, "each time it is another one")
        #expect(dialogue.settlement.prevention?.isConfirmed == true)
        #expect(dialogue.jobs.count == jobs.count)

        let others = dialogue.holdDelivered(30)
        let taken = try #require(dialogue.endingSoon())
        #expect(taken.jobs.count == 1, "what is through meanwhile waits")
        _ = dialogue.answer(written(taken.jobs), to: taken)
        #expect(dialogue.settlement.prevention == nil && dialogue.settlement.maximumLeases > 0)
        let rest = try #require(dialogue.endingSoon())
        _ = dialogue.answer(written(rest.jobs), to: rest)
        #expect(rest.jobs.count == Endings.maximumJobs && dialogue.jobs.count == jobs.count + others.count - 129)
    }

    @Test func `has one job set aside that is refused although others are taken, whatever the reason`() throws {
        let dialogue = Dialogue()
        let damaged = try #require(dialogue.holdDelivered(100).first).claim.key.jobID
        var asides: [Int64] = []
        while let batch = dialogue.endingSoon() {
            if case .setAside(let lease, "damaged") = batch.statement {
                asides.append(lease.progress.key.jobID)
                _ = dialogue.answer(written(batch.jobs), to: batch)
            } else {
                _ = dialogue.answer(
                    batch.ids.contains(damaged) ? .prevented("damaged") : written(batch.jobs), to: batch)
            }
        }
        #expect(asides == [damaged])
        #expect(dialogue.jobs.count == 0 && dialogue.settlement.prevention == nil)
    }

    @Test func `gives jobs back while only ends are refused`() throws {
        let dialogue = Dialogue()
        _ = dialogue.holdDelivered(1)
        _ = dialogue.answer(.prevented("no right"), to: try #require(dialogue.ending()))
        let job = dialogue.hold()
        dialogue.settlement.close(job, .yielded(after: .zero))
        var returned: [Int64] = []
        while returned.isEmpty, let batch = dialogue.endingSoon() {
            if !batch.isEnd { returned = batch.ids }
            _ = dialogue.answer(batch.isEnd ? .prevented("no right") : written(batch.jobs), to: batch)
        }
        #expect(returned == [job.claim.key.jobID])
        #expect(dialogue.settlement.prevention != nil, "that says nothing of ends")
    }

    @Test func `tries a job whose lease is locked again after a pause, and keeps it until then`() throws {
        let dialogue = Dialogue()
        let job = try #require(dialogue.holdDelivered(1).first)
        let batch = try #require(dialogue.ending())
        let locked = WrittenLeases(keys: [], locked: [job.claim.key])
        let consequences = dialogue.answer(.written(locked, isRepeated: false), to: batch)
        #expect(consequences.lost == 0 && dialogue.jobs.count == 1)
        dialogue.pass(Endings.lockedPause - .milliseconds(1))
        #expect(dialogue.ending() == nil)
        dialogue.pass(.milliseconds(101))
        #expect(dialogue.ending()?.ids == batch.ids)
    }

    @Test func `writes all others at once if another transaction is in the way of one job, which comes after a pause`()
    {
        let dialogue = Dialogue()
        let jobs = dialogue.holdDelivered(100)
        let contended = jobs[37].claim.key.jobID
        var statements = 0
        while let batch = dialogue.ending() {
            statements += 1
            _ = dialogue.answer(batch.ids.contains(contended) ? .contended : written(batch.jobs), to: batch)
        }
        #expect(statements <= 15)
        #expect(dialogue.jobs.all.map(\.claim.key.jobID) == [contended], "it is held, and nobody else is")

        let others = dialogue.holdDelivered(Endings.enoughJobs)
        dialogue.pass(Endings.lockedPause)
        let batch = dialogue.ending()
        #expect(batch?.jobs.count == others.count, "it is tried apart from them")
        if let batch { _ = dialogue.answer(written(batch.jobs), to: batch) }
        #expect(dialogue.ending()?.ids == [contended])
    }

    @Test func `writes fewer jobs at a time after a statement had no answer, which may have been carried out`() {
        let dialogue = Dialogue()
        _ = dialogue.holdDelivered(100)
        var sizes: [Int] = []
        while let batch = dialogue.ending() {
            sizes.append(batch.jobs.count)
            let isTooMuch = batch.jobs.count > 25
            // By now, no lease exists any more.
            let answer = isTooMuch ? .unanswered : Endings.Answer.written(WrittenLeases(keys: []), isRepeated: false)
            #expect(dialogue.answer(answer, to: batch).lost == 0)
        }
        #expect(sizes == [100, 50, 25, 25, 50, 25, 25])
        #expect(dialogue.jobs.all.isEmpty)
    }

    @Test func `says once of a job that another transaction keeps it from being written, and only if that lasts`() {
        let dialogue = Dialogue()
        _ = dialogue.holdDelivered(1)
        var said: [Duration] = []
        for step in 0..<60 {
            dialogue.pass(Endings.lockedPause)
            guard let batch = dialogue.ending() else { continue }
            if !dialogue.answer(.contended, to: batch).hindered.isEmpty { said.append(Endings.lockedPause * step) }
        }
        #expect(said == [Endings.longestLocked])
    }

    @Test(arguments: [false, true], [false, true])
    func `tells that leases were lost, but not of a statement that may have been carried out before`(
        isRepeated: Bool, areGivenBack: Bool
    ) throws {
        let dialogue = Dialogue()
        if areGivenBack {
            for _ in 0..<3 { dialogue.settlement.close(dialogue.hold(), .yielded(after: .zero)) }
        } else {
            _ = dialogue.holdDelivered(3)
        }
        dialogue.pass(.milliseconds(100))
        let batch = try #require(dialogue.ending())
        #expect(batch.isEnd != areGivenBack)
        let consequences = dialogue.answer(written([], isRepeated: isRepeated), to: batch)
        #expect(consequences.lost == (isRepeated ? 0 : 3))
        #expect(dialogue.jobs.count == 0)
    }

    @Test func `ends a job that was closed with answers that only an end can write, and gives back the others`() throws
    {
        let dialogue = Dialogue()
        let plain = dialogue.hold(recipients: 2)
        let mixed = dialogue.hold(recipients: 2)
        _ = mixed.sendAll()
        mixed.noteEnded()
        _ = AnswerRules.refused(
            0, of: mixed, in: dialogue.queue, .init(status: 503, text: "ServiceUnavailable"),
            .init(sentAt: dialogue.now, now: dialogue.now))
        for job in [plain, mixed] { dialogue.settlement.close(job, .yielded(after: .zero)) }
        #expect(!mixed.isSettling, "its other answer is outstanding")
        mixed.noteEnded()
        AnswerRules.untouched(1, of: mixed)
        dialogue.settlement.take(mixed)
        let first = try #require(dialogue.ending())
        #expect(first.isEnd && first.ids == [mixed.claim.key.jobID])
        _ = dialogue.answer(written(first.jobs), to: first)
        let second = try #require(dialogue.ending())
        #expect(!second.isEnd && second.ids == [plain.claim.key.jobID])
    }

    @Test func `comes to an end when it is stopped and nothing is left, or the drain is over`() throws {
        let dialogue = Dialogue()
        let job = try #require(dialogue.holdDelivered(1).first)
        dialogue.settlement.stop()
        let batch = try #require(dialogue.ending())
        let locked = WrittenLeases(keys: [], locked: [job.claim.key])
        _ = dialogue.answer(.written(locked, isRepeated: false), to: batch)
        #expect(dialogue.ending() == nil && !dialogue.settlement.isOver)
        guard case .end = dialogue.step(hasGivenUp: true) else {
            Issue.record("it waits for ever")
            return
        }
        #expect(dialogue.settlement.isOver)
    }
}

@Suite struct `Tokens that were read long ago` {
    @Test func `go back with their job, once nothing of it is in flight`() throws {
        let dialogue = Dialogue()
        let (held, sent) = (dialogue.hold(recipients: 3), dialogue.hold(recipients: 2))
        _ = held.takeRecipient()
        held.noteSent()
        let ordinals = sent.sendAll()
        dialogue.pass(.milliseconds(9_900))
        dialogue.round()
        #expect(!held.isClosed)
        dialogue.pass(.milliseconds(100))
        dialogue.round()
        #expect(held.closing == .yielded(after: .zero) && held.takeRecipient() == nil)
        #expect(!sent.isClosed, "there is nobody left to send to")
        #expect(dialogue.ending() == nil, "an answer is awaited")
        held.accept(0)
        dialogue.settlement.take(held)
        dialogue.pass(.milliseconds(100))
        let batch = try #require(dialogue.ending())
        #expect(batch.ids == [held.claim.key.jobID] && !batch.isEnd)
        _ = dialogue.answer(written(batch.jobs), to: batch)
        for ordinal in ordinals { sent.accept(ordinal) }
        dialogue.settlement.take(sent)
        dialogue.pass(.milliseconds(100))
        #expect(dialogue.ending()?.isEnd == true)
    }
}

@Suite struct `Renewing leases` {
    @Test func `writes news at once, and renews without news after a third of the lease`() {
        let dialogue = Dialogue()
        let busy = dialogue.hold(recipients: 2)
        let quiet = dialogue.hold()
        _ = busy.sendAll()
        busy.accept(0)
        let first = dialogue.round()
        #expect(first.map(\.batch.ids) == [[1]])
        #expect(first[0].batch.watermarks == [2])
        #expect(!busy.isDirty)
        #expect(dialogue.round().isEmpty)
        dialogue.pass(.seconds(5))
        let second = dialogue.round()
        #expect(second.map(\.batch.ids) == [[1, 2]])
        #expect(second[0].batch.watermarks == nil)
        #expect(quiet.renewedAt == dialogue.now)
    }

    @Test func `writes what is known of a job whose end is refused, for its next holder`() throws {
        let dialogue = Dialogue()
        let job = try #require(dialogue.holdDelivered(1).first)
        _ = dialogue.answer(.prevented("no right"), to: try #require(dialogue.ending()))
        #expect(dialogue.jobs.left == (1, 1))
        let flush = try #require(dialogue.round().first)
        #expect(flush.batch.progress.map(\.outcomes) == [[Outcome.delivered.rawValue]])
        #expect(!job.isDirty && dialogue.jobs.left == (1, 0))
    }

    @Test func `goes on for jobs that are being ended, as long as that cannot be written`() throws {
        let dialogue = Dialogue()
        _ = dialogue.holdDelivered(1)
        dialogue.settlement.stop()
        _ = try #require(dialogue.ending())
        dialogue.pass(.seconds(5))
        #expect(dialogue.round().map(\.batch.ids) == [[1]])
    }

    @Test func `moves a watermark only with the answer, and lets the job go on then`() {
        let dialogue = Dialogue { $0.atMostOnceWindow = 10 }
        let job = dialogue.hold(recipients: 250, isAtMostOnce: true)
        let first = job.sendAll().count
        #expect(job.awaitsWatermark)
        dialogue.round { _ in .unanswered }
        #expect(!job.isSendable && job.isDirty)
        let answered = dialogue.round()
        #expect(answered[0].batch.number == 2)
        #expect(answered[0].consequences.renewed.map { $0 === job } == [true])
        #expect(job.watermark == first + 10)
    }

    @Test func `closes jobs whose lease is lost, that expired, or whose campaign is paused`() {
        let dialogue = Dialogue()
        let lost = dialogue.hold(rootID: 1)
        let paused = [dialogue.hold(rootID: 2), dialogue.hold(rootID: 2)]
        let expired = dialogue.hold(rootID: 3, sendWithin: .seconds(4))
        dialogue.pass(.seconds(5))
        let answers = dialogue.round { batch in
            .kept(
                KeptLeases(
                    keys: Set(batch.keys.filter { $0.jobID != 1 }), paused: Set(batch.keys.filter { $0.jobID == 2 })))
        }
        #expect(answers.map(\.consequences.lost) == [1])
        #expect(answers[0].consequences.renewed.isEmpty)
        #expect(lost.closing == .lost && dialogue.jobs.count == 3)
        #expect(paused.allSatisfy { $0.closing == .yielded(after: Settlement.pausedDelay) })
        #expect(expired.closing == .expired)
    }

    @Test func `closes the one job that was cancelled, and asks for the others of its campaign at once`() {
        let dialogue = Dialogue()
        let jobs = (0..<3).map { _ in dialogue.hold(recipients: 2) }
        dialogue.settlement.doubt(2)
        let first = dialogue.round { batch in
            .kept(KeptLeases(keys: Set(batch.keys), cancelled: Set(batch.keys.filter { $0.jobID == 2 })))
        }
        #expect(first.map(\.batch.ids) == [[2]])
        #expect(jobs.map(\.closing) == [nil, .cancelled, nil])
        #expect(first[0].consequences.wantsRound)
        let second = dialogue.round { batch in
            .kept(KeptLeases(keys: Set(batch.keys), cancelled: Set(batch.keys.filter { $0.jobID == 2 })))
        }
        #expect(second.map(\.batch.ids) == [[1, 2, 3]])
        #expect(jobs.map(\.closing) == [nil, .cancelled, nil])
        #expect(!second[0].consequences.wantsRound)
        #expect(dialogue.round().isEmpty)
    }

    @Test func `has one job whose flush is refused tried alone and rarely, and all others written`() {
        let dialogue = Dialogue()
        let jobs = (0..<100).map { _ in dialogue.hold(recipients: 2) }
        for job in jobs {
            _ = job.sendAll()
            job.accept(0)
        }
        func answer(_ batch: Renewals.Batch) -> Renewals.Answer {
            batch.kind == .flush && batch.ids.contains(38) ? .refused : .kept(KeptLeases(keys: Set(batch.keys)))
        }
        #expect(dialogue.round(answer).count <= 15)
        #expect(jobs.filter(\.isDirty).map(\.claim.key.jobID) == [38])
        #expect(dialogue.round(answer).isEmpty)
        dialogue.pass(.seconds(5))
        #expect(dialogue.round(answer).map(\.batch.ids.count).sorted() == [1, 99])
        #expect(dialogue.round(answer).map(\.batch.ids) == [[38]], "its lease is renewed without its news")
        #expect(jobs[37].renewedAt == dialogue.now)
    }

    @Test func `does not split without bounds what is refused altogether`() {
        let dialogue = Dialogue()
        for job in (0..<400).map({ _ in dialogue.hold(recipients: 2) }) {
            _ = job.sendAll()
            job.accept(0)
        }
        #expect(dialogue.round { _ in .refused }.count <= 2 * Renewals.maximumSplits + 1)
    }

    @Test func `ends a round in which PostgreSQL is out of reach, and one in which it fails goes on`() {
        for (answer, statements) in [(Renewals.Answer.unanswered, 1), (.failed, 3)] {
            let dialogue = Dialogue { $0.maximumLeases = 5000 }
            for job in (0..<1500).map({ _ in dialogue.hold(recipients: 2) }) {
                _ = job.sendAll()
                job.accept(0)
            }
            #expect(dialogue.round { _ in answer }.count == statements)
            #expect(!dialogue.jobs.all.contains { !$0.isDirty })
        }
    }

    @Test func `renews those first whose lease ends first, and no more in a round than it may`() {
        let dialogue = Dialogue()
        for _ in 0..<6000 {
            _ = dialogue.hold()
            dialogue.pass(.microseconds(10))
        }
        dialogue.pass(.seconds(5))
        let batches = dialogue.round().map(\.batch)
        #expect(batches.map(\.jobs.count) == [1000, 1000, 1000, 1000])
        #expect(batches.flatMap(\.ids).max() == 4000)
        #expect(dialogue.round().flatMap(\.batch.ids).sorted() == Array(4001...6000))
    }

    @Test func `finds out about a campaign that may be stopped, whatever becomes of a round`() {
        let many = Dialogue()
        let jobs = (0..<5000).map { _ in many.hold() }
        many.settlement.doubt(jobs[0].claim.rootID)
        #expect(many.round().flatMap(\.batch.ids).count == 4000)
        #expect(many.round().flatMap(\.batch.ids).count == 1000)
        #expect(many.round().isEmpty)
        for answer in [Renewals.Answer.unanswered, .failed] {
            let dialogue = Dialogue()
            for _ in 0..<3 { _ = dialogue.hold(recipients: 2) }
            dialogue.settlement.doubt(2)
            #expect(dialogue.round { _ in answer }.map(\.batch.ids) == [[2]])
            #expect(dialogue.round().map(\.batch.ids) == [[2]])
            #expect(dialogue.round().isEmpty)
        }
    }

    /// Somebody has locked a table that only hand-overs need.
    @Test func `renews leases whose hand-over is not answered, and repeats that`() {
        let dialogue = Dialogue()
        let job = dialogue.hold(recipients: 2)
        _ = job.sendAll()
        job.noteEnded()
        _ = AnswerRules.refused(
            0, of: job, in: dialogue.queue, Refusal(status: 503, text: "ServiceUnavailable"),
            .init(sentAt: dialogue.now, now: dialogue.now))
        dialogue.round()
        dialogue.pass(.seconds(1.1))
        for _ in 0..<3 {
            let first = dialogue.round { $0.kind == .handOver ? .unanswered : .kept(KeptLeases(keys: Set($0.keys))) }
            #expect(first.last?.batch.handOvers.first?.recipients.count == 1)
            #expect(job.isHandOverInDoubt && job.retries.count == 1)
            dialogue.pass(.seconds(5))
            let second = dialogue.round { $0.kind == .handOver ? .unanswered : .kept(KeptLeases(keys: Set($0.keys))) }
            #expect(second.map(\.batch.kind) == [.renew, .handOver], "the lease is renewed first")
        }
        #expect(dialogue.round().last?.batch.handOvers.count == 1)
        #expect(!job.isHandOverInDoubt && job.retries.isEmpty && job.handedOver == [0])
    }

    @Test func `gives back what cannot be renewed in time, of that of which nothing was sent`() {
        let dialogue = Dialogue()
        let sent = (0..<500).map { _ in dialogue.hold() }
        for job in sent { _ = job.sendAll() }
        let untouched = (0..<1500).map { _ in dialogue.hold() }
        dialogue.pass(.seconds(5))
        dialogue.settlement.beginRound(now: dialogue.now)
        while let step = dialogue.nextRenewal() {
            guard case .renew(let batch) = step else { continue }
            let later = dialogue.now + .seconds(1)
            _ = dialogue.settlement.note(
                .kept(KeptLeases(keys: Set(batch.keys))), to: batch, now: later)
        }
        #expect(dialogue.settlement.maximumLeases == 1000)
        dialogue.round()
        #expect(untouched.filter { $0.closing == .yielded(after: .zero) }.count == 1000)
        #expect(sent.allSatisfy { !$0.isClosed })
    }
}
