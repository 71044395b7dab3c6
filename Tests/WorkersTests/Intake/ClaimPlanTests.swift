import PostgresStore
import QueueCore
import Testing

@testable import Workers

@Suite struct `What one claim takes` {
    private let worker = ClaimPlan.Worker(maximumHeld: 400_000, maximumLeases: 20_000)

    /// A lane of a queue. By default its tenant has no other queue.
    private func lane(_ queue: Int32, _ lane: Lane = .bulk, of tenant: Int32? = nil) -> ClaimPlan.Candidate {
        ClaimPlan.Candidate(tenantID: tenant ?? queue, place: LanePlace(queue, lane), head: nil, jobSize: 500)
    }

    /// The number of jobs claimed from each queue.
    private func jobs(
        _ lanes: [ClaimPlan.Candidate], from place: LanePlace = .start, _ worker: ClaimPlan.Worker
    ) -> [Int32: Int32] {
        let plan = ClaimPlan(for: lanes, from: place, worker: worker)
        return Dictionary(plan.quotas.map { ($0.queueID, $0.jobs) }, uniquingKeysWith: +)
    }

    @Test func `is what a queue sends in half a second, within bounds`() {
        var (new, fast, faster) = (lane(1), lane(2), lane(3))
        new.demand.sendRate = 10
        fast.demand.sendRate = 20_000
        faster.demand.sendRate = 1_000_000
        #expect(jobs([new], worker) == [1: 4])
        #expect(jobs([fast], worker) == [2: 20])
        #expect(jobs([faster], worker) == [3: 20], "the next claim brings more")
        #expect(ClaimPlan.target(for: faster, of: worker) == 40_000)
    }

    @Test func `is what the rate allows in one second, and one job at least`() {
        var (paced, slow) = (lane(1), lane(2))
        paced.demand.rate = 5000
        slow.demand.rate = 0.1
        #expect(jobs([paced, slow], worker) == [1: 10, 2: 1])
    }

    @Test func `leaves out what is held already`() {
        var (full, half) = (lane(1), lane(2))
        full.unsent = 2000
        half.unsent = 1000
        #expect(jobs([full, half], worker) == [2: 2])
    }

    /// Polls are 10 ms apart, in which a fast queue sends a few jobs.
    @Test func `is nothing of a fast queue that lacks a few large jobs, if the worker polls again soon`() {
        var (fast, lower, slow, paced, single) = (lane(1), lane(2), lane(3), lane(4), lane(5))
        (fast.demand.sendRate, lower.demand.sendRate, single.demand.sendRate) = (20_000, 20_000, 20_000)
        (fast.unsent, lower.unsent, single.unsent) = (8000, 7500, 9900)
        single.jobSize = 1
        (slow.demand.sendRate, slow.unsent) = (100, 1900)
        (paced.demand.sendRate, paced.demand.rate, paced.unsent) = (5000, 5000, 4900)
        #expect(jobs([fast, lower, slow, paced, single], worker) == [2: 4, 3: 1, 4: 1, 5: 100])
        #expect(ClaimPlan(for: [fast, lower], worker: worker).hasMoreSoon)
        fast.unsent = 10_000
        #expect(!ClaimPlan(for: [fast, lower], worker: worker).hasMoreSoon, "it holds all that it is to hold")
    }

    @Test func `leaves lanes alone whose turn is far off, as their queue has enough that is more urgent`() {
        let (urgent, normal) = (lane(1, .urgent), lane(1, .normal))
        #expect(
            jobs([urgent, normal, lane(2, .normal)], worker) == [1: 4, 2: 4], "what is claimed now comes first, too")
        var (behind, ahead) = (normal, lane(1, .bulk))
        (behind.unsent, ahead.unsent) = (1500, 2000)
        #expect(jobs([behind, ahead], worker) == [1: 1])
    }

    @Test func `is nothing of a queue that may not send, or of jobs that are not due`() {
        var (paused, later) = (lane(1), lane(2))
        paused.mayClaim = false
        later.dueIn = .milliseconds(1)
        #expect(jobs([paused, later, lane(3)], worker) == [3: 4])
    }

    @Test func `is no more than 200 jobs of a lane`() {
        var single = lane(1)
        single.jobSize = 1
        #expect(jobs([single], worker) == [1: 200])
    }

    @Test func `is some 10,000 recipients in all, where many lanes share it, and every small job`() throws {
        let lanes = (1...400 as ClosedRange<Int32>).map { number in
            var lane = lane(number, .normal)
            (lane.jobSize, lane.demand.sendRate) = (number.isMultiple(of: 10) ? 1 : 500, 100_000)
            return lane
        }
        let first = ClaimPlan(for: lanes, worker: worker)
        let large = first.quotas.filter { !$0.queueID.isMultiple(of: 10) }
        #expect(large.reduce(0) { $0 + $1.jobs } == 20)
        #expect(first.quotas.count { $0.queueID.isMultiple(of: 10) } == 40)
        // The next claim continues with the first queue that was left out.
        let place = try #require(first.lastServed)
        let second = ClaimPlan(for: lanes, from: place, worker: worker)
        #expect(second.quotas.first?.queueID == large.last!.queueID + 1)
    }

    @Test func `is no more than what can be renewed in time, and something for each while there is room`() {
        var tight = worker
        (tight.leases, tight.maximumLeases) = (180, 200)
        let lanes = (1...3 as ClosedRange<Int32>).map { number in
            var lane = lane(number)
            lane.jobSize = 1
            return lane
        }
        let claimed = jobs(lanes, tight)
        #expect(claimed == [1: 16, 2: 3, 3: 1])
        tight.leases = 200
        #expect(jobs(lanes, tight).isEmpty)
    }

    @Test func `is divided among tenants, however many queues they have, and then among the queues of each`() {
        var tight = worker
        (tight.leases, tight.maximumLeases) = (0, 1000)
        // Fifty queues of one tenant come before the only queue of another.
        let lanes = (1...51 as ClosedRange<Int32>).map { number in
            var lane = lane(number, of: number <= 50 ? 1 : 2)
            (lane.jobSize, lane.demand.sendRate) = (1, 100_000)
            return lane
        }
        let claimed = jobs(lanes, tight)
        let ofFirst = (1...50 as ClosedRange<Int32>).reduce(0) { $0 + (claimed[$1] ?? 0) }
        #expect((700...810).contains(ofFirst), "the first to come gets four fifths, as if it had one queue")
        #expect(claimed[51] ?? 0 >= 100)
        tight.leases = 800
        tight.tenants = [1: .init(activeQueues: 50, heldJobs: 790), 2: .init(activeQueues: 1, heldJobs: 10)]
        let next = jobs(lanes, tight)
        #expect(next[51] ?? 0 >= 100)
        #expect(
            (1...50 as ClosedRange<Int32>).reduce(0) { $0 + (next[$1] ?? 0) } < 10, "the first has its part already")
    }

    @Test func `holds of each of a tenant's queues its part of what the tenant may hold`() {
        var worker = worker
        worker.tenants = [1: .init(activeQueues: 50), 2: .init(activeQueues: 1)]
        var (one, other) = (lane(1, of: 1), lane(51, of: 2))
        (one.demand.sendRate, other.demand.sendRate) = (1_000_000, 1_000_000)
        #expect(ClaimPlan.target(for: one, of: worker) == 4000)
        #expect(ClaimPlan.target(for: other, of: worker) == 40_000)
    }

    @Test func `begins behind the last lane that was served, where the leases do not suffice for all`() {
        var tight = worker
        (tight.leases, tight.maximumLeases) = (198, 200)
        let lanes = (1...4).map { lane($0) }
        let first = ClaimPlan(for: lanes, worker: tight)
        #expect(first.quotas.map(\.queueID) == [1, 2])
        #expect(first.lastServed == LanePlace(2, .bulk))
        let second = ClaimPlan(for: lanes, from: LanePlace(2, .bulk), worker: tight)
        #expect(second.quotas.map(\.queueID) == [3, 4])
    }

    @Test func `comes to a bounded number of lanes, and the next one goes on behind them`() {
        let lanes = (1...12).map { lane($0) }
        let first = ClaimPlan(for: lanes, maximumLanes: 5, worker: worker)
        #expect(first.quotas.map(\.queueID) == [1, 2, 3, 4, 5])
        #expect(first.lastServed == LanePlace(5, .bulk))
        let third = ClaimPlan(for: lanes, from: LanePlace(10, .bulk), maximumLanes: 5, worker: worker)
        #expect(third.quotas.map(\.queueID) == [11, 12, 1, 2, 3])
    }

    @Test func `is urgent jobs alone, where thousands of queues without a connection hold a lot`() {
        var full = worker
        full.unsent = 1_600_000
        var (connected, urgent, waiting) = (lane(1), lane(2, .urgent), lane(3))
        (connected.isConnected, urgent.isConnected, waiting.isConnected) = (true, false, false)
        #expect(Set(jobs([connected, urgent, waiting], full).keys) == [1, 2])
    }

    @Test func `leaves queues in the database that would wait for a connection for too long`() {
        let lanes = (1...30 as ClosedRange<Int32>).map { number in
            var lane = lane(number, of: 1)
            (lane.isConnected, lane.tenantConnections) = (number == 30, 2)
            return lane
        }
        var worker = worker
        worker.tenants = [1: .init(activeQueues: 4, heldJobs: 4, waitingQueues: 4)]
        let first = ClaimPlan(for: lanes, worker: worker)
        #expect(first.quotas.map(\.queueID) == [1, 2, 3, 4, 5, 6, 30], "ten may wait, of which four do")
        #expect(first.connectedLanes == [LanePlace(30, .bulk)])
        #expect(first.leftOut == Set(7...29))
        #expect(first.lastServed == LanePlace(6, .bulk), "the next claim begins with the seventh")
        worker.tenants[1]!.waitingQueues = 10
        #expect(jobs(lanes, worker).keys.sorted() == [30])
        // Urgent jobs have the same limit again, and another tenant has a limit of its own.
        let others = [lane(31, .urgent, of: 1), lane(32, of: 2)].map { lane in
            var lane = lane
            lane.isConnected = false
            lane.tenantConnections = 2
            return lane
        }
        #expect(Set(jobs(lanes + others, worker).keys) == [30, 31, 32])
        // A queue that already waits may get more.
        var waiting = lanes[0]
        waiting.heldJobs = 1
        #expect(jobs([waiting], worker).keys.contains(1))
        // The worker's connections are another limit.
        worker.connections = 1
        worker.tenants = [:]
        #expect(jobs(lanes, worker).count == 6)
    }

    @Test func `is bounded during an outage by what its gateway takes`() {
        var open = lane(1)
        (open.demand.stock, open.jobSize) = (2, 1)
        #expect(jobs([open], worker) == [1: 2])
    }
}
