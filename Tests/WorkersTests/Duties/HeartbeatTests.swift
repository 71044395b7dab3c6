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
}
