import Testing

@testable import Workers

@Suite struct `A lane of jobs` {
    private struct Passed {
        weak var job: HeldJob?
    }

    /// A job holds its recipients and their tokens. A lane that always has work would keep hundreds of them.
    @Test func `releases a job once it has passed it, though the lane is never empty`() {
        var lane = JobLane()
        var passed: [Passed] = []
        for id in 1...20 {
            let job = JobFixture.job(recipients: 1, id: Int64(id))
            lane.add(job)
            if id > 1 { #expect(lane.next() != nil) }
            passed.append(Passed(job: job))
            // Its only recipient is under way when the next job comes.
            while let next = lane.next(), next !== job { _ = next.takeRecipient() }
        }
        #expect(passed.dropLast().allSatisfy { $0.job == nil })
        #expect(passed.last?.job != nil)
    }
}
