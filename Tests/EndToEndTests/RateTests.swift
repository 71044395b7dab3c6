import Foundation
import Glibc
import LocalStack
import PostgresStore
import TestSupport
import Testing

extension `Measured processes` {
    @Suite struct `A queue's rate across processes` {
        private static let rate = 250.0
        private static let jobs = 10
        private static let recipientsOfJob = 380
        /// Of the simulator's answers, in milliseconds. Some are due all the time, and show how late it is.
        private static let latency = 20

        /// Workers claim five jobs at a time here, so two workers have all of the work. The third finds only later
        /// jobs.
        @Test func `holds with one worker stopped for a while and one with little to do`() async throws {
            try await withRig {
                $0.devices = Self.jobs * Self.recipientsOfJob + 100
                $0.rules = #"{"latency_ms": \#(Self.latency)}"#
                $0.sql = """
                    \(PermitRecord.keeping)
                    insert into pushq.rate_limit (tenant_id, queue_id, rate, burst)
                    select tenant_id, id, \(Self.rate), \(Self.rate) / 10 from pushq.queue where id = $queue
                    """
            } _: { rig in
                for _ in 0..<2 { try await rig.startWorker().says("started") }
                let workers = [try await rig.workerID(of: rig.workers[0]), try await rig.workerID(of: rig.workers[1])]
                try await send(Self.jobs * Self.recipientsOfJob, in: rig)
                try await eventually("both hold jobs") {
                    let sql =
                        "select count(distinct worker_id) from pushq.lease where worker_id = any ('{\(workers[0]),\(workers[1])}')"
                    return try await rig.number(sql) == 2
                }
                let idler = try rig.startWorker()
                try await idler.says("started")
                try await trickle(4, in: rig)
                let stopped = now
                rig.workers[0].process.signal(SIGSTOP)
                // Longer than its lease and the grace, so the other workers take over its jobs.
                try await eventually("the stopped worker's jobs are put back", within: .seconds(20)) {
                    try await rig.number("select count(*) from pushq.lease where worker_id = \(workers[0])") == 0
                }
                let woken = now
                rig.workers[0].process.signal(SIGCONT)
                try await trickle(4, in: rig)
                let total = Self.jobs * Self.recipientsOfJob + 8
                try await eventually("all outcomes", within: .seconds(60)) {
                    try await rig.number("select sum(recipients) from (\(Self.endedSQL)) x") == Int64(total)
                }
                let audit = try await rig.audit()
                // No more permits can be used at one moment than a tenth of a second brings.
                audit.expectWhole(inHand: Int(Self.rate / 10))
                #expect(audit.recorded == total)
                let permits = try await PermitRecord(from: rig.store.current()).times()
                try expectRate(try SimulatorRecord(path: rig.recordFiles[0]), permits, stopped: stopped...woken)
            }
        }

        private static let endedSQL =
            "select delivered + rejected + failed + suppressed + expired + cancelled + unknown as recipients from pushq.result"

        private var now: Int { Int(Date().timeIntervalSince1970 * 1e6) }

        /// - Parameter stopped: the time in which one of the workers was stopped.
        private func expectRate(_ record: SimulatorRecord, _ permits: [Int], stopped: ClosedRange<Int>) throws {
            let times = record.arrivals
            PacedArrivals(
                rate: Self.rate, burst: Self.rate / 10, permits: permits, arrivals: times,
                delay: record.longestDelay(beyond: Self.latency * 1000)
            ).expectWithinRate()
            // A worker that is delayed by a busy machine lets permits lapse, so the best three seconds count. If the
            // stopped worker kept permits, or the one with little to do, a third or half would be missing.
            for (time, part) in [("all the time", times), ("the stop", times.filter(stopped.contains))] {
                let reached = PacedArrivals.reached(Self.rate, by: part)
                #expect(reached >= 0.8, "\(reached) of the rate in the best three seconds of \(time)")
            }
        }

        /// Sends to the first `count` devices, one job after the other.
        private func send(_ count: Int, in rig: Rig) async throws {
            try await rig.run(
                """
                select pushq.send('\(rig.queue)', '{"aps":{"alert":"x"}}', tokens => t)
                from (select array_agg(encode(token, 'hex')) as t
                      from (select token, row_number() over (order by id) - 1 as n from pushq.device) d
                      where n < \(count) group by n / \(Self.recipientsOfJob)) s
                """)
        }

        /// Sends to single devices, one after the other. Only a worker with room claims these jobs.
        private func trickle(_ count: Int, in rig: Rig) async throws {
            for _ in 0..<count {
                let root = try await rig.number(
                    """
                    select pushq.send('\(rig.queue)', '{"aps":{"alert":"x"}}', tokens => array[encode(token, 'hex')])
                    from (select token from pushq.device order by random() limit 1) d
                    """)
                try await eventually("the push is claimed", within: .seconds(30)) {
                    try await rig.number("select count(*) from pushq.job where root_id = \(root)") == 0
                }
            }
        }
    }
}
