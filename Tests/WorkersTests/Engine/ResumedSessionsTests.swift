import APNs
import APNsSimulator
import PostgresStore
import QueueCore
import TestSupport
import Testing

@testable import Workers

@Suite(.timeLimit(.minutes(10))) struct `The TLS sessions of a worker` {
    /// With tokens, both tenants have the same signing key. With certificates, each tenant has its own.
    @Test(arguments: [false, true]) func `are resumed by the tenant that they are of, and by no other`(
        usesCertificate: Bool
    ) async throws {
        try await EngineFixture.run { _, fixture in
            var queues: [QueueName] = []
            for (tenant, app) in [("acme", "com.acme.one"), ("other", "com.other.one")] {
                queues.append(
                    try await fixture.makeQueue(
                        tenant: tenant, app: app, devices: 1, usesCertificate: usesCertificate,
                        settings: "update pushq.queue set connections = 1"))
            }
            try await fixture.withEngine { settings in
                settings.connections.backoff = Backoff(base: .milliseconds(20), cap: .milliseconds(200))
                settings.connections.stableTime = .zero
            } _: { _ in
                for round in 1...3 {
                    for (number, queue) in queues.enumerated() {
                        let key = "\(round) of \(number)"
                        try await fixture.startCampaign(queue, key: key)
                        try await eventually("the end of \(key)") {
                            try await fixture.progress(key: key)["delivered"] == 1
                        }
                    }
                    let seen = await fixture.simulator.snapshot()
                    #expect(seen.fullHandshakes == 2)
                    #expect(seen.resumedHandshakes == 2 * (round - 1))
                    await fixture.simulator.dropConnections()
                }
            }
        }
    }
}
