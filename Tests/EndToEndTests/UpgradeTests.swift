import Foundation
import LocalStack
import TestSupport
import Testing

@testable import PostgresStore

extension `Real processes with databases of their own` {
    /// The schema is migrated first, and the workers are replaced afterwards.
    @Suite struct `Workers of the version before` {
        /// A migration of a future version: a column of a table that every claim reads and writes.
        private static let column = Migration(
            name: "9001_column",
            sql: "alter table pushq.job add column note text; alter table pushq.lease add column note text")

        /// The functions of a future version: those that workers call under load have another text.
        private static let definitions = Definition.all.map { definition in
            ["functions/fan_out_step", "functions/ready_work", "functions/bring_message"].contains(definition.name)
                ? Definition(name: definition.name, sql: definition.sql + "\n-- Of the next version.\n") : definition
        }

        @Test func `go on while the schema gets a column and functions change, and nobody is lost or sent to twice`()
            async throws
        {
            try await withRig {
                $0.devices = 20_000
                $0.simulatorArguments = ["--streams", "50"]
            } _: { rig in
                for _ in 0..<2 { try rig.startWorker() }
                for worker in rig.workers { try await worker.says("started") }
                try await rig.startCampaign()
                try await rig.waitUntilEnded(3000)

                let session = try await rig.session()
                defer { session.close() }
                let migrator = Migrator(session, Migration.all + [Self.column], Self.definitions)
                let report = try await migrator.run()
                #expect(report.applied == ["9001_column"])
                #expect(report.definitions.count == 3)
                // The migration came in the middle of the work.
                #expect(try await rig.ended() < 20_000)

                try await rig.waitUntilFinished()
                for worker in rig.workers {
                    #expect(!worker.log.contains("refused"), "\(worker.log)")
                    #expect(await worker.drain() == .code(0))
                }
                let audit = try await rig.audit(.clean)
                audit.expectWhole()
                #expect(audit.sent == 20_000)
            }
        }

        /// What a migration changes, and what takes it back. The second one takes away what heartbeats write.
        @Test(arguments: [
            ("create table pushq.next (n int)", "drop table pushq.next"),
            (
                "alter table pushq.worker rename faults to former_faults",
                "alter table pushq.worker rename former_faults to faults"
            ),
        ])
        func `drain and end where a migration says that older workers must stop, and so do those that start`(
            change: String, back: String
        ) async throws {
            try await withRig {
                $0.devices = 8000
                // Much of the campaign is still to be sent when the worker notices.
                $0.sql =
                    "insert into pushq.rate_limit (tenant_id, queue_id, rate, burst) select tenant_id, id, 400, 1 from pushq.queue where id = $queue"
            } _: { rig in
                let worker = try rig.startWorker()
                try await worker.says("started")
                try await rig.startCampaign()
                try await rig.waitUntilEnded(100)

                let session = try await rig.session()
                defer { session.close() }
                let stopping = Migration(name: "9001_stop", sql: "\(Migration.directive)\n\(change)")
                _ = try await Migrator(session, Migration.all + [stopping], Definition.all).run()

                let line = "this worker is older than the schema, and migration 9001_stop stops older workers"
                #expect(await worker.process.waitForExit(within: .seconds(60)) == .code(1))
                try await worker.says(line)
                #expect(worker.log.contains("draining"))
                let other = try rig.startWorker()
                #expect(await other.process.waitForExit(within: .seconds(60)) == .code(1))
                try await other.says(line)
                // The other worker had not started.
                #expect(!other.log.contains("started"))

                // The jobs that the worker held wait for a worker of the next version.
                #expect(try await rig.number("select count(*) from pushq.lease") == 0)
                #expect(try await rig.number("select sum(recipient_count) from pushq.job") > 0)
                try await rig.run(
                    "delete from pushq.migration where version = 9001; delete from pushq.rate_limit; \(back)")
                try rig.startWorker()
                try await rig.waitUntilFinished()
                let audit = try await rig.audit(.clean)
                audit.expectWhole()
                #expect(audit.sent == 8000)
            }
        }

        @Test func `do not start on a schema that lacks a migration of theirs`() async throws {
            try await withRig {
                $0.devices = 1
            } _: { rig in
                let last = try #require(Migration.all.last)
                try await rig.run("delete from pushq.migration where version = \(last.version)")
                let worker = try rig.startWorker()
                #expect(await worker.process.waitForExit(within: .seconds(60)) == .code(1))
                try await worker.says(
                    "the schema is older than this worker (it lacks migration \(last.name)): run pushq-admin migrate")
            }
        }
    }
}

extension Audit.Expectation {
    /// No recipient may be sent to twice.
    fileprivate static var clean: Self {
        var expectation = Self()
        expectation.isClean = true
        return expectation
    }
}
