import Foundation
import LocalStack
import TestSupport
import Testing

extension `Real processes` {
    @Suite struct `A schedule` {
        @Test func `is run once by two workers of which one is killed, and each device gets it once`() async throws {
            try await withRig { rig in
                // Once an hour, and not within the next minutes.
                let minute = (Int(Date.now.timeIntervalSince1970) / 60 + 30) % 60
                let added = try await rig.pushq(
                    [
                        "schedule", "add", "\(rig.queue)", "hourly", "--cron", "\(minute) * * * *", "--payload", "-",
                        "--audience", "all",
                    ], input: #"{"aps":{"alert":"New offers"}}"#)
                #expect(added.code == 0, "\(added.errors)")
                let doomed = try rig.startWorker()
                let other = try rig.startWorker()
                for worker in rig.workers { try await worker.says("started") }
                let due = """
                    update pushq.schedule
                    set next_at = pushq.cron_run(cron, time_zone, now() - interval '1 hour'), retry_at = null, problem = null
                    """
                try await rig.run(due)
                try await rig.waitUntilEnded(500)
                // The run is due once more, as if nobody had noted it.
                try await rig.run(due)
                await doomed.kill()
                try await rig.waitUntilFinished()
                // Whoever was killed may have held the duty.
                try await eventually("the schedule has moved on", within: .seconds(120)) {
                    try await rig.number("select count(*) from pushq.schedule where next_at > now()") == 1
                }
                #expect(try await rig.number("select count(*) from pushq.campaign") == 1)
                let audit = try await rig.audit()
                audit.expectWhole()
                #expect(try await rig.number("select delivered from pushq.campaign_progress") == 4000)
                #expect(await other.drain() == .code(0))
            }
        }
    }
}
