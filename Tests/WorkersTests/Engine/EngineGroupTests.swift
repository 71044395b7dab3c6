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

    @Test func `go on if another takes the place of the one that fails`() async throws {
        try await EngineFixture.run { _, fixture in
            let make: @Sendable (DatabaseAddress) -> Engine = {
                [settings = fixture.settings, keys = fixture.masterKeys, events = fixture.events] address in
                Engine(settings: settings, database: address, masterKeys: keys) { events.append($0) }
            }
            let (missing, there) = (try await TestServer.address(database: "not_there"), fixture.database.address)
            let group = EngineGroup([make(missing)])
            let running = Task.detached {
                try await group.run(successor: { _, error in error is PostgresError ? make(there) : nil })
            }
            try await eventually("the other one to start", within: .seconds(60)) { fixture.events.contains("started") }
            await group.drain()
            try await running.value
        }
    }
}
