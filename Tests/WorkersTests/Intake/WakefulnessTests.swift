import Testing

@testable import Workers

@Suite struct `A worker that polls for work` {
    private let start = ContinuousClock.now
    private let nothing = Wakefulness.Found()
    private let work = Wakefulness.Found(hasWork: true, pollTime: .milliseconds(1))

    private func make() -> Wakefulness { Wakefulness(busyPoll: .milliseconds(10), idlePoll: .milliseconds(500)) }

    /// The state of a worker that has fallen asleep at `start`.
    private func asleep() -> Wakefulness {
        var worker = make()
        while worker.next(after: nothing, now: start) != .fallAsleep {}
        return worker
    }

    @Test func `falls asleep after a few polls that found nothing, milliseconds apart`() {
        var worker = make()
        let step1 = worker.next(after: nothing, now: start)
        #expect(step1 == .wait(.milliseconds(4)))
        let step2 = worker.next(after: nothing, now: start)
        #expect(step2 == .wait(.milliseconds(8)))
        let step3 = worker.next(after: nothing, now: start)
        #expect(step3 == .fallAsleep)
        #expect(worker.isAsleep)
    }

    @Test func `polls ever more rarely while it sleeps`() {
        var worker = asleep()
        let waits = (0..<9).map { _ in worker.next(after: nothing, now: start) }
        #expect(waits == [5, 10, 20, 40, 80, 160, 320, 500, 500].map { .wait(.milliseconds($0)) })
    }

    @Test func `is notified once, and then polls by itself until it has found nothing for a while`() {
        var worker = asleep()
        let takesRowAway = [worker.noteNotified(), worker.noteNotified()]
        #expect(takesRowAway == [true, false])
        let step4 = worker.next(after: work, now: start)
        #expect(step4 == .wait(.milliseconds(10)))
        let step5 = worker.next(after: nothing, now: start)
        #expect(step5 == .wait(.milliseconds(4)))
    }

    @Test func `that finds something without having been notified has its row taken away`() {
        var worker = asleep()
        let step6 = worker.next(after: work, now: start)
        #expect(step6 == .wakeUp(then: .milliseconds(10)))
        #expect(!worker.isAsleep)
    }

    @Test func `writes its row anew when PostgreSQL was away, and every few seconds`() {
        var worker = asleep()
        worker.noteRowInDoubt()
        #expect(!worker.isAsleep)
        while worker.next(after: nothing, now: start) != .fallAsleep {}
        let step7 = worker.next(after: nothing, now: start + .seconds(4))
        #expect(step7 == .wait(.milliseconds(5)))
        let step8 = worker.next(after: nothing, now: start + .seconds(5))
        #expect(step8 == .reassure(then: .milliseconds(10)))
        let step11 = worker.next(after: nothing, now: start + .seconds(9))
        #expect(step11 == .wait(.milliseconds(20)))
    }

    @Test func `knows until when producers read its row`() {
        var worker = asleep()
        let hasLastedAtFirst = worker.noteRow(isWritten: true, now: start)
        #expect(!hasLastedAtFirst)
        _ = worker.next(after: nothing, now: start + .seconds(6))
        let hasLasted = worker.noteRow(isWritten: false, now: start + .seconds(11))
        #expect(hasLasted)
        _ = worker.next(after: nothing, now: start + .seconds(11))
        let hasLapsed = !worker.noteRow(isWritten: true, now: start + .seconds(13))
        #expect(hasLapsed)
        _ = worker.next(after: nothing, now: start + .seconds(16))
        let lastsAgain = worker.noteRow(isWritten: true, now: start + .seconds(17))
        #expect(lastsAgain)
        _ = worker.noteNotified()
        let isGone = !worker.noteRow(isWritten: true, now: start + .seconds(18))
        #expect(isGone)
    }

    @Test func `is back in time for what is due, and spends no more than a tenth of its time on polling`() {
        var worker = asleep()
        var soon = nothing
        soon.nextDue = .milliseconds(3)
        let step9 = worker.next(after: soon, now: start)
        #expect(step9 == .wait(.milliseconds(3)))
        var slow = work
        slow.pollTime = .milliseconds(30)
        var busy = make()
        let step10 = busy.next(after: slow, now: start)
        #expect(step10 == .wait(.milliseconds(300)))
    }

    @Test func `spends no more than a tenth of its time on polling while it sleeps beside work that nobody can send`() {
        var worker = make()
        var slow = nothing
        slow.pollTime = .milliseconds(60)
        while worker.next(after: slow, now: start) != .fallAsleep {}
        let waits = (0..<3).map { _ in worker.next(after: slow, now: start) }
        #expect(waits == .init(repeating: .wait(.milliseconds(600)), count: 3))
    }

    @Test func `judges what a poll costs by the shortest of the last eight, as some are held up`() {
        var worker = make()
        var slow = work
        slow.pollTime = .milliseconds(30)
        let first = worker.next(after: work, now: start)
        #expect(first == .wait(.milliseconds(10)))
        for _ in 0..<7 {
            let next = worker.next(after: slow, now: start)
            #expect(next == .wait(.milliseconds(10)))
        }
        let ninth = worker.next(after: slow, now: start)
        #expect(ninth == .wait(.milliseconds(300)))
    }

    @Test func `does not wait for a minute because a poll stood still for seconds`() {
        var stood = work
        stood.pollTime = .seconds(7)
        var worker = make()
        let step = worker.next(after: stood, now: start)
        #expect(step == .wait(.seconds(1)))
    }
}
