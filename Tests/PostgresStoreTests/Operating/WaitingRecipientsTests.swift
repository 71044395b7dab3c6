import PostgresStore
import QueueCore
import TestSupport
import Testing

/// A job that a worker has begun and given back.
@Suite(.timeLimit(.minutes(10))) struct `The waiting recipients of a job that was begun` {
    @Test func `are those without an outcome, in every figure that counts them`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 6)
            let campaign = try await queue.startCampaign()
            try await queue.fanOut(campaign)
            // Two were delivered, one failed, and one continues in another job, which has it, too.
            try await queue.run(
                """
                update pushq.job
                set outcomes = '\\x0101'::bytea || set_byte('\\x00', 0, \(Outcome.failed(.otherTransient).rawValue))
                      || set_byte('\\x00', 0, \(Outcome.retried(.givenBack).rawValue)) || '\\x0000'
                """)
            let name = QueueFixture.name
            #expect(try await queue.connection.statistics(of: nil).map(\.waitingRecipients) == [2])
            #expect(try await queue.connection.queues(of: nil).map(\.waitingRecipients) == [2])
            #expect(try await queue.connection.queueLoads(of: nil).queues.map(\.waitingRecipients) == [2])
            #expect(try await queue.worker.fleetFigures().backlogs.map(\.recipients) == [2])
            let job = try await queue.texts(
                "select recipient_count::text as text from pushq.show_cancellable_jobs('\(name)', 10, 128)")
            #expect(job == ["2"])
            try await queue.run(
                "insert into pushq.tenant_quota (tenant_id, max_waiting) select id, 100 from pushq.tenant")
            try await queue.connection.countUsage()
            #expect(try await queue.number("select max(waiting) from pushq.tenant_usage") == 2)
        }
    }
}
