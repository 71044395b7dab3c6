import LocalStack
import PostgresStore
import TestSupport
import Testing

extension `Real processes that send campaigns` {
    @Suite struct `A worker that is killed over the binary interface` {
        @Test func `loses nobody, and repeats no more than it held`() async throws {
            try await withRig {
                $0.devices = 6000
                $0.isBinary = true
                $0.rules = #"{"outcomes": [{"share": 0.005, "reason": "BadDeviceToken"}]}"#
            } _: { rig in
                let doomed = try rig.startWorker()
                try rig.startWorker()
                for worker in rig.workers { try await worker.says("started") }
                let workerID = try await rig.workerID(of: doomed)
                try await rig.startCampaign()
                try await rig.waitUntilEnded(500)
                await doomed.kill()
                // Recipients of these jobs without an outcome may have been sent to, and are sent to again.
                let held = try await rig.number(
                    "select sum(recipient_count) from pushq.lease where worker_id = \(workerID)")
                try await rig.waitUntilFinished()

                let counted = "select sum(delivered + rejected) from pushq.campaign_progress"
                #expect(try await rig.number(counted) == 6000)
                #expect(try await rig.number("select sum(rejected) from pushq.campaign_progress") > 0)
                let arrivals = try rig.arrivalCount()
                #expect(arrivals >= 6000)
                #expect(arrivals <= 6000 + Int(held))
            }
        }

        @Test func `between reading the feedback service's list and acting on it loses nothing`() async throws {
            try await withRig {
                $0.devices = 500
                $0.isBinary = true
                $0.rules = #"{"outcomes": [{"share": 0.1, "reason": "Unregistered"}]}"#
            } _: { rig in
                // A worker that starts has only these duties at first: reading the list and acting on it.
                let onlyFeedback = """
                    update pushq.duty set worker_id = null, deadline = null,
                      next_at = now() + case when name in ('feedback', 'reports') then interval '0' else interval '1 minute' end
                    """
                // The worker that sends must not poll for the list.
                try await rig.run(
                    """
                    insert into pushq.feedback_poll (queue_id, not_before)
                    select id, now() + interval '1 hour' from pushq.queue
                    """)
                let sender = try rig.startWorker()
                try await rig.startCampaign()
                try await rig.waitUntilFinished()
                #expect(await sender.drain() == .code(0))

                // Acting on the list needs this table; storing the list does not.
                let neighbour = try await rig.session()
                try await neighbour.runScript("begin; lock table pushq.feedback")
                try await rig.run("delete from pushq.feedback_poll")
                try await rig.run(onlyFeedback)
                let doomed = try rig.startWorker()
                try await eventually("the list, written down", within: .seconds(30)) {
                    try await rig.number("select count(*) from pushq.feedback_record") > 20
                }
                await doomed.kill()
                let kept = try await rig.number("select count(*) from pushq.feedback_record")
                #expect(try await rig.number("select count(*) from pushq.device where not active") == 0)
                // The lost worker's session still waits for a lock. What it waits for must not be done afterwards.
                try await rig.run(
                    """
                    select pg_terminate_backend(pid) from pg_stat_activity
                    where datname = current_database() and wait_event_type = 'Lock'
                    """)
                try await neighbour.runScript("rollback")
                neighbour.close()

                // The lease of the lost worker's duty would expire only after some minutes.
                try await rig.run(onlyFeedback)
                try rig.startWorker()
                try await eventually("the devices, deactivated", within: .seconds(30)) {
                    try await rig.number("select count(*) from pushq.device where not active") == kept
                }
                #expect(try await rig.number("select count(*) from pushq.feedback_record") == 0)
                #expect(
                    try await rig.number("select count(*) from pushq.feedback where verdict = 'deactivated'") == kept)
            }
        }
    }
}
