import Foundation
import PostgresStore
import QueueCore
import TestSupport
import Testing

extension `Measured processes` {
    @Suite struct `A campaign's own rate` {
        private static let devices = 4000
        private static let rate = 100.0

        /// Two workers send a campaign at 100 a second, and another campaign in the same lane of the same queue.
        @Test func `holds across workers, is in nobody's way, and follows when it is changed`() async throws {
            try await withRig {
                $0.devices = Self.devices
                $0.rules = #"{"latency_ms": 20}"#
            } _: { rig in
                for _ in 0..<2 { try await rig.startWorker().says("started") }
                try await rig.startCampaign(key: "slow", options: ", max_rate => \(Self.rate)")
                try await eventually("the slow one to be under way", within: .seconds(60)) {
                    try await ended("slow", rig) > 20
                }
                try await rig.startCampaign(key: "fast")
                try await rig.run(
                    """
                    select pushq.send('\(rig.queue)', '{"aps":{"alert":"x"}}', array[encode(token, 'hex')])
                    from pushq.device limit 1
                    """)
                try await eventually("the others to end", within: .seconds(60)) {
                    let single = "select count(*) from pushq.result where lane = 1"
                    let hasSingle = try await rig.number(single) == 1
                    return try await ended("fast", rig) == Self.devices && hasSingle
                }
                // At this rate, so many take forty seconds.
                #expect(try await ended("slow", rig) < Self.devices / 2, "the others waited for it")
                try await expectLittleAhead(rig)
                try await eventually("a thousand at this rate", within: .seconds(60)) {
                    try await ended("slow", rig) > 1000
                }

                #expect(
                    try await rig.admin(["campaign", "set", "\(rig.queue)", "slow", "--max-rate", "600/min"]).code == 0)
                let changed = Int(Date().timeIntervalSince1970 * 1e6)
                let shown = try await rig.admin(["campaign", "show", "\(rig.queue)", "slow"])
                #expect(shown.output.contains(/max rate +10\n/), "\(shown.output)")
                let before = try await ended("slow", rig)
                try await eventually("some at the new rate", within: .seconds(60)) {
                    try await ended("slow", rig) >= before + 80
                }
                let lifted = Int(Date().timeIntervalSince1970 * 1e6)
                #expect(
                    try await rig.admin(["campaign", "set", "\(rig.queue)", "slow", "--max-rate", "none"]).code == 0)
                try await rig.waitUntilFinished()

                let root = try await rig.number("select id from pushq.campaign where key = 'slow'")
                let audit = try await rig.audit()
                audit.expectWhole()
                let record = try PushRecord(files: rig.recordFiles)
                let times = record.pushes.filter { $0.key.root == root }.values.flatMap { $0.map(\.at) }
                expectRates(times.sorted(), changedAt: changed, liftedAt: lifted)
            }
        }

        /// At this rate, a wave takes four seconds. The second wave is due an hour after the first.
        @Test func `holds in each wave of a campaign at a local time, and nobody gets it before that time`()
            async throws
        {
            try await withRig {
                $0.devices = 800
                $0.rules = #"{"latency_ms": 20}"#
                $0.sql = """
                    insert into pushq.profile (queue_id, device_id, time_zone)
                    select queue_id, id, case when (id >> 10) % 2 = 0 then 'UTC' else 'Etc/GMT+1' end from pushq.device
                    """
            } _: { rig in
                for _ in 0..<2 { try await rig.startWorker().says("started") }
                let time = Date.now.addingTimeInterval(-60).formatted(.iso8601).prefix(16)
                let started = try await rig.pushq(
                    [
                        "campaign", "\(rig.queue)", "--key", "local", "--payload", "-", "--audience", "all",
                        "--local-time", String(time), "--max-rate", "\(Int(Self.rate))",
                    ], input: #"{"aps":{"alert":"Good morning"}}"#)
                #expect(started.code == 0, "\(started.errors)")
                try await rig.waitUntilEnded(400)
                let passed = Int(Date().timeIntervalSince1970 * 1e6)
                try await rig.letAnHourPass()
                try await rig.waitUntilFinished()

                let audit = try await rig.audit()
                audit.expectWhole()
                let pushes = try PushRecord(files: rig.recordFiles).pushes
                for (zone, isDue) in [(0, { $0 < passed }), (1, { $0 > passed })] as [(Int64, (Int) -> Bool)] {
                    let times = pushes.filter { $0.key.key >> 10 & 1 == zone }.values.flatMap { $0.map(\.at) }.sorted()
                    #expect(times.count == 400 && times.allSatisfy(isDue), "at another time than in their zone")
                    expectPaced(times)
                }
            }
        }

        private func ended(_ key: String, _ rig: Rig) async throws -> Int {
            Int(try await rig.number("select total - waiting from pushq.campaign_progress where key = '\(key)'"))
        }

        /// Jobs have 200 recipients. Each worker holds what a second takes, and four to eight jobs are ready.
        private func expectLittleAhead(_ rig: Rig) async throws {
            let held = try await rig.number(
                "select coalesce(sum(recipient_count), 0) from pushq.lease where lane > 2")
            #expect(held <= 2 * 2 * 200, "\(held) in the hands of workers")
            let made = try await rig.number("select waiting from pushq.campaign_progress where key = 'slow'")
            #expect(made <= (8 + 4) * 200, "\(made) in jobs")
        }

        private func expectPaced(_ times: [Int]) {
            // A tenth is allowed for the burst. A permit may be used 100 ms late, and a busy machine may record an
            // arrival nearly a second late. If permits were used twice, there would be twice as many.
            let most = SimulatorRecord.maximumCount(of: times[...], within: 3_000_000)
            #expect(Double(most) <= 3 * Self.rate * 1.4, "\(most) in three seconds")
            let best = SimulatorRecord.maximumCount(of: times.dropFirst(50), within: 3_000_000)
            #expect(Double(best) >= 3 * Self.rate * 0.95, "\(best) in three seconds")
            guard let first = times.first, let last = times.last else { return }
            let all = Double(last - first) / 1e6
            #expect(Double(times.count) <= Self.rate * all + Self.rate * 0.3, "\(times.count) in \(all) s")
        }

        private func expectRates(_ times: [Int], changedAt changed: Int, liftedAt lifted: Int) {
            expectPaced(times.filter { $0 < changed })
            // The workers have five seconds to follow.
            let slowed = times.filter { $0 > changed + 5_000_000 && $0 < lifted }
            let slowest = SimulatorRecord.maximumCount(of: slowed[...], within: 1_000_000)
            #expect(slowest <= 14, "\(slowest) in a second at 10")
            // At least two and a half thousand recipients are left.
            let free = times.filter { $0 > lifted + 5_000_000 }
            let fastest = SimulatorRecord.maximumCount(of: times.filter { $0 > lifted }[...], within: 1_000_000)
            #expect(Double(fastest) > 3 * Self.rate, "\(fastest) in a second without a rate")
            #expect(free.count < 2000, "\(free.count) came later than five seconds")
        }
    }
}
