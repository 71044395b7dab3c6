import QueueCore
import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// The job that has waited longest is sent first. A person sees which of two messages came last.
@Suite(.timeLimit(.minutes(10))) struct `The order of jobs` {
    @Test func `is that of their times, wherever their rows lie`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            for number in 1...20 { try await send(queue, runAt: "now() - interval '\(number) minutes'") }
            let jobs = try await queue.claim(20, lane: .normal)
            #expect(jobs.map(\.rootID) == jobs.map(\.rootID).sorted(by: >))
            #expect(jobs.count == 20)
        }
    }

    @Test func `stays when a job goes back without a delay, whole or split`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            for minutes in [30, 20, 10] { try await send(queue, runAt: "now() - interval '\(minutes) minutes'") }
            let jobs = try await queue.claim(2, lane: .normal)
            let times = Statement(
                "times", "select extract(epoch from run_at)::bigint as time from pushq.lease order by run_at")
            let before = try await queue.connection.execute(times).map { $0.int8("time") }
            let progress = LeaseProgress(key: jobs[0].key, watermark: 0, outcomes: [0])
            _ = try await queue.worker.yield([YieldedLease(progress: progress)], workerID: 1)
            let again = ContinuingRecipient(
                ordinal: 0, deviceID: jobs[1].deviceIDs[0], delay: .zero, attempts: 0, losses: 0)
            let settled = queue.settled(jobs[1], other: [0: .retried(.givenBack)], again: [again])
            _ = try await queue.worker.endJobs([settled], workerID: 1)

            let after = Statement(
                "after", "select extract(epoch from run_at)::bigint as time from pushq.job order by run_at")
            #expect(try await queue.connection.execute(after).prefix(2).map { $0.int8("time") } == before)
            let roots = try await queue.claim(3, lane: .normal).map(\.rootID)
            #expect(roots == roots.sorted())
        }
    }

    private func send(_ queue: QueueFixture, runAt: String) async throws {
        try await queue.run(
            """
            select pushq.send('\(QueueFixture.name)', '{"aps":{"alert":"x"}}', array['0000000000000001'], run_at => \(runAt))
            """)
    }
}
