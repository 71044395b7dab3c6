import Testing

@testable import APNs

@Suite struct `The company of a push that was lost` {
    @Test func `is a tenth after each loss, and none after the fourth`() {
        let limits = { (full: Int) in (0...5).map { Company.limit(ofPushLost: $0, full: full) } }
        #expect(limits(1000) == [.max, 100, 10, 1, 1, 1])
        #expect(limits(5000) == [.max, 500, 50, 5, 1, 1])
    }

    @Test func `is as small as the most often lost of them demands, until that has its result`() {
        var company = Company()
        #expect(company.isUnlimited)
        company.add(1, lost: 1, full: 1000, now: 0)
        company.add(3, lost: 2, full: 1000, now: 0)
        company.add(5, lost: 2, full: 1000, now: 0)
        #expect(company.room(beside: 3, full: 1000) == 7)
        company.remove(3)
        #expect(company.room(beside: 2, full: 1000) == 8)
        company.remove(5)
        #expect(company.room(beside: 1, full: 1000) == 99)
        company.remove(7)
        company.remove(1)
        #expect(company.isUnlimited)
    }

    @Test func `is kept small for one that waits, until it is sent or has not come for long`() {
        var company = Company()
        company.await(pushLost: 4, now: 1_000_000_000)
        company.await(pushLost: 1, now: 2_000_000_000)
        #expect(company.awaited.losses == 4)
        #expect(company.room(beside: 20, full: 1000) == 0)
        #expect(company.room(beside: 0, full: 1000) == 1)
        let forgets = [2_900_000_000, 3_000_000_000, 9_000_000_000].map {
            company.forgetAwaited(after: .seconds(2), now: $0)
        }
        #expect(forgets == [false, true, false])
        #expect(company.isUnlimited)
        company.await(pushLost: 4, now: 9_000_000_000)
        company.add(9, lost: 4, full: 1000, now: 0)
        #expect(company.awaited.losses == 0)
        #expect(company.room(beside: 1, full: 1000) == 0)
    }
}
