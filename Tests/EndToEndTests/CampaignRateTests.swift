import Foundation
import PostgresStore
import QueueCore
import TestSupport
import Testing

extension `Measured processes` {
    @Suite struct `A campaign's own rate` {
        private static let devices = 4000
        private static let rate = 100.0
        /// Of the simulator's answers, in milliseconds. Some are due all the time, and show how late it is.
        private static let latency = 20
        private static let rules = #"{"latency_ms": \#(latency)}"#

        /// Two workers send a campaign at 100 a second, and another campaign in the same lane of the same queue.
        @Test func `holds across workers, is in nobody's way, and follows when it is changed`() async throws {
            try await withRig {
                $0.devices = Self.devices
                $0.rules = Self.rules
                $0.sql = PermitRecord.keeping
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
                // At this rate, all of them take forty seconds.
                #expect(try await ended("slow", rig) < Self.devices * 3 / 4, "the others waited for it")
                try await expectLittleAhead(rig)
                try await eventually("fifteen hundred at this rate", within: .seconds(60)) {
                    try await ended("slow", rig) > 1500
                }

                #expect(
                    try await rig.admin(["campaign", "set", "\(rig.queue)", "slow", "--max-rate", "600/min"]).code == 0)
                let changed = Self.now
                let shown = try await rig.admin(["campaign", "show", "\(rig.queue)", "slow"])
                #expect(shown.output.contains(/max rate +10\n/), "\(shown.output)")
                let before = try await ended("slow", rig)
                try await eventually("some at the new rate", within: .seconds(60)) {
                    try await ended("slow", rig) >= before + 80
                }
                let lifted = Self.now
                let left = try await Self.devices - ended("slow", rig)
                let stopwatch = Stopwatch()
                #expect(
                    try await rig.admin(["campaign", "set", "\(rig.queue)", "slow", "--max-rate", "none"]).code == 0)
                try await rig.waitUntilFinished()
                // The workers have five seconds to follow.
                let limit = Duration.seconds(5 + Double(left) / Self.rate / 3)
                #expect(stopwatch.quietTime < limit, "\(left) pushes without a rate")

                let audit = try await rig.audit()
                audit.expectWhole()
                let root = try await rig.number("select id from pushq.campaign where key = 'slow'")
                let times = try arrivals(rig) { $0.root == root }
                let permits = try await PermitRecord(from: rig.store.current()).times { $0.campaignID == root }
                try expectWithinRate(times.filter { $0 < lifted }, permits, rig)
                let reached = PacedArrivals.reached(Self.rate, by: times.filter { $0 < changed })
                #expect(reached >= 0.9, "in the best three seconds")
                // A worker holds permits for a quarter of a second.
                let slowed = permits.filter { $0 > changed + 300_000 }
                let slowest = SimulatorRecord.maximumCount(of: slowed[...], within: 1_000_000)
                #expect(!slowed.isEmpty && slowest <= 12, "\(slowest) permits in a second at 10")
            }
        }

        /// At this rate, a wave takes six seconds. The second wave is due an hour after the first.
        @Test func `holds in each wave of a campaign at a local time, and nobody gets it before that time`()
            async throws
        {
            try await withRig {
                $0.devices = 1200
                $0.rules = Self.rules
                $0.sql = """
                    \(PermitRecord.keeping)
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
                try await rig.waitUntilEnded(600)
                let passed = Self.now
                try await rig.letAnHourPass()
                try await rig.waitUntilFinished()

                let audit = try await rig.audit()
                audit.expectWhole()
                let permits = try await PermitRecord(from: rig.store.current()).times()
                try expectWithinRate(try arrivals(rig) { _ in true }, permits, rig)
                for (zone, isDue) in [(0, { $0 < passed }), (1, { $0 > passed })] as [(Int64, (Int) -> Bool)] {
                    let times = try arrivals(rig) { $0.key >> 10 & 1 == zone }
                    #expect(times.count == 600 && times.allSatisfy(isDue), "at another time than in their zone")
                    // A wave is too short to wait for three seconds in which a busy machine has nothing else to do.
                    let reached = PacedArrivals.reached(Self.rate, by: times)
                    #expect(reached >= 0.7, "in the best three seconds of a wave")
                }
            }
        }

        private static var now: Int { Int(Date().timeIntervalSince1970 * 1e6) }

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

        /// The times of the arrivals of some pushes, ascending, in microseconds since 1970.
        private func arrivals(_ rig: Rig, where isMeant: (APNsID) -> Bool) throws -> [Int] {
            try PushRecord(files: rig.recordFiles).pushes.filter { isMeant($0.key) }.values.flatMap { $0.map(\.at) }
                .sorted()
        }

        private func expectWithinRate(_ times: [Int], _ permits: [Int], _ rig: Rig) throws {
            let record = try SimulatorRecord(path: rig.recordFiles[0])
            PacedArrivals(
                rate: Self.rate, burst: Self.rate / 10, permits: permits, arrivals: times,
                delay: record.longestDelay(beyond: Self.latency * 1000)
            ).expectWithinRate()
        }
    }
}
