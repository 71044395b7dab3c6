import PostgresStore
import TestSupport
import Testing
import Transport

@testable import Workers

@Suite(.timeLimit(.minutes(10))) struct `The engines of one process` {
    @Test func `end with the error of the one that cannot start`() async throws {
        try await EngineFixture.run { _, fixture in
            let addresses = [
                fixture.database.address, try await TestServer.address(database: "not_there"),
            ]
            let crew = EngineGroup(
                addresses.map { address in
                    Engine(settings: fixture.settings, database: address, masterKeys: fixture.masterKeys) {
                        [events = fixture.events] in events.append($0)
                    }
                })
            await #expect(throws: PostgresError.self) { try await crew.run() }
            // The other engine may have been told to end before it connected.
            #expect(fixture.events.contains("stopped after 0 requests"))
        }
    }
}
