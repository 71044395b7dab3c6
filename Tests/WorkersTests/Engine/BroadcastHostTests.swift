import APNs
import APNsSimulator
import Cryptography
import Foundation
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@testable import Workers

/// The separate host for broadcasts that the samples on Apple's pages name, but its page on connections does not.
@Suite(.timeLimit(.minutes(10))) struct `A host for broadcasts` {
    /// Runs a test with a queue of a few devices, a second simulator for broadcasts with the same signing key, and a
    /// channel that the second simulator and the queue know.
    private func withBroadcastHost(
        _ body: @escaping @Sendable (EngineFixture, QueueName, Simulator, ChannelID) async throws -> Void
    ) async throws {
        try await EngineFixture.run { actor, fixture in
            let queue = try await fixture.makeQueue(devices: 20)
            let host = try await fixture.startSecondSimulator()
            do {
                let settings = try await fixture.connection.queueSettings(named: queue)
                let credential = try await HTTP2Gateway.Credential.opening(
                    try #require(settings?.credential), under: fixture.masterKeys, over: fixture.database.address,
                    on: actor.loop)
                let client = ChannelClient(
                    app: queue.app, endpoint: try fixture.endpoint(of: host, port: try #require(host.managementPort)),
                    credential: credential, loop: actor.loop)
                let channel = try await client.create(.none)
                client.close()
                try await fixture.connection.registerChannel(channel, policy: .none, inQueue: queue)
                try await body(fixture, queue, host, channel)
            } catch {
                await host.stop()
                throw error
            }
            await host.stop()
        }
    }

    private func broadcast(to channel: ChannelID, _ fixture: EngineFixture, _ queue: QueueName) async throws -> Int64 {
        let payload = #"{"aps":{"timestamp":1,"event":"update","content-state":{}}}"#
        return try await fixture.connection.broadcast(
            BroadcastDraft(payload: payload, expiration: 0), to: channel, ofQueue: queue, key: nil)
    }

    private func tally(of root: Int64, _ fixture: EngineFixture, _ queue: QueueName) async throws -> OutcomeTally {
        let progress = try await eventually("the end of the broadcast", within: .seconds(30)) {
            try await fixture.connection.progress(ofRoot: root, inQueue: queue)
        } until: {
            $0?.isFinished == true
        }
        return try #require(progress).tally
    }

    @Test func `gets them, and devices are pushed to where they always were, with the same provider token`()
        async throws
    {
        try await withBroadcastHost { fixture, queue, host, channel in
            let endpoint = try fixture.endpoint(of: host, port: host.port)
            try await fixture.withEngine { settings in
                settings.broadcastEndpoint = endpoint
            } _: { _ in
                try await fixture.startCampaign(queue)
                let root = try await broadcast(to: channel, fixture, queue)
                #expect(try await tally(of: root, fixture, queue).delivered == 1)
                try await fixture.waitForCampaigns()
            }
            #expect(try await fixture.progress()["delivered"] == 20)
            let (devices, broadcasts) = (await fixture.simulator.snapshot(), await host.snapshot())
            #expect(devices.accepted == 20)
            #expect(devices.arrived == 20)
            #expect(broadcasts.accepted == 1)
            #expect(broadcasts.arrived == 1)
            #expect(try await fixture.number("select count(*) from pushq.provider_token") == 1)
        }
    }

    @Test func `that is out of reach keeps broadcasts alone waiting, of which the newest goes out afterwards`()
        async throws
    {
        try await withBroadcastHost { fixture, queue, host, channel in
            let first = try await broadcast(to: channel, fixture, queue)
            let (wrong, right) = (
                try fixture.endpoint(of: host, port: try Loopback.freePort()),
                try fixture.endpoint(of: host, port: host.port)
            )
            try await fixture.withEngine { settings in
                settings.broadcastEndpoint = wrong
                settings.connections.backoff = Backoff(base: .seconds(20), cap: .seconds(20))
            } _: { _ in
                try await eventually("it to be said") {
                    fixture.events.contains("APNs is out of reach for acme/com.acme")
                }
                let waiting = "select count(*) from pushq.job where run_at > now()"
                try await eventually(
                    "the broadcast to go back", { try await fixture.number(waiting) }, until: { $0 == 1 })
                try await fixture.startCampaign(queue)
                try await fixture.waitForCampaigns()
                #expect(try await fixture.progress()["delivered"] == 20)
            }
            let newest = try await broadcast(to: channel, fixture, queue)
            try await fixture.connection.runScript("update pushq.job set run_at = now()")
            try await fixture.withEngine { settings in
                settings.broadcastEndpoint = right
            } _: { _ in
                let ended = try await tally(of: newest, fixture, queue)
                #expect(ended.delivered == 1)
            }
            let superseded = try await tally(of: first, fixture, queue)
            #expect(superseded.suppressed == 1)
            #expect(superseded.retried == 0)
            #expect(await host.snapshot().arrived == 1)
        }
    }

    @Test func `that refuses the credential pauses the queue`() async throws {
        try await withBroadcastHost { fixture, queue, host, channel in
            await host.use(Rules(outcomes: [OutcomeRule(.refuse(.init(.invalidProviderToken)))]))
            let endpoint = try fixture.endpoint(of: host, port: host.port)
            try await fixture.withEngine { settings in
                settings.broadcastEndpoint = endpoint
            } _: { _ in
                _ = try await broadcast(to: channel, fixture, queue)
                try await eventually("the queue to pause") {
                    try await fixture.connection.queues(of: nil).first?.pausedReason?
                        .contains("InvalidProviderToken") == true
                }
            }
            #expect(try await fixture.number("select count(*) from pushq.job where attempt = 1") == 1)
        }
    }
}

extension EngineFixture {
    /// A second simulator, with the certificates and keys of the first, and with channels.
    func startSecondSimulator() async throws -> Simulator {
        let folder = URL(filePath: simulator.authority.caFile).deletingLastPathComponent().path
        var configuration = SimulatorConfiguration(folder: folder)
        configuration.environment = .sandbox
        configuration.managementPort = 0
        return try await Simulator.start(configuration)
    }

    /// The endpoint of a simulator's port on this machine.
    func endpoint(of simulator: Simulator, port: UInt16) throws -> Endpoint {
        Endpoint(
            host: "127.0.0.1", port: port, authorities: try TrustStore(adding: [simulator.authority.certificate]))
    }
}
