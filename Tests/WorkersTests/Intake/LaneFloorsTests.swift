import QueueCore
import Testing

@testable import PostgresStore
@testable import Workers

@Suite struct `Where polls of lanes begin` {
    private let start = ContinuousClock.now
    private let place = LanePlace(1, .normal)
    /// PostgreSQL's clock, in microseconds.
    private let asked: Int64 = 5_000_000

    private func jobs(dueIn: Duration, id: Int64 = 1, of place: LanePlace? = nil) -> ReadyWork.Jobs {
        let place = place ?? self.place
        return .init(
            dueIn: dueIn, head: LaneHead(place, runAt: asked + Int64(dueIn / .microseconds(1)), jobID: id))
    }

    /// The floors after a full poll that took `time` and found a job due in `found`, and a claim from the lane.
    private func floors(
        fullPollTook time: Duration, finding found: Duration = .seconds(-1)
    ) -> LaneFloors {
        var floors = LaneFloors()
        floors.noteFullPoll([jobs(dueIn: found)], took: time, now: start)
        floors.noteClaim(of: 200, from: place)
        return floors
    }

    @Test func `is at their beginning, as long as a full poll costs little`() {
        #expect(LaneFloors().isFullPollDue(at: start))
        #expect(floors(fullPollTook: .milliseconds(2)).isFullPollDue(at: start))
        var many = LaneFloors()
        let found = (1...500).map { jobs(dueIn: .zero, of: LanePlace($0, .bulk)) }
        many.noteFullPoll(found, took: .milliseconds(8), now: start)
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

    @Test func `is at their beginning for a tenth of the time, if news were not found`() {
        let slow = floors(fullPollTook: .milliseconds(50))
        #expect(!slow.isFullPollDue(at: start + .milliseconds(499), missesNews: true))
        #expect(slow.isFullPollDue(at: start + .milliseconds(500), missesNews: true))
        let slower = floors(fullPollTook: .milliseconds(300))
        #expect(!slower.isFullPollDue(at: start + .milliseconds(2900), missesNews: true))
    }

    @Test func `is at what has waited longest`() {
        var floors = floors(fullPollTook: .milliseconds(50), finding: .seconds(-3))
        #expect(floors.floors == [LaneHead(place, runAt: 2_000_000, jobID: 1)])
        floors.notePoll([jobs(dueIn: .seconds(-2), id: 7)])
        #expect(floors.floors == [LaneHead(place, runAt: 3_000_000, jobID: 7)])
    }

    /// The jobs of a transaction have the time of its beginning, and become visible after its end.
    @Test func `is a quarter of a second ago at the latest, for transactions that last as long`() {
        var floors = floors(fullPollTook: .milliseconds(50), finding: .milliseconds(-100))
        let latest = LaneHead(place, runAt: 4_750_000, jobID: .min)
        #expect(floors.floors == [latest])
        floors.notePoll([jobs(dueIn: .milliseconds(-249))])
        #expect(floors.floors == [latest])
    }

    /// The next job may be due tomorrow, or be a retry. A job due before it would then not be found before the next
    /// full poll.
    @Test func `is never in the time to come`() {
        var floors = floors(fullPollTook: .milliseconds(50), finding: .seconds(3))
        let latest = LaneHead(place, runAt: 4_750_000, jobID: .min)
        #expect(floors.floors == [latest])
        floors.notePoll([jobs(dueIn: .seconds(86_400))])
        #expect(floors.floors == [latest])
    }

    @Test func `is lower again when something is found below`() {
        var floors = floors(fullPollTook: .milliseconds(50))
        floors.notePoll([jobs(dueIn: .seconds(-1))])
        floors.noteFullPoll([jobs(dueIn: .seconds(-4), id: 7)], took: .milliseconds(50), now: start + .seconds(1))
        floors.noteClaim(of: 1, from: place)
        #expect(floors.floors == [LaneHead(place, runAt: 1_000_000, jobID: 7)])
    }

    @Test func `is told for the lanes alone from which most was claimed`() {
        var floors = LaneFloors()
        let found = (1...100).map { jobs(dueIn: .zero, of: LanePlace($0, .normal)) }
        floors.noteFullPoll(found, took: .seconds(1), now: start)
        for number: Int32 in 1...100 { floors.noteClaim(of: Int(number), from: LanePlace(number, .normal)) }
        #expect(floors.floors.map(\.place.queueID) == Array(37...100))
    }
}
