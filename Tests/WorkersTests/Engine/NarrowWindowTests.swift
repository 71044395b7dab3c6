import APNsSimulator
import PostgresStore
import TestSupport
import Testing

@testable import Workers

@Suite(.timeLimit(.minutes(10))) struct `A server that gives a connection little credit` {
    /// Sixteen bodies of 4 KB use up what HTTP/2 begins with, and the rest of the campaign waits for credit.
    @Test func `gets a large campaign whole, and a push beside it`() async throws {
        try await EngineFixture.run { configuration in
            configuration.connectionWindowSize = 65_535
            configuration.rules.latency = .milliseconds(1) ... .milliseconds(20)
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 2000)
            try await fixture.withEngine { _ in
                let payload = #"{"aps":{"alert":"\#(String(repeating: "a", count: 4000))"}}"#
                try await fixture.connection.runScript(
                    """
                    select pushq.start_campaign('\(queue)', 'large', '\(payload)');
                    select pushq.send('\(queue)', '\(payload)', array[repeat('00ff', 16)], urgent => true)
                    """)
                try await fixture.waitForCampaigns(within: .seconds(60))
                #expect(try await fixture.progress(key: "large")["delivered"] == 2000)
                try await eventually("the push beside it", within: .seconds(30)) {
                    await fixture.simulator.snapshot().accepted == 2001
                }
            }
            #expect(await fixture.simulator.snapshot().distinct == 2001)
        }
    }
}
