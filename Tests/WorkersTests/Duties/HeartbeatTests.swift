import PostgresStore
import TestSupport
import Testing

@testable import Workers

@Suite(.timeLimit(.minutes(10))) struct `A worker's heartbeat` {
    @Test func `keeps the time of its start when others have taken it for lost and deleted its row`() async throws {
        try await EngineFixture.run { _, fixture in
            let milliseconds = "select max(extract(epoch from started_at) * 1000) from pushq.worker"
            try await fixture.withEngine { _ in
                try await eventually("its first heartbeat") { try await fixture.number(milliseconds) > 0 }
                let first = try await fixture.number(milliseconds)
                try await fixture.connection.runScript("delete from pushq.worker")
                try await eventually("another heartbeat") { try await fixture.number(milliseconds) > 0 }
                let again = try await fixture.number(milliseconds)
                // Heartbeats are five seconds apart.
                #expect(abs(again - first) < 3000)
            }
        }
    }

    @Test(arguments: [
        "alter table pushq.worker rename faults to former_faults", "revoke update on pushq.worker from pushq_worker",
    ])
    func `learns of a migration that stops the worker, though it can no longer be written`(change: String) async throws
    {
        try await EngineFixture.run { _, fixture in
            let engine = Engine(
                settings: fixture.settings, database: try await fixture.database.workerAddress,
                masterKeys: fixture.masterKeys, report: { [events = fixture.events] in events.append($0) })
            let group = EngineGroup([engine])
            let running = Task.detached { try await group.run() }
            try await eventually("its first heartbeat", within: .seconds(30)) {
                try await fixture.number("select count(*) from pushq.worker") == 1
            }
            try await fixture.connection.runScript(
                """
                begin;
                \(change);
                insert into pushq.migration (version, name, checksum, stops_older_workers)
                values (9001, '9001_stop', sha256(''), true);
                commit
                """)
            try await eventually("it to drain", within: .seconds(60)) { fixture.events.contains("draining") }
            let error = await #expect(throws: EngineError.self) { try await running.value }
            let line = "this worker is older than the schema, and migration 9001_stop stops older workers"
            #expect(error?.description.hasPrefix(line) == true, "\(error as Any)")
        }
    }
}
