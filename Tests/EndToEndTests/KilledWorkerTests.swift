import Foundation
import Glibc
import LocalStack
import TestSupport
import Testing

extension `Real processes that send campaigns` {
    @Suite struct `A worker that is killed` {
        private static let rules = """
            {"latency_ms": 40, "outcomes": [
                {"share": 0.02, "reason": "Unregistered"}, {"share": 0.02, "reason": "BadDeviceToken"},
                {"probability": 0.02, "reason": "TooManyRequests"}]}
            """

        @Test func `loses nobody, and only what no flush had written is sent again`() async throws {
            try await withRig {
                $0.devices = 10_000
                $0.rules = Self.rules
                $0.simulatorArguments = ["--streams", "25"]
            } _: { rig in
                let doomed = try rig.startWorker()
                try rig.startWorker()
                for worker in rig.workers { try await worker.says("started") }
                let workerID = try await rig.workerID(of: doomed)
                try await rig.startCampaign()
                try await rig.waitUntilEnded(4000)
                await doomed.kill()

                #expect(try await rig.number("select count(*) from pushq.lease where worker_id = \(workerID)") > 0)
                try await rig.waitUntilFinished()

                let audit = try await rig.audit()
                audit.expectWhole()
                #expect(audit.recorded == 10_000)
                #expect(audit.sent == 10_000)
                // Less than a second's pushes. If whole jobs were sent again, there would be more.
                #expect(audit.bound < 3000)
                let settled = try await rig.number("select sum(delivered + rejected) from pushq.campaign_progress")
                #expect(settled == 10_000)
            }
        }
    }
}
