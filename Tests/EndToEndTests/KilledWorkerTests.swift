import Foundation
import Glibc
import LocalStack
import QueueCore
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

        /// A job of ten seconds, most of which is over when the worker is killed.
        @Test func `in the middle of a long job has written down most of what it has sent`() async throws {
            try await withRig {
                $0.devices = 500
            } _: { rig in
                // In a queue that has a rate already, a job has no more recipients than two seconds allow.
                try await rig.run(
                    """
                    select pushq.send('\(rig.queue)', '{"aps":{"alert":"x"}}', array_agg(encode(token, 'hex')))
                    from pushq.device;
                    insert into pushq.rate_limit (tenant_id, queue_id, rate, burst)
                    select tenant_id, id, 50, 5 from pushq.queue where id = (select pushq.queue_id('\(rig.queue)'));
                    """)
                #expect(try await rig.number("select count(*) from pushq.job where recipient_count = 500") == 1)
                let doomed = try rig.startWorker()
                try await eventually("350 arrivals", within: .seconds(60)) { try rig.arrivalCount() >= 350 }
                await doomed.kill()
                try rig.startWorker()
                let left = "select (select count(*) from pushq.job) + (select count(*) from pushq.lease)"
                try await eventually("the end of the job", within: .seconds(60)) { try await rig.number(left) == 0 }

                let audit = try await rig.audit()
                audit.expectWhole()
                #expect(audit.recorded == 500)
                // A worker that wrote down nothing until the end of a job would have all 350 sent again.
                #expect(audit.repeated < 175)
            }
        }

        @Test func `has nothing sent again that may be sent once`() async throws {
            try await withRig {
                $0.devices = 4000
                $0.rules = #"{"latency_ms": 100}"#
                $0.simulatorArguments = ["--streams", "25"]
            } _: { rig in
                let doomed = try rig.startWorker()
                try await rig.startCampaign(options: ", at_most_once => true")
                try await eventually("500 arrivals", within: .seconds(60)) { try rig.arrivalCount() > 500 }
                await doomed.kill()
                let unended = try await rig.number(
                    "select (select count(*) from pushq.job) + (select count(*) from pushq.lease)")
                try rig.startWorker()
                try await rig.waitUntilFinished()

                let audit = try await rig.audit(Audit.Expectation().ending(.unknown))
                audit.expectWhole()
                let record = try PushRecord(files: rig.recordFiles)
                #expect(record.pushes.values.allSatisfy { $0.count == 1 })
                let unknown = try await rig.number("select sum(unknown) from pushq.campaign_progress")
                #expect(unknown > 0, "nothing was in flight")
                // Nobody knows whether a recipient below a job's watermark was sent to, and the watermark may be 100
                // ahead of the sending (`EngineSettings.atMostOnceWindow`). The simulator knows to whom nothing came.
                // Up to 200 more were in a turn of the worker's loop, or in sockets that its death has reset.
                let neverSent = 4000 - audit.sent
                #expect(neverSent <= Int(unended) * 100 + 200, "of \(unended) jobs")
                #expect(unended <= 8)
                #expect(try await rig.number("select sum(delivered) from pushq.campaign_progress") == 4000 - unknown)
            }
        }
    }
}
