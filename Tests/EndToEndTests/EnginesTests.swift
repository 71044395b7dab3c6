import LocalStack
import TestSupport
import Testing

extension `Real processes` {
    @Suite struct `A worker of several engines` {
        /// The role may have one connection, which is the first engine's.
        @Test func `ends with the error of the engine that cannot start`() async throws {
            try await withRig { rig in
                let role = "one_connection"
                try await rig.run(
                    "create role \(role) login connection limit 1; grant pushq_worker to \(role)")
                let url = rig.postgres.connectionString(database: rig.database) + " user=\(role)"
                let worker = try rig.startWorker(database: url, ["--engines", "2", "--drain", "1s"])
                try await worker.says("started")
                #expect(await worker.process.waitForExit(within: .seconds(90)) == .code(1))
                #expect(worker.log.contains("too many connections for role"))
                try await rig.run("drop role \(role)")
            }
        }
    }
}
