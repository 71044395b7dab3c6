import Testing

@testable import Workers

@Suite struct `What a worker knows about the database's clock` {
    private let start = ContinuousClock.now
    private var clock = DatabaseClock(now: .now)

    /// Notes a statement. The times are in milliseconds since the start. The database's clock is an hour ahead.
    private mutating func note(
        _ time: Int64, asked: Int, answered: Int, ahead: Int64 = 3_600_000
    ) -> (earliest: Duration, latest: Duration, isSettled: Bool) {
        let moment = clock.note(
            (time + ahead) * 1000, askedAt: start + .milliseconds(asked), answeredAt: start + .milliseconds(answered))
        return (start.duration(to: moment.earliest), start.duration(to: moment.latest), moment.isSettled)
    }

    @Test mutating func `is at first that a statement was executed between its request and its answer`() {
        let first = note(12, asked: 10, answered: 15)
        #expect(first.earliest == .milliseconds(10) && first.latest == .milliseconds(15))
    }

    @Test mutating func `also tells when a statement was executed whose answer was read much later`() {
        _ = note(12, asked: 10, answered: 15)
        _ = note(43, asked: 40, answered: 44)
        let stalled = note(102, asked: 100, answered: 2100)
        // The first two showed it to 2 ms and 1 ms. The clocks may have moved apart by 2 ms since.
        #expect(stalled.earliest > .milliseconds(96) && stalled.earliest <= .milliseconds(102))
        #expect(stalled.latest >= .milliseconds(102) && stalled.latest < .milliseconds(106))
        // The slow answer does not widen what is known.
        let next = note(2110, asked: 2101, answered: 2200)
        #expect(next.earliest > .milliseconds(2102) && next.latest < .milliseconds(2116))
    }

    @Test mutating func `is of one server, and ends when a clock is set`() {
        _ = note(12, asked: 10, answered: 15)
        let other = note(40, asked: 30, answered: 50, ahead: 3_600_500)
        #expect(other.earliest == .milliseconds(30) && other.latest == .milliseconds(50))
        let back = note(62, asked: 60, answered: 70)
        #expect(back.earliest == .milliseconds(60) && back.latest == .milliseconds(70))
    }

    @Test mutating func `is forgotten after some seconds`() {
        _ = note(12, asked: 10, answered: 15)
        let late = note(12_000, asked: 11_000, answered: 14_000)
        #expect(late.earliest == .seconds(11) && late.latest == .seconds(14))
    }

    @Test mutating func `is as good as it gets after some statements in a row`() {
        var settled: [Bool] = []
        for number in 1...9 {
            let time = number * 100
            settled.append(note(Int64(time + 60), asked: time, answered: time + 120).isSettled)
        }
        #expect(settled == [false, false, false, false, false, false, false, true, true])
        let other = note(1060, asked: 1000, answered: 1120, ahead: 0)
        #expect(!other.isSettled, "another server begins anew")
    }

    @Test mutating func `tells enough as soon as one statement was quick, or after many in a row if none is`() {
        let width = Duration.milliseconds(50)
        #expect(!clock.tells(within: width), "nothing is known yet")
        for number in 1...8 {
            _ = note(Int64(number * 100 + 60), asked: number * 100, answered: number * 100 + 120)
            #expect(clock.tells(within: width) == (number == 8), "\(number)")
        }
        _ = note(1060, asked: 1000, answered: 1120, ahead: 0)
        #expect(!clock.tells(within: width), "another server begins anew")
        _ = note(1212, asked: 1210, answered: 1215, ahead: 0)
        #expect(clock.tells(within: width))
        _ = note(23_000, asked: 22_000, answered: 24_000, ahead: 0)
        #expect(!clock.tells(within: width), "after a rest, one slow statement tells little")
    }

    /// A worker far away from PostgreSQL would otherwise lose its first grants after each rest.
    @Test mutating func `is as good again after a rest as soon as a statement is as quick as before`() {
        for number in 1...9 { _ = note(Int64(number * 100 + 60), asked: number * 100, answered: number * 100 + 120) }
        let rested = note(13_060, asked: 13_000, answered: 13_120)
        #expect(rested.isSettled && rested.latest - rested.earliest == .milliseconds(120))
        let slow = note(26_000, asked: 25_000, answered: 27_000)
        #expect(!slow.isSettled, "the worker may have stood still")
        let next = note(27_160, asked: 27_100, answered: 27_220)
        #expect(next.isSettled)
        let other = note(39_060, asked: 39_000, answered: 39_120, ahead: 0)
        #expect(!other.isSettled, "another server begins anew")
    }
}
