import Glibc
import LocalStack
import TestSupport
import Testing

extension `Real processes that send campaigns` {
    @Suite struct `Removing a tenant that a worker serves` {
        @Test func `stops its pushes and nobody else's, survives being killed, and leaves nothing`() async throws {
            try await withRig {
                $0.devices = 200_000
                $0.hasNeighbour = true
            } _: { rig in
                let worker = try rig.startWorker()
                try await worker.says("started")
                try await rig.startCampaign()
                try await rig.waitUntilEnded(1000)
                let environment = ["PUSHQ_DATABASE_URL": rig.postgres.connectionString(database: rig.database)]
                let words = ["tenant", "remove", "acme"]
                let asked = try await Executable.admin.run(words, environment: environment)
                #expect(asked.code == 1)
                #expect(
                    asked.errors.contains(
                        "this deletes acme with 1 queue, 1 credential, at least 100,000 devices and "),
                    "\(asked.errors)")
                #expect(asked.errors.contains("; nothing was changed: pass --yes"), "\(asked.errors)")

                // Killed as soon as some devices are gone.
                let first = try rig.reaper.start(
                    Executable.admin.command(
                        words + ["--yes"], environment: environment, output: "\(rig.folder)/remove.out",
                        errors: "\(rig.folder)/remove.log"))
                try await eventually("some devices are gone", within: .seconds(60)) {
                    try await rig.number("select count(*) from (select from pushq.device limit 200000) d") < 200_000
                }
                first.signal(SIGKILL)
                _ = await first.waitForExit()
                #expect(try await rig.number("select count(*) from pushq.tenant where name = 'acme'") == 0)

                let again = try await Executable.admin.run(words + ["--yes"], environment: environment)
                #expect(again.code == 0, "\(again.errors)")
                #expect(
                    try await rig.number("select count(*) from pushq.queue q join pushq.device d on d.queue_id = q.id")
                        == 0)
                for table in ["device", "job", "lease", "campaign", "body", "message", "result"] {
                    #expect(try await rig.number("select count(*) from pushq.\(table)") == 0, "\(table)")
                }
                let over = try await Executable.admin.run(words + ["--yes"], environment: environment)
                #expect(over.code == 1)
                #expect(over.errors.contains("there is no tenant acme"), "\(over.errors) \(over.output)")

                // The worker still serves the other tenant.
                let sent = try rig.arrivalCount()
                try await rig.run(
                    #"select pushq.send('\#(rig.neighbour)', '{"aps":{"alert":"neighbour"}}', tokens => array[repeat('01', 32)])"#
                )
                try await eventually("the neighbour's outcome", within: .seconds(30)) {
                    try await rig.number("select sum(delivered) from pushq.result") == 1
                }
                #expect(try rig.arrivalCount() == sent + 1)
                let log = worker.log
                #expect(!log.contains("error") && !log.contains("failed"), "\(log)")
            }
        }
    }
}
