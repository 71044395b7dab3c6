import APNsSimulator
import PostgresStore
import QueueCore
import TestSupport
import Testing

@testable import Workers

@Suite(.timeLimit(.minutes(10))) struct `The connections of a tenant` {
    /// Each queue has a credential of its own, and would therefore have connections of its own.
    @Test func `stay within its limit while it is lowered and lifted under load, and nothing is lost`() async throws {
        try await EngineFixture.run { configuration in
            configuration.rules.latency = .milliseconds(50) ... .milliseconds(50)
            configuration.streamLimit = 10
        } _: { _, fixture in
            var queues: [QueueName] = []
            for number in 1...3 {
                queues.append(
                    try await fixture.makeQueue(
                        app: "com.app\(number)", devices: 2000, usesCertificate: true,
                        settings: "update pushq.queue set connections = 1"))
            }
            // One connection, like the other queues: with late answers, the gateway would try a second one.
            let other = try await fixture.makeQueue(
                tenant: "other", app: "com.other", devices: 20, usesCertificate: true,
                settings: "update pushq.queue set connections = 1")
            try await fixture.withEngine { _ in
                for queue in queues { try await fixture.startCampaign(queue, key: "long") }
                try await eventually("a connection for each queue") {
                    await fixture.simulator.snapshot().openConnections == 3
                }
                var change = TenantChange()
                change.connections = .limit(1)
                #expect(try await fixture.connection.setTenant("acme", to: change))
                try await eventually("two to give way", within: .seconds(30)) {
                    await fixture.simulator.snapshot().openConnections == 1
                }
                // The other tenant's connection is allowed in addition.
                try await fixture.startCampaign(other, key: "short")
                try await eventually("the other tenant's end", within: .seconds(30)) {
                    #expect(await fixture.simulator.snapshot().openConnections <= 2)
                    return try await fixture.progress(key: "short")["delivered"] == 20
                }
                change.connections = Quota.none
                #expect(try await fixture.connection.setTenant("acme", to: change))
                try await eventually("all to have theirs again", within: .seconds(30)) {
                    await fixture.simulator.snapshot().openConnections == 4
                }
                try await fixture.waitForCampaigns(within: .seconds(120))
            }
            let seen = await fixture.simulator.snapshot()
            #expect(seen.accepted == 6020)
            #expect(seen.repeated == 0)
        }
    }
}
