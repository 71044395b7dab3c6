import Foundation
import QueueCore
import TestSupport
import Testing

extension `Measured processes` {
    @Suite struct `Orders to a campaign` {
        /// The allowed time on a quiet machine: a second, and another one because the command itself takes a while.
        private static let limit = 2.0

        @Test func `take effect within a second, across workers`() async throws {
            try await withRig {
                $0.devices = 40_000
                $0.rules = #"{"latency_ms": 100}"#
            } _: { rig in
                for _ in 0..<2 { try await rig.startWorker().says("started") }
                let stopwatch = Stopwatch()
                try await rig.startCampaign(options: ", max_rate => 1500")
                try await eventually("it to be under way", within: .seconds(60)) { try await rig.ended() > 500 }

                let paused = try await order("pause", rig)
                try await Self.quiet(rig)
                let resumed = try await order("resume", rig)
                let before = try await rig.ended()
                try await eventually("it to go on", within: .seconds(60)) { try await rig.ended() > before + 1500 }
                let cancelled = try await order("cancel", rig)
                try await rig.waitUntilFinished()
                let limit = Self.limit * stopwatch.slowdown

                // A busy machine may let a lease expire. Recipients that this leaves uncertain are not cancelled.
                let audit = try await rig.audit(Audit.Expectation().ending(.cancelled, .unknown))
                audit.expectWhole()
                let times = try PushRecord(files: rig.recordFiles).arrivals
                let late = times.last { $0 < resumed.before }!
                #expect(Self.seconds(paused.after, late) < limit, "the last push after the pause")
                let first = try #require(times.first { $0 > resumed.before })
                #expect(Self.seconds(resumed.after, first) < limit, "the first push after the resumption")
                #expect(Self.seconds(cancelled.after, times.last!) < limit, "the last push after the cancellation")
            }
        }

        private static func seconds(_ from: Int, _ to: Int) -> Double { Double(to - from) / 1e6 }

        /// Returns the times before and after the order was given.
        private func order(_ order: String, _ rig: Rig) async throws -> (before: Int, after: Int) {
            let before = Int(Date().timeIntervalSince1970 * 1e6)
            let confirmation = order == "cancel" ? ["--yes"] : []
            let ended = try await rig.admin(["campaign", order, "\(rig.queue)", "campaign"] + confirmation)
            #expect(ended.code == 0, "\(ended.errors)")
            return (before, Int(Date().timeIntervalSince1970 * 1e6))
        }

        /// Waits until workers hold nothing, and checks for two seconds that nothing more arrives.
        private static func quiet(_ rig: Rig) async throws {
            try await eventually("all jobs to be back", within: .seconds(30)) {
                try await rig.number("select count(*) from pushq.lease") == 0
            }
            let before = try rig.arrivalCount()
            try await stays("nothing more comes", for: .seconds(2)) { try rig.arrivalCount() == before }
        }
    }
}
