import Glibc
import LocalStack
import TestSupport
import Testing

extension `Real processes that send campaigns` {
    @Suite struct `A worker that is told to stop` {
        @Test(arguments: [false, true])
        func `drains: sends nothing twice, gives the rest back with its attempt, and exits with 0`(
            isSentAtMostOnce: Bool
        ) async throws {
            try await withRig {
                $0.devices = 4000
                $0.rules = #"{"latency_ms": 100}"#
                $0.simulatorArguments = ["--streams", "25"]
            } _: { rig in
                let first = try rig.startWorker()
                try await rig.startCampaign(options: isSentAtMostOnce ? ", at_most_once => true" : "")
                try await rig.waitUntilEnded(1000)
                #expect(await first.drain() == .code(0))
                #expect(try await rig.number("select count(*) from pushq.lease") == 0)
                #expect(try await rig.number("select sum(waiting) from pushq.campaign_progress") > 0)
                #expect(try await rig.number("select count(*) from pushq.job where attempt <> 1 or losses <> 0") == 0)

                let second = try rig.startWorker()
                try await rig.waitUntilFinished()
                #expect(await second.drain() == .code(0))
                var expectation = Audit.Expectation()
                expectation.isClean = true
                let audit = try await rig.audit(expectation)
                audit.expectWhole()
                #expect(audit.recorded == 4000)
                #expect(try await rig.number("select sum(unknown) from pushq.campaign_progress") == 0)
            }
        }

        @Test func `by the end of its terminal drains, also if that is told to it twice`() async throws {
            try await expectDrain { worker in
                worker.process.signal(SIGHUP)
                try await worker.says("draining")
                worker.process.signal(SIGHUP)
            }
        }

        /// `timeout`, and each supervisor that signals a process and its group, sends two signals within microseconds.
        @Test func `twice at the same moment, drains`() async throws {
            try await expectDrain { worker in
                worker.process.signal(SIGTERM)
                usleep(1000)
                worker.process.signal(SIGTERM)
                worker.process.signal(SIGINT)
            }
        }

        /// Starts a worker, tells it to stop while a push is in flight, and expects that it drains.
        private func expectDrain(whenTold tell: @escaping @Sendable (WorkerProcess) async throws -> Void) async throws {
            try await withRig {
                $0.devices = 50
                $0.rules = #"{"latency_ms": 3000}"#
            } _: { rig in
                let worker = try rig.startWorker()
                try await rig.startCampaign()
                try await eventually("a push in flight") { try rig.arrivalCount() > 0 }
                try await tell(worker)
                #expect(await worker.process.waitForExit(within: .seconds(30)) == .code(0))
                #expect(!worker.log.contains("ended_at_once"))
                #expect(try await rig.number("select count(*) from pushq.lease") == 0)
                #expect(try await rig.number("select count(*) from pushq.job where attempt <> 1 or losses <> 0") == 0)
            }
        }

        @Test func `again, later, ends at once`() async throws {
            try await withRig {
                $0.devices = 50
                $0.rules = #"{"latency_ms": 60000}"#
            } _: { rig in
                let worker = try rig.startWorker()
                try await rig.startCampaign()
                // With nothing in flight, the worker would end before the second signal.
                try await eventually("a push in flight") { try rig.arrivalCount() > 0 }
                worker.process.signal(SIGTERM)
                try await worker.says("draining")
                // The drain itself would take 25 seconds, and end with code 0.
                try await eventually("it ends", within: .seconds(15)) {
                    worker.process.signal(SIGTERM)
                    return worker.process.exit != nil
                }
                #expect(worker.process.exit == .code(1))
                #expect(worker.log.contains("ended_at_once"))
            }
        }
    }
}
