import QueueCore
import TestSupport
import Testing

extension `Real processes` {
    /// What an operator reads after stopping a campaign, compared with what has arrived.
    @Suite struct `The counts of a stopped campaign` {
        @Test(arguments: [
            ["campaign", "pause", "QUEUE", "campaign"], ["queue", "pause", "QUEUE"], ["tenant", "suspend", "TENANT"],
        ])
        func `are those of the pushes that APNs has accepted, and never go back`(order: [String]) async throws {
            try await withRig {
                $0.devices = 1300
                $0.rules = #"{"latency_ms": 40}"#
            } _: { rig in
                func words(_ order: [String]) -> [String] {
                    order.map { $0 == "QUEUE" ? "\(rig.queue)" : $0 == "TENANT" ? rig.queue.tenant : $0 }
                }
                let worker = try rig.startWorker()
                try await worker.says("started")
                try await rig.startCampaign(options: ", max_rate => 150")
                // No job of 500 recipients has ended by then.
                try await eventually("pushes to arrive", within: .seconds(60)) { try rig.arrivalCount() >= 200 }
                #expect(try await rig.admin(words(order)).code == 0)
                try await eventually("all jobs to be back", within: .seconds(30)) {
                    try await rig.number("select count(*) from pushq.lease") == 0
                }
                let delivered = "select delivered from pushq.campaign_progress"
                let arrived = try PushRecord(files: rig.recordFiles).pushes.count
                #expect(try await rig.number(delivered) == arrived)
                #expect(try await rig.number("select waiting from pushq.campaign_progress") == 1300 - arrived)

                let back = order.map { ["pause": "resume", "suspend": "resume"][$0] ?? $0 }
                #expect(try await rig.admin(words(back)).code == 0)
                var last = Int64(arrived)
                try await eventually("it to end, with counts that only grow", within: .seconds(120)) {
                    let count = try await rig.number(delivered)
                    #expect(count >= last)
                    last = count
                    return try await rig.number("select count(*) from pushq.campaign_progress where finished") == 1
                }
                #expect(try await rig.number(delivered) == 1300)
                try await rig.audit().expectWhole()
            }
        }
    }
}
