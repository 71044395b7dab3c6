import Glibc
import LocalStack
import PostgresStore
import TestSupport
import Testing

extension `Measured processes` {
    @Suite struct `A worker that is stopped and woken` {
        /// A fingerprint of everything that is recorded.
        private static let recorded = """
            select sum(hashtextextended(x::text, 0) / 1000000) from (
              select queue_id, job_id, outcomes::text from pushq.result
              union all select queue_id, campaign_id, (delivered, rejected, failed, unknown)::text from pushq.campaign_tally) x
            """

        @Test func `past its lease, changes nothing and sends nothing`() async throws {
            try await withRig {
                $0.devices = 4000
                $0.simulatorArguments = ["--streams", "25"]
                $0.rules = #"{"latency_ms": 100}"#
            } _: { rig in
                let sleeper = try rig.startWorker()
                try rig.startWorker()
                for worker in rig.workers { try await worker.says("started") }
                let workerID = try await rig.workerID(of: sleeper)
                try await rig.startCampaign()
                try await rig.waitUntilEnded(500)
                // Statements that it has sent before it is stopped could end its jobs. They pass over locked leases.
                let keeper = try await rig.session()
                defer { keeper.close() }
                try await eventually("leases of the one to be stopped") {
                    try await keeper.runScript("begin")
                    if try await keeper.execute(.lockLeases, [.int8(workerID)]).count > 0 { return true }
                    try await keeper.runScript("rollback")
                    return false
                }
                sleeper.process.signal(SIGSTOP)
                try await eventually("its leases to expire") {
                    try await rig.number(
                        """
                        select count(*) from pushq.lease
                        where worker_id = \(workerID) and deadline > clock_timestamp()
                        """) == 0
                }
                try await keeper.runScript("commit")
                try await rig.waitUntilFinished()

                let before = try await rig.number(Self.recorded)
                let arrived = try rig.arrivalCount()
                sleeper.process.signal(SIGCONT)
                try await sleeper.says("leases_lost")
                #expect(await sleeper.drain() == .code(0))
                #expect(try await rig.number(Self.recorded) == before)
                let audit = try await rig.audit()
                // At most one turn of its loop, out of the hundreds of pushes that it held.
                let late = try rig.arrivalCount() - arrived
                #expect(late <= 100, "the one that was woken sent \(late)")
                audit.expectWhole(inHand: late)
                #expect(audit.recorded == 4000)
            }
        }
    }
}

extension Statement {
    fileprivate static let lockLeases = Statement(
        "lock_leases", "select from pushq.lease where worker_id = $1 for update skip locked")
}
