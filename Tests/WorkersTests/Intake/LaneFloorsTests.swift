import PostgresStore
import QueueCore
import Testing

@testable import Workers

@Suite struct `Where looks at lanes begin` {
    private let start = ContinuousClock.now
    private let place = LanePlace(1, .normal)

    private func head(_ runAt: Int64, id: Int64 = 1) -> LaneHead { LaneHead(place, runAt: runAt, jobID: id) }

    /// After a whole look that took so long, with jobs claimed of the lane since.
    private func floors(wholeLookTook time: Duration) -> LaneFloors {
        var floors = LaneFloors()
        floors.noteWholeLook([head(100)], took: time, now: start)
        floors.noteClaim(of: 200, from: place)
        return floors
    }

    @Test func `is at their beginning, as long as a whole look costs little`() {
        #expect(LaneFloors().isWholeLookDue(at: start))
        #expect(floors(wholeLookTook: .milliseconds(2)).isWholeLookDue(at: start))
        var many = LaneFloors()
        let heads = (1...500).map { LaneHead(LanePlace($0, .bulk), runAt: 1, jobID: 1) }
        many.noteWholeLook(heads, took: .milliseconds(8), now: start)
        #expect(many.isWholeLookDue(at: start), "it is many lanes that take their time")
    }

    @Test func `is at their beginning every few seconds, if that is slow, so that nothing is missed`() {
        let slow = floors(wholeLookTook: .milliseconds(50))
        #expect(!slow.isWholeLookDue(at: start + .milliseconds(900)))
        #expect(slow.isWholeLookDue(at: start + .seconds(1)))
        let slower = floors(wholeLookTook: .milliseconds(300))
        #expect(!slower.isWholeLookDue(at: start + .milliseconds(2900)))
        #expect(slower.isWholeLookDue(at: start + .seconds(3)))
        #expect(floors(wholeLookTook: .seconds(8)).isWholeLookDue(at: start + .seconds(5)))
    }

    @Test func `follows what is claimed a quarter of a second behind, for transactions that last as long`() {
        var floors = floors(wholeLookTook: .milliseconds(50))
        #expect(floors.floors == [head(100)])
        floors.noteLook([head(200)], now: start + .milliseconds(100))
        #expect(floors.floors == [head(100)])
        floors.noteLook([head(300)], now: start + .milliseconds(300))
        #expect(floors.floors == [head(100)], "what was seen at the whole look")
        floors.noteLook([head(400)], now: start + .milliseconds(560))
        #expect(floors.floors == [head(300)])
    }

    @Test func `is lower again when something is found below`() {
        var floors = floors(wholeLookTook: .milliseconds(50))
        floors.noteLook([head(300)], now: start + .milliseconds(300))
        floors.noteLook([head(400)], now: start + .milliseconds(600))
        floors.noteWholeLook([head(250, id: 7)], took: .milliseconds(50), now: start + .seconds(1))
        floors.noteClaim(of: 1, from: place)
        #expect(floors.floors == [head(250, id: 7)])
    }

    @Test func `is told for the lanes alone from which most was claimed`() {
        var floors = LaneFloors()
        let heads = (1...100).map { LaneHead(LanePlace($0, .normal), runAt: 1, jobID: 1) }
        floors.noteWholeLook(heads, took: .seconds(1), now: start)
        for number: Int32 in 1...100 { floors.noteClaim(of: Int(number), from: LanePlace(number, .normal)) }
        #expect(floors.floors.map(\.place.queueID) == Array(37...100))
    }
}
