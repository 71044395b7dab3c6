import PostgresStore
import QueueCore
import Testing

@testable import Workers

@Suite struct `The lanes that a notification probably announces` {
    private let start = ContinuousClock.now

    private func lane(_ queue: Int32) -> LanePlace { LanePlace(queue, .normal) }

    /// The lanes of these queues, claimed from one after the other.
    private func lanes(of queues: [Int32], secondsApart: Int) -> RecentLanes {
        var lanes = RecentLanes()
        for (index, queue) in queues.enumerated() {
            lanes.note(lane(queue), now: start + .seconds(index * secondsApart))
        }
        return lanes
    }

    /// In a fleet, the worker that sent a queue's last push has a connection for the next one.
    @Test func `are those of the last minute, and if there are none, those of the last hour`() {
        var lanes = lanes(of: [2, 1], secondsApart: 0)
        let later = start + .seconds(600)
        #expect(lanes.lanes(at: later) == [lane(1), lane(2)])
        #expect(lanes.lanes(at: start + .seconds(3600)) == [])
        lanes.note(lane(3), now: later)
        #expect(lanes.lanes(at: later + .seconds(59)) == [lane(3)])
        #expect(lanes.lanes(at: later + .seconds(60)) == [lane(1), lane(2), lane(3)])
    }

    @Test func `are none if there were many in the same time`() {
        let queues = Array(Int32(1)...20)
        #expect(lanes(of: Array(queues.prefix(8)), secondsApart: 100).lanes(at: start + .seconds(900)).count == 8)
        for count in 9...20 {
            let many = lanes(of: Array(queues.prefix(count)), secondsApart: 100)
            #expect(many.lanes(at: start + .seconds(count * 100)) == [], "\(count)")
        }
        let busy = lanes(of: queues, secondsApart: 1)
        #expect(busy.lanes(at: start + .seconds(20)) == [])
    }

    @Test func `are one that is in use beside many that are not`() {
        var many = lanes(of: Array(1...20), secondsApart: 100)
        let later = start + .seconds(2100)
        many.note(lane(30), now: later)
        #expect(many.lanes(at: later) == [lane(30)])
    }

    @Test func `are forgotten if another worker has got the job, and not if it was in another lane`() {
        var lanes = lanes(of: [1], secondsApart: 0)
        lanes.noteNothingFound()
        #expect(lanes.lanes(at: start) == [lane(1)], "no job was announced")
        lanes.noteInVain()
        lanes.note(lane(2), now: start)
        lanes.noteNothingFound()
        #expect(lanes.lanes(at: start) == [lane(1), lane(2)])
        lanes.noteInVain()
        lanes.noteNothingFound()
        #expect(lanes.lanes(at: start) == [])
        lanes.note(lane(2), now: start)
        #expect(lanes.lanes(at: start) == [lane(2)])
    }
}
