import LocalStack
import QueueCore
import TestSupport
import Testing

extension `Measured processes` {
    @Suite struct `A tenant that is suspended under way` {
        private func admin(_ words: String..., of rig: Rig) async throws -> Executable.Ended {
            let url = rig.postgres.connectionString(database: rig.database)
            return try await Executable.admin.run(words, environment: ["PUSHQ_DATABASE_URL": url])
        }

        @Test
        func `sends nothing more within 5 seconds, and goes on when it is resumed, with every recipient accounted for`()
            async throws
        {
            let devices = 3000
            try await withRig {
                $0.devices = devices
                $0.hasNeighbour = true
                $0.sql = """
                    insert into pushq.rate_limit (tenant_id, queue_id, rate, burst)
                    select tenant_id, id, 400, 40 from pushq.queue where id = $queue
                    """
            } _: { rig in
                try await rig.startWorker().says("started")
                try await rig.startCampaign()
                // These become due while the tenant is suspended, and must be sent before it is resumed.
                let late = ", start_at => now() + interval '30 seconds', send_by => now() + interval '35 seconds'"
                try await rig.startCampaign(key: "late", options: late)
                try await rig.run(
                    """
                    select pushq.send('\(rig.queue)', '{"aps":{"alert":"late"}}', tokens => array['00ff'],
                                      run_at => now() + interval '30 seconds', send_by => now() + interval '35 seconds')
                    """)
                try await rig.waitUntilEnded(400)
                #expect(try await admin("tenant", "suspend", "acme", of: rig).code == 0)
                try await rig.workers[0].says("queue_is_paused", within: .seconds(5))
                try await eventually("what it held to be back", within: .seconds(5)) {
                    try await rig.number("select count(*) from pushq.lease") == 0
                }
                let sent = try rig.arrivalCount()
                #expect(sent < devices, "it was over too soon to be suspended")

                let refused = try await Executable.pushq.run(
                    ["send", "\(rig.queue)", "--token", "00ff", "--alert", "hi"],
                    environment: ["PUSHQ_DATABASE_URL": rig.postgres.connectionString(database: rig.database)])
                #expect(refused.code == 1)
                #expect(
                    refused.errors.contains("tenant “acme” is suspended; an operator can resume it with: "),
                    "\(refused.errors)")

                // Meanwhile another tenant's push arrives, and none of the suspended tenant's.
                try await rig.run(
                    """
                    select pushq.send('\(rig.neighbour)', '{"aps":{"alert":"neighbour"}}', tokens => array['0001'])
                    """)
                try await eventually("the neighbour's push", within: .seconds(30)) { try rig.arrivalCount() > sent }
                try await eventually("the time to send the rest is over", within: .seconds(60)) {
                    try await rig.number("select count(*) from pushq.fan_out where send_by < now()") == 1
                }
                #expect(try rig.arrivalCount() == sent + 1)

                #expect(try await admin("tenant", "resume", "acme", of: rig).code == 0)
                try await rig.waitUntilFinished()
                try await eventually("the end of the sends", within: .seconds(60)) {
                    try await rig.number("select count(*) from pushq.result where lane = 1") == 2
                }
                let counts = { (what: String, key: String) in
                    try await rig.number("select \(what) from pushq.campaign_progress where key = '\(key)'")
                }
                #expect(try await counts("delivered", "campaign") == Int64(devices))
                // By then, the token of the single send is a device.
                #expect(try await counts("expired", "late") == Int64(devices + 1))
                #expect(try await rig.number("select sum(expired) from pushq.result where lane = 1") == 1)
                let audit = try await rig.audit(Audit.Expectation().ending(.expired))
                audit.expectWhole()
                #expect(try rig.arrivalCount() == devices + 1)
            }
        }
    }

    @Suite struct `A tenant with quotas` {
        @Test func `has what it uses counted by a worker`() async throws {
            try await withRig {
                $0.devices = 10
                $0.sql = "insert into pushq.tenant_quota (tenant_id, max_devices) select id, 12 from pushq.tenant"
            } _: { rig in
                try rig.startWorker()
                try await eventually("the first count", within: .seconds(60)) {
                    try await rig.number("select max(devices) from pushq.tenant_usage where counted_at is not null")
                        == 10
                }
                try await rig.run("select pushq.register_device('\(rig.queue)', '00f1')")
                try await eventually("the next count", within: .seconds(60)) {
                    try await rig.number("select max(devices) from pushq.tenant_usage") == 11
                }
                let url = rig.postgres.connectionString(database: rig.database)
                let shown = try await Executable.admin.run(
                    ["tenant", "show", "acme"], environment: ["PUSHQ_DATABASE_URL": url])
                #expect(shown.output.contains(/devices +11\nmax devices +12\n/), "\(shown.output)")
            }
        }
    }
}
