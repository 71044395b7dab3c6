import Glibc
import LocalStack
import TestSupport
import Testing

extension `Real processes` {
    @Suite struct `A worker of several engines` {
        /// The role may have three connections. One engine gets two of them and the other too few, until an operator
        /// allows more.
        @Test func `says what keeps an engine from starting, and starts it when that is over`() async throws {
            try await withRig { rig in
                let role = "three_connections"
                try await rig.run(
                    "create role \(role) login connection limit 3; grant pushq_worker to \(role)")
                let url = rig.postgres.connectionString(database: rig.database) + " user=\(role)"
                let worker = try rig.startWorker(database: url, ["--engines", "2", "--drain", "1s"])
                try await worker.says("started")
                try await worker.says("too many connections for role")
                try await rig.run("alter role \(role) connection limit -1")
                try await eventually("both engines to start", within: .seconds(90)) {
                    worker.log.split(separator: "\n").count { $0.contains("started as") } == 2
                }
                worker.process.signal(SIGTERM)
                #expect(await worker.process.waitForExit(within: .seconds(90)) == .code(0))
                try await rig.run("drop role \(role)")
            }
        }
    }
}
