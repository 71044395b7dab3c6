import Testing

@testable import Workers

@Suite struct `Pushes whose answers are awaited` {
    private let start = ContinuousClock.now
    private var pushes = AwaitedPushes()

    @Test mutating func `are those that went out in this phase and have not ended`() {
        pushes.noteSent(2, now: start)
        pushes.noteSent(1, now: start)
        pushes.noteSent(4, now: start + .seconds(1))
        #expect(pushes.count(since: start, now: start + .seconds(2)) == 7)
        #expect(pushes.count(since: start + .seconds(1), now: start + .seconds(2)) == 4)
        pushes.noteEnded(sentAt: start - .milliseconds(1))
        #expect(pushes.count(since: start, now: start + .seconds(2)) == 7, "one that went out before is none of them")
        for _ in 0..<3 { pushes.noteEnded(sentAt: start) }
        #expect(pushes.count(since: start, now: start + .seconds(2)) == 4)
        pushes.noteEnded(sentAt: start)
        #expect(pushes.count(since: start, now: start + .seconds(2)) == 4)
        // Over the binary interface, a push leaves later.
        pushes.noteEnded(sentAt: start + .seconds(1.5))
        #expect(pushes.count(since: start, now: start + .seconds(2)) == 3)
    }

    @Test mutating func `are those that went out less than five seconds ago`() {
        pushes.noteSent(3, now: start)
        pushes.noteSent(1, now: start + .seconds(4))
        #expect(pushes.count(since: start, now: start + .seconds(4.9)) == 4)
        #expect(pushes.count(since: start, now: start + .seconds(5)) == 1)
        pushes.noteEnded(sentAt: start)
        #expect(pushes.count(since: start, now: start + .seconds(5)) == 1)
    }
}
