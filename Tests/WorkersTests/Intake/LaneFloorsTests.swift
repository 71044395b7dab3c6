import PostgresStore
import QueueCore
import Testing

@testable import Workers

@Suite struct `Where polls of lanes begin` {
    private let start = ContinuousClock.now
    private let place = LanePlace(1, .normal)

    private func head(_ runAt: Int64, id: Int64 = 1) -> LaneHead { LaneHead(place, runAt: runAt, jobID: id) }

    /// After a full poll that took so long, with jobs claimed of the lane since.
    private func floors(fullPollTook time: Duration) -> LaneFloors {
        var floors = LaneFloors()
        floors.noteFullPoll([head(100)], took: time, now: start)
        floors.noteClaim(of: 200, from: place)
        return floors
    }

    @Test func `is at their beginning, as long as a full poll costs little`() {
        #expect(LaneFloors().isFullPollDue(at: start))
        #expect(floors(fullPollTook: .milliseconds(2)).isFullPollDue(at: start))
        var many = LaneFloors()
        let heads = (1...500).map { LaneHead(LanePlace($0, .bulk), runAt: 1, jobID: 1) }
        many.noteFullPoll(heads, took: .milliseconds(8), now: start)
        #expect(many.isFullPollDue(at: start), "it is many lanes that take their time")
    }

    @Test func `is at their beginning every few seconds, if that is slow, so that nothing is missed`() {
        let slow = floors(fullPollTook: .milliseconds(50))
        #expect(!slow.isFullPollDue(at: start + .milliseconds(900)))
        #expect(slow.isFullPollDue(at: start + .seconds(1)))
        let slower = floors(fullPollTook: .milliseconds(300))
        #expect(!slower.isFullPollDue(at: start + .milliseconds(2900)))
        #expect(slower.isFullPollDue(at: start + .seconds(3)))
        #expect(floors(fullPollTook: .seconds(8)).isFullPollDue(at: start + .seconds(5)))
    }

    @Test func `follows what is claimed a quarter of a second behind, for transactions that last as long`() {
        var floors = floors(fullPollTook: .milliseconds(50))
        #expect(floors.floors == [head(100)])
        floors.notePoll([head(200)], now: start + .milliseconds(100))
        #expect(floors.floors == [head(100)])
        floors.notePoll([head(300)], now: start + .milliseconds(300))
        #expect(floors.floors == [head(100)], "what was seen at the full poll")
        floors.notePoll([head(400)], now: start + .milliseconds(560))
        #expect(floors.floors == [head(300)])
    }

    @Test func `is lower again when something is found below`() {
        var floors = floors(fullPollTook: .milliseconds(50))
        floors.notePoll([head(300)], now: start + .milliseconds(300))
        floors.notePoll([head(400)], now: start + .milliseconds(600))
        floors.noteFullPoll([head(250, id: 7)], took: .milliseconds(50), now: start + .seconds(1))
        floors.noteClaim(of: 1, from: place)
        #expect(floors.floors == [head(250, id: 7)])
    }

    @Test func `is told for the lanes alone from which most was claimed`() {
        var floors = LaneFloors()
        let heads = (1...100).map { LaneHead(LanePlace($0, .normal), runAt: 1, jobID: 1) }
        floors.noteFullPoll(heads, took: .seconds(1), now: start)
        for number: Int32 in 1...100 { floors.noteClaim(of: Int(number), from: LanePlace(number, .normal)) }
        #expect(floors.floors.map(\.place.queueID) == Array(37...100))
    }
}
