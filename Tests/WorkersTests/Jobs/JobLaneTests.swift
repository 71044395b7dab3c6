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

    /// A push that tries whether APNs answers again may be lost, and the rest of its job waits for its answer.
    @Test func `gives a push that may be sent twice and is alone in its job to those who try, from either end`() {
        let large = [1, 2].map { JobFixture.job(recipients: 3, id: $0) }
        let once = [3, 4].map { JobFixture.job(recipients: 1, isAtMostOnce: true, id: $0) }
        let alone = [5, 6].map { JobFixture.job(recipients: 1, id: $0) }
        for kinds in [[once, large, alone], [once, large], [once]] {
            var lane = JobLane()
            let jobs = kinds.flatMap { $0 }
            for job in jobs {
                job.isQueued = false
                lane.add(job)
            }
            #expect(lane.untried(.oldest, nil) === kinds.last?.first)
            #expect(lane.untried(.newest, nil) === kinds.last?.last)
        }
    }
}
