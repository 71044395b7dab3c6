import Testing

@testable import APNs

@Suite struct `The isolation of a push that was lost` {
    @Test func `leaves a tenth beside it after each loss, and nothing after the fourth`() {
        let limits = { (full: Int) in (0...5).map { LossIsolation.limit(ofPushLost: $0, full: full) } }
        #expect(limits(1000) == [.max, 100, 10, 1, 1, 1])
        #expect(limits(5000) == [.max, 500, 50, 5, 1, 1])
    }

    @Test func `is as strict as the most often lost push demands, until that has its result`() {
        var isolation = LossIsolation()
        #expect(isolation.isUnlimited)
        isolation.add(1, lost: 1, full: 1000, now: 0)
        isolation.add(3, lost: 2, full: 1000, now: 0)
        isolation.add(5, lost: 2, full: 1000, now: 0)
        #expect(isolation.room(beside: 3, full: 1000) == 7)
        isolation.remove(3)
        #expect(isolation.room(beside: 2, full: 1000) == 8)
        isolation.remove(5)
        #expect(isolation.room(beside: 1, full: 1000) == 99)
        isolation.remove(7)
        isolation.remove(1)
        #expect(isolation.isUnlimited)
    }

    @Test func `is kept up for a push that waits, until it is sent or has not come for long`() {
        var isolation = LossIsolation()
        isolation.await(pushLost: 4, now: 1_000_000_000)
        isolation.await(pushLost: 1, now: 2_000_000_000)
        #expect(isolation.awaited.losses == 4)
        #expect(isolation.room(beside: 20, full: 1000) == 0)
        #expect(isolation.room(beside: 0, full: 1000) == 1)
        let forgets = [2_900_000_000, 3_000_000_000, 9_000_000_000].map {
            isolation.forgetAwaited(after: .seconds(2), now: $0)
        }
        #expect(forgets == [false, true, false])
        #expect(isolation.isUnlimited)
        isolation.await(pushLost: 4, now: 9_000_000_000)
        isolation.add(9, lost: 4, full: 1000, now: 0)
        #expect(isolation.awaited.losses == 0)
        #expect(isolation.room(beside: 1, full: 1000) == 0)
    }
}
