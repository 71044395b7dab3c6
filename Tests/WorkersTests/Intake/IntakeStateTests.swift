import QueueCore
import Testing

@testable import PostgresStore
@testable import Workers

/// Dialogues between the decisions of intake and the part that carries them out.
@Suite struct `Intake` {
    private let start = ContinuousClock.now
    private let place = LanePlace(1, .normal)

    private func make() -> IntakeState { IntakeState(busyPoll: .milliseconds(10), idlePoll: .milliseconds(500)) }

    private func work(dueIn: Duration = .zero) -> ReadyWork {
        ReadyWork(
            jobs: [.init(dueIn: dueIn, head: LaneHead(place, runAt: 1, jobID: 1))], fanOuts: [], end: nil)
    }

    /// Runs a poll that is answered at once.
    private func poll(
        _ state: inout IntakeState, finding work: ReadyWork? = nil, mayClaim: Bool = true, leases: Int = 0,
        needsFanOut: Bool = false
    ) {
        let step = state.next(at: start)
        #expect(step == .poll(.lanes(after: .start, atMost: 500, campaigns: true)))
        let work = work ?? ReadyWork(jobs: [], fanOuts: [], end: nil)
        let lanes = work.jobs.map {
            ClaimPlan.Candidate(
                tenantID: 1, place: $0.head.place, head: $0.head, dueIn: $0.dueIn, mayClaim: mayClaim)
        }
        state.noteFound(
            work, lanes: lanes, worker: .init(maximumHeld: 400_000, leases: leases, maximumLeases: 20_000),
            needsFanOut: needsFanOut, now: start)
    }

    /// The state after falling asleep: the sleeper's row is written, and intake has polled since.
    private func asleep() -> IntakeState {
        var state = make()
        for pause in [4, 8] {
            poll(&state)
            let step = state.next(at: start)
            #expect(step == .wait(.milliseconds(pause)))
        }
        poll(&state)
        let step = state.next(at: start)
        #expect(step == .fallAsleep)
        state.noteRow(isWritten: true, took: .zero, now: start)
        poll(&state)
        let rest = state.next(at: start)
        #expect(rest == .wait(.milliseconds(5)))
        return state
    }

    @Test func `claims what a poll found, rests a moment, and polls again`() {
        var state = make()
        poll(&state, finding: work())
        let claim = state.next(at: start)
        let head = LaneHead(place, runAt: 1, jobID: 1)
        #expect(claim == .claim([ClaimQuota(queueID: 1, lane: .normal, jobs: 200, head: head)]))
        state.noteClaimed([place], now: start)
        let rest = state.next(at: start)
        #expect(rest == .wait(.milliseconds(10)))
        poll(&state)
    }

    @Test func `claims small jobs first, and large ones by a statement of their own`() {
        var state = make()
        _ = state.next(at: start)
        let lanes = [(Int32(1), 500.0), (2, 1), (3, 500)].map { queueID, jobSize in
            ClaimPlan.Candidate(tenantID: queueID, place: LanePlace(queueID, .normal), head: nil, jobSize: jobSize)
        }
        state.noteFound(
            ReadyWork(jobs: [], fanOuts: [], end: nil), lanes: lanes,
            worker: .init(maximumHeld: 400_000, maximumLeases: 20_000), needsFanOut: false, now: start)
        for queues in [[Int32(2)], [1, 3]] {
            guard case .claim(let quotas) = state.next(at: start) else {
                Issue.record("there is no claim of \(queues)")
                return
            }
            #expect(quotas.map(\.queueID) == queues)
            state.noteClaimed(quotas.map { LanePlace($0.queueID, $0.lane) }, now: start)
        }
        let rest = state.next(at: start)
        #expect(rest == .wait(.milliseconds(10)))
    }

    @Test func `stays awake while a poll has not looked at campaigns`() {
        var state = make()
        for _ in 0..<5 {
            _ = state.next(at: start)
            state.noteFound(
                ReadyWork(jobs: [], fanOuts: [], coversCampaigns: false, end: nil), lanes: [],
                worker: .init(maximumHeld: 400_000, maximumLeases: 20_000), needsFanOut: false,
                now: start)
            let rest = state.next(at: start)
            #expect(rest == .wait(.milliseconds(10)))
        }
    }

    @Test func `polls on after a few milliseconds where a claim brought nothing: others were faster`() {
        var state = make()
        poll(&state, finding: work())
        _ = state.next(at: start)
        state.noteClaimed([], now: start)
        let rest = state.next(at: start)
        #expect(rest == .wait(.milliseconds(4)))
    }

    @Test func `polls on as a busy worker where there will be room for large jobs soon`() {
        var state = make()
        for _ in 1...4 {
            _ = state.next(at: start)
            var lane = ClaimPlan.Candidate(tenantID: 1, place: place, head: nil, unsent: 8000, jobSize: 500)
            lane.demand.sendRate = 20_000
            state.noteFound(
                work(), lanes: [lane], worker: .init(maximumHeld: 400_000, leases: 16, maximumLeases: 20_000),
                needsFanOut: false, now: start)
            let rest = state.next(at: start)
            #expect(rest == .wait(.milliseconds(10)))
        }
    }

    @Test func `sleeps with its row written, and has polled once more since`() { _ = asleep() }

    @Test func `has its row taken away when it is notified, polls, and keeps awake`() {
        var state = asleep()
        state.noteNotified()
        let step = state.next(at: start)
        #expect(step == .takeRowAway)
        poll(&state)
        let rest = state.next(at: start)
        #expect(rest == .wait(.milliseconds(4)))
    }

    /// Polls in vain until the row is written, and once more.
    private func fallAsleep(_ state: inout IntakeState) {
        for _ in 0..<3 {
            poll(&state)
            _ = state.next(at: start)
        }
        state.noteRow(isWritten: true, took: .zero, now: start)
        poll(&state)
        _ = state.next(at: start)
    }

    /// The state after falling asleep, with a job claimed before.
    private func asleepAfterWork() -> IntakeState {
        var state = make()
        poll(&state, finding: work())
        _ = state.next(at: start)
        state.noteClaimed([place], now: start)
        _ = state.next(at: start)
        fallAsleep(&state)
        return state
    }

    private func presume(_ state: inout IntakeState, mayClaim: Bool = true) {
        state.noteNotified()
        let woken = state.next(at: start)
        #expect(woken == .takeRowAway)
        let step = state.next(at: start)
        #expect(step == .presume([place]))
        state.notePresumed(
            [.init(tenantID: 1, place: place, head: nil, mayClaim: mayClaim)],
            worker: .init(maximumHeld: 400_000, maximumLeases: 20_000))
    }

    @Test
    func `claims at once from where it claimed before when it is notified, and then polls and rests as after work`() {
        var state = asleepAfterWork()
        for _ in 0..<2 {
            presume(&state)
            let claim = state.next(at: start)
            #expect(claim == .claim([ClaimQuota(queueID: 1, lane: .normal, jobs: 200)]))
            state.noteClaimed([place], now: start)
            let moment = state.next(at: start)
            #expect(moment == .wait(.milliseconds(1)))
            poll(&state)
            let rest = state.next(at: start)
            #expect(rest == .wait(.milliseconds(10)))
            fallAsleep(&state)
        }
    }

    @Test(arguments: [true, false])
    func `polls at once when it was notified of something else, and next time, too`(mayClaim: Bool) {
        var state = asleepAfterWork()
        presume(&state, mayClaim: mayClaim)
        if mayClaim {
            guard case .claim = state.next(at: start) else {
                Issue.record("nothing is claimed")
                return
            }
            state.noteClaimed([], now: start)
        }
        fallAsleep(&state)
        state.noteNotified()
        let woken = state.next(at: start)
        #expect(woken == .takeRowAway)
        poll(&state)
    }

    /// A producer may have told of a campaign, or of jobs that were created long before their commit.
    @Test(arguments: [(false, false), (true, true), (true, false)])
    func `polls whole lanes for a tenth of the time if it has not found at floors what it was told of`(
        isNotified: Bool, findsJob: Bool
    ) {
        var state = make()
        /// Polls, and claims what is found. Returns the poll.
        func poll(finding work: ReadyWork, at begun: ContinuousClock.Instant, took time: Duration) -> PollPlan.Poll? {
            guard case .poll(let poll) = state.next(at: begun) else { return nil }
            // Without a connection, the queue is not polled by itself.
            let lanes = work.jobs.map {
                ClaimPlan.Candidate(tenantID: 1, place: $0.head.place, head: $0.head, isConnected: false)
            }
            state.noteFound(
                work, lanes: lanes, worker: .init(maximumHeld: 400_000, maximumLeases: 20_000), needsFanOut: false,
                now: begun + time)
            if !lanes.isEmpty {
                _ = state.next(at: begun + time)
                state.noteClaimed([place], now: begun + time)
            }
            // The rest after the poll.
            _ = state.next(at: begun + time)
            return poll
        }
        let nothing = ReadyWork(jobs: [], fanOuts: [], end: nil)
        let whole = poll(finding: work(), at: start, took: .milliseconds(50))
        #expect(whole == .lanes(after: .start, atMost: 500, campaigns: true))
        if isNotified { state.noteNotified() }
        let next = poll(
            finding: findsJob ? work() : nothing, at: start + .milliseconds(100), took: .milliseconds(1))
        guard case .floors = next else {
            Issue.record("\(String(describing: next))")
            return
        }
        let later = poll(finding: nothing, at: start + .milliseconds(500), took: .milliseconds(1))
        if case .lanes = later {
            #expect(isNotified && !findsJob)
        } else {
            #expect(!isNotified || findsJob)
        }
    }

    @Test func `has its row taken away when it finds work without having been notified`() {
        var state = asleep()
        poll(&state, finding: work())
        _ = state.next(at: start)
        state.noteClaimed([place], now: start)
        let step = state.next(at: start)
        #expect(step == .takeRowAway)
        let rest = state.next(at: start)
        #expect(rest == .wait(.milliseconds(10)))
    }

    @Test func `stays awake for a campaign that has to make jobs, with nothing to claim`() {
        var state = make()
        for _ in 0..<5 {
            poll(&state, needsFanOut: true)
            let rest = state.next(at: start)
            #expect(rest == .wait(.milliseconds(10)))
        }
    }

    /// A full disk, or a missing right: each try would fill PostgreSQL's log.
    @Test func `writes its row again only after some seconds if that was refused, and polls meanwhile`() {
        var state = make()
        var (now, tries, polls) = (start, 0, 0)
        while now < start + .seconds(60) {
            switch state.next(at: now) {
            case .poll:
                polls += 1
                state.noteFound(
                    ReadyWork(jobs: [], fanOuts: [], end: nil), lanes: [],
                    worker: .init(maximumHeld: 400_000, maximumLeases: 20_000), needsFanOut: false, now: now)
            case .fallAsleep:
                tries += 1
                state.noteRow(isWritten: false, took: .zero, now: now)
            case .wait(let pause):
                #expect(pause <= .milliseconds(500))
                now += pause
            case let step: Issue.record("\(step)")
            }
        }
        #expect((10...13).contains(tries) && (110...150).contains(polls), "\(tries) tries, \(polls) polls")
    }

    /// Sleeps for a minute. Returns how often a poll followed at once after the row was to be written again.
    /// - Parameter took: how long it takes to write the row.
    private func pollsAfterRow(took: Duration, isRefused: Bool = false) -> Int {
        var state = asleep()
        var (now, hasJustWritten, polls) = (start, false, 0)
        while now < start + .seconds(60) {
            switch state.next(at: now) {
            case .poll:
                if hasJustWritten { polls += 1 }
                hasJustWritten = false
                state.noteFound(
                    ReadyWork(jobs: [], fanOuts: [], end: nil), lanes: [],
                    worker: .init(maximumHeld: 400_000, maximumLeases: 20_000), needsFanOut: false, now: now)
            case .fallAsleep:
                now += took
                hasJustWritten = true
                state.noteRow(isWritten: !isRefused, took: took, now: now)
            case .wait(let pause):
                hasJustWritten = false
                now += pause
            case let step: Issue.record("\(step)")
            }
        }
        return polls
    }

    @Test func `polls once more after its row was written again only if producers may have missed the row`() {
        #expect(pollsAfterRow(took: .milliseconds(1)) == 0)
        #expect(pollsAfterRow(took: .seconds(8)) > 2, "the former row counts for twelve seconds")
        #expect(pollsAfterRow(took: .milliseconds(1), isRefused: true) > 5)
    }

    /// Sleeps until its row was written twice, and finds work with the next poll. Returns how long it then rests.
    /// - Parameter roundTrip: the time to PostgreSQL and back, without which a poll takes a millisecond.
    private func restAfterWork(roundTrip: Duration, isInterrupted: Bool = false) -> IntakeState.Step? {
        var state = make()
        var (now, rows) = (start, 0)
        while true {
            switch state.next(at: now) {
            case .poll:
                now += roundTrip + .milliseconds(1)
                let isWork = rows == 2
                let found = isWork ? work() : ReadyWork(jobs: [], fanOuts: [], end: nil)
                // Without a connection, the queue is not polled by itself.
                let lanes = found.jobs.map {
                    ClaimPlan.Candidate(tenantID: 1, place: $0.head.place, head: $0.head, isConnected: false)
                }
                state.noteFound(
                    found, lanes: lanes, worker: .init(maximumHeld: 400_000, maximumLeases: 20_000),
                    needsFanOut: false, now: now)
                guard isWork else { continue }
                _ = state.next(at: now)
                state.noteClaimed([place], now: now)
                let step = state.next(at: now)
                return step == .takeRowAway ? state.next(at: now) : step
            case .fallAsleep:
                now += roundTrip
                rows += 1
                state.noteRow(isWritten: true, took: roundTrip, now: now)
                if rows == 2, isInterrupted { state.noteRowInDoubt() }
            case .wait(let pause): now += pause
            case let step:
                Issue.record("\(step)")
                return nil
            }
        }
    }

    @Test func `polls as often where PostgreSQL is far away`() {
        #expect(restAfterWork(roundTrip: .microseconds(200)) == .wait(.milliseconds(10)))
        #expect(restAfterWork(roundTrip: .milliseconds(20)) == .wait(.milliseconds(10)))
        let unknown = restAfterWork(roundTrip: .milliseconds(20), isInterrupted: true)
        #expect(unknown == .wait(.milliseconds(210)), "the way to another server may be shorter")
    }

    @Test func `falls asleep again when its row is in doubt`() {
        var doubtful = asleep()
        doubtful.noteRowInDoubt()
        poll(&doubtful)
        let rest = doubtful.next(at: start)
        #expect(rest == .wait(.milliseconds(4)))
    }

    @Test func `is back in time for what is due later`() {
        var state = make()
        for _ in 0..<3 {
            poll(&state, finding: work(dueIn: .milliseconds(2)))
            _ = state.next(at: start)
        }
        state.noteRow(isWritten: true, took: .zero, now: start)
        poll(&state, finding: work(dueIn: .milliseconds(2)))
        let rest = state.next(at: start)
        #expect(rest == .wait(.milliseconds(2)))
    }

    @Test func `tries again after a while when a poll or a claim has failed`() {
        var state = make()
        _ = state.next(at: start)
        state.noteFailed()
        let first = state.next(at: start)
        #expect(first == .rest(.milliseconds(500)))
        poll(&state, finding: work())
        _ = state.next(at: start)
        state.noteFailed()
        let second = state.next(at: start)
        #expect(second == .rest(.milliseconds(500)))
        poll(&state)
    }

    @Test func `ends without a claim when it is to stop, whatever a poll has found`() {
        var state = make()
        _ = state.next(at: start)
        state.stop()
        state.noteFound(
            work(), lanes: [.init(tenantID: 1, place: place, head: nil)],
            worker: .init(maximumHeld: 400_000, maximumLeases: 20_000),
            needsFanOut: false, now: start)
        let step = state.next(at: start)
        #expect(step == .end(hasRow: false))
        #expect(state.hasEnded)
    }

    @Test func `ends only when the claim under way has`() {
        var state = make()
        poll(&state, finding: work())
        _ = state.next(at: start)
        state.stop()
        #expect(!state.hasEnded)
        state.noteClaimed([place], now: start)
        let step = state.next(at: start)
        #expect(step == .end(hasRow: false))
    }

    @Test func `wakes in time for what it can claim then, and not for a queue that may not send`() {
        for (mayClaim, pause) in [(true, 7), (false, 10)] {
            var state = asleep()
            poll(&state, finding: work(dueIn: .milliseconds(7)), mayClaim: mayClaim)
            let step = state.next(at: start)
            #expect(step == .wait(.milliseconds(pause)))
        }
    }

    @Test func `has its row taken away at the end`() {
        var state = asleep()
        state.stop()
        let step = state.next(at: start)
        #expect(step == .end(hasRow: true))
    }

    @Test func `has its row taken away at the end, or when it is notified, also when the row was in doubt`() {
        var ending = asleep()
        ending.noteRowInDoubt()
        poll(&ending)
        ending.stop()
        let end = ending.next(at: start)
        #expect(end == .end(hasRow: true))

        var notified = asleep()
        notified.noteRowInDoubt()
        poll(&notified)
        _ = notified.next(at: start)
        notified.noteNotified()
        let step = notified.next(at: start)
        #expect(step == .takeRowAway)
    }

    @Test func `never has two claims under way`() async {
        await #expect(processExitsWith: .failure) {
            let now = ContinuousClock.now
            var state = IntakeState(busyPoll: .milliseconds(10), idlePoll: .milliseconds(500))
            _ = state.next(at: now)
            state.noteFound(
                ReadyWork(jobs: [], fanOuts: [], end: nil),
                lanes: [.init(tenantID: 1, place: LanePlace(1, .bulk), head: nil)],
                worker: .init(maximumHeld: 400_000, maximumLeases: 20_000), needsFanOut: false, now: now)
            guard case .claim = state.next(at: now) else { return }
            _ = state.next(at: now)
        }
    }
}
