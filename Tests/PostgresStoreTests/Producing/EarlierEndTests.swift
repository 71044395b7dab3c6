import Foundation
import PostgresStore
import QueueCore
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `A campaign that is resumed with an earlier end` {
    private func resume(within time: String) -> String {
        """
        select pushq.pause_campaign('\(QueueFixture.name)', 'k');
        select pushq.resume_campaign('\(QueueFixture.name)', 'k', send_by => now() + interval '\(time)')
        """
    }

    /// Each recipient has a job of its own: one waits for hours because of quiet hours, one is tried again in an hour,
    /// and one is due.
    @Test func `has no job that waits beyond it, warns of these, and is refused if no others are left`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            try await queue.run(
                """
                insert into pushq.rate_limit (tenant_id, queue_id, rate, burst)
                select tenant_id, id, 0.5, 1 from pushq.queue
                """)
            let campaign = try await queue.startCampaign()
            try await queue.fanOut(campaign)
            let waits: [(Reason, Duration)] = [(.quietHours, .seconds(18_000)), (.otherTransient, .seconds(3600))]
            for (reason, delay) in waits {
                let job = try #require(try await queue.claim(1).first)
                let until = Int64((Date.now.timeIntervalSince1970 + Double(delay.components.seconds)) * 1_000_000)
                let again = ContinuingRecipient(
                    ordinal: 0, deviceID: job.deviceIDs[0], delay: delay, attempts: 0, losses: 0,
                    quietUntil: reason == .quietHours ? until : nil)
                let settled = queue.settled(job, other: [0: .retried(reason)], again: [again])
                #expect(try await queue.worker.endJobs([settled], workerID: 1).keys.count == 1)
            }
            var warnings: [String] = []
            queue.connection.onWarning = { warnings.append("\($0)") }
            let minutes = """
                select round(extract(epoch from greatest(run_at - now(), interval '0')) / 60) from pushq.job order by 1
                """
            #expect(try await queue.texts(minutes) == ["0", "60", "300"])
            try await queue.run(resume(within: "6 hours"))
            #expect(warnings == [])
            try await queue.run(resume(within: "2 hours"))
            #expect(try await queue.texts(minutes) == ["0", "60", "120"])
            #expect(warnings.count == 1 && warnings[0].contains("1 of its devices would get nothing"), "\(warnings)")
            #expect(warnings.first?.contains("before their quiet hours end") == true, "\(warnings)")
            let shown = "select in_quiet_hours from pushq.status('\(QueueFixture.name)', \(campaign))"
            #expect(try await queue.number(shown) == 0, "it is not sent after them")
            warnings = []
            try await queue.run(resume(within: "10 minutes"))
            #expect(try await queue.texts(minutes) == ["0", "10", "10"])
            #expect(warnings.contains { $0.contains("before they are tried again") }, "\(warnings)")
            // Later, none of those that are left could be sent to before another end.
            #expect(try await queue.claim(1).count == 1)
            try await queue.run("delete from pushq.lease")
            let error = await #expect(throws: PostgresError.self) { try await queue.run(resume(within: "5 minutes")) }
            #expect(error?.description.contains("nothing could be sent") == true, "\(error?.description ?? "")")
        }
    }
}
