import APNs
import APNsSimulator
import Cryptography
import Foundation
import PostgresStore
import QueueCore
import TestSupport
import Testing

@testable import Workers

/// How a running worker uses provider tokens. SharedTokenTests test how old they get.
@Suite(.timeLimit(.minutes(10))) struct `The provider tokens of a running worker` {
    /// Lets a worker mint a token, and dates it `age` ago.
    private func mintToken(_ age: String, _ fixture: EngineFixture, _ queue: QueueName) async throws {
        try await fixture.withEngine { _ in
            try await fixture.startCampaign(queue, key: "first")
            try await fixture.waitForCampaigns()
        }
        try await fixture.connection.runScript(
            "update pushq.provider_token set issued_at = issued_at - interval '\(age)'")
    }

    private static let newTokens =
        "select count(*) from pushq.provider_token where issued_at > now() - interval '10 minutes'"

    @Test
    func `are renewed once when APNs calls one expired to a hundred in flight, which are all sent again`()
        async throws
    {
        try await EngineFixture.run { configuration in
            configuration.tokenUpdateInterval = .zero
            configuration.streamLimitBeforeToken = 1000
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 100, settings: "update pushq.queue set connections = 1")
            try await mintToken("25 minutes", fixture, queue)
            // The refusals come in many bursts, most of them long after the first.
            let expired = OutcomeRule(.refuse(.init(.expiredProviderToken)), times: 1)
            await fixture.simulator.use(
                Rules(latency: .milliseconds(50) ... .milliseconds(1500), outcomes: [expired]))
            let before = await fixture.simulator.snapshot()
            try await fixture.withEngine { settings in
                settings.connections.stableTime = .zero
            } _: { _ in
                try await fixture.startCampaign(queue)
                try await fixture.waitForCampaigns()
            }
            let progress = try await fixture.progress()
            #expect(progress["delivered"] == 100)
            #expect(progress["retried"] == 0, "no attempt was spent")
            let seen = await fixture.simulator.snapshot()
            #expect(seen.refused == ["ExpiredProviderToken": 100])
            #expect(seen.connections - before.connections == 2, "one, and the one in its place")
            #expect(try await fixture.number(Self.newTokens) == 1)
            // A second renewal would find a young token, and report a wrong clock.
            #expect(!fixture.events.contains("correct the clock"))
        }
    }

    @Test func `are changed when they are 45 minutes old, on the connections there are`() async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 5)
            try await mintToken("44 minutes 58 seconds", fixture, queue)
            let before = await fixture.simulator.snapshot()
            try await fixture.withEngine { settings in
                settings.tokenPoll = .milliseconds(100)
            } _: { _ in
                try await fixture.startCampaign(queue, key: "with the old one")
                try await fixture.waitForCampaigns()
                try await eventually("the next token", within: .seconds(30)) {
                    try await fixture.number(Self.newTokens) == 1
                }
                #expect(await fixture.simulator.snapshot().refused.isEmpty)
                #expect(await fixture.simulator.snapshot().connections == before.connections + 1)
                // By the simulator's clock the second token comes too soon. Its refusal shows that the worker uses the
                // token.
                try await eventually("it to be used") {
                    try await fixture.startCampaign(queue, key: "\(ContinuousClock.now)")
                    return await fixture.simulator.snapshot().refused["TooManyProviderTokenUpdates"] ?? 0 > 0
                }
            }
            #expect(try await fixture.number("select count(*) from pushq.provider_token") == 1)
        }
    }

    @Test func `of two teams never share a connection`() async throws {
        let otherKey = try PrivateKey.makeP256()
        let publicKey = try otherKey.publicKey()
        try await EngineFixture.run { configuration in
            configuration.signingKeys = [
                SigningKey(keyID: "OTHERKEY01", teamID: "OTHERTEAM1", publicKey: publicKey)
            ]
        } _: { _, fixture in
            let ours = try await fixture.makeQueue(devices: 300)
            let theirs = try await fixture.makeQueue(tenant: "other", app: "com.other", devices: 300)
            try await fixture.addCredential(
                theirs, named: "key", key: otherKey, keyID: "OTHERKEY01", teamID: "OTHERTEAM1")
            try await fixture.connection.runScript("update pushq.queue set connections = 1")
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(ours, key: "ours")
                try await fixture.startCampaign(theirs, key: "theirs")
                try await fixture.waitForCampaigns()
            }
            // Like APNs, the simulator refuses a team on a connection that began with another team.
            let seen = await fixture.simulator.snapshot()
            #expect(seen.refused.isEmpty)
            #expect(seen.accepted == 600)
            #expect(seen.connections == 2)
            #expect(try await fixture.number("select count(*) from pushq.provider_token") == 2)
        }
    }

    @Test func `of two keys of one team never share a connection, which would not tell them apart`() async throws {
        let otherKey = try PrivateKey.makeP256()
        let publicKey = try otherKey.publicKey()
        try await EngineFixture.run { configuration in
            configuration.signingKeys = [
                SigningKey(keyID: "OTHERKEY01", teamID: TestAuthority.teamID, publicKey: publicKey)
            ]
        } _: { _, fixture in
            let first = try await fixture.makeQueue(devices: 300)
            let second = try await fixture.makeQueue(app: "com.other", devices: 300)
            try await fixture.addCredential(
                second, named: "key", key: otherKey, keyID: "OTHERKEY01", teamID: TestAuthority.teamID)
            try await fixture.connection.runScript("update pushq.queue set connections = 2")
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(first, key: "first")
                try await fixture.startCampaign(second, key: "second")
                try await fixture.waitForCampaigns()
            }
            let seen = await fixture.simulator.snapshot()
            #expect(seen.refused.isEmpty)
            #expect(seen.accepted == 600)
            #expect(2...4 ~= seen.connections, "at most two for each key")
        }
    }

    @Test func `of two tenants who hold the same key never share a connection`() async throws {
        try await EngineFixture.run { configuration in
            configuration.rules.outcomes = [OutcomeRule(.silence, topic: "com.acme")]
        } _: { _, fixture in
            let ours = try await fixture.makeQueue(devices: 30)
            let theirs = try await fixture.makeQueue(tenant: "other", app: "com.other", devices: 30)
            try await fixture.connection.runScript("update pushq.queue set connections = 1")
            try await fixture.withEngine { _ in
                // These pushes get no answer, and take all streams of their connection.
                try await fixture.startCampaign(ours, key: "ours")
                try await eventually("our pushes") { await fixture.simulator.snapshot().topics["com.acme"] ?? 0 > 0 }
                try await fixture.startCampaign(theirs, key: "theirs")
                try await eventually("theirs", within: .seconds(20)) {
                    await fixture.simulator.snapshot().accepted == 30
                }
            }
            #expect(await fixture.simulator.snapshot().connections == 2)
            #expect(try await fixture.number("select count(*) from pushq.provider_token") == 1)
        }
    }

    @Test func `are not needed with a certificate, and two tenants who hold the same one share no connection`()
        async throws
    {
        let file = FileManager.default.temporaryDirectory.appending(path: "pushq-\(UUID().uuidString).ndjson").path
        defer { try? FileManager.default.removeItem(atPath: file) }
        try await EngineFixture.run { configuration in
            configuration.recordFile = file
        } _: { _, fixture in
            let ours = try await fixture.makeQueue(devices: 300, usesCertificate: true)
            // The simulator's authority issues one certificate for an app.
            let theirs = try await fixture.makeQueue(tenant: "other", devices: 300, usesCertificate: true)
            try await fixture.connection.runScript("update pushq.queue set connections = 1")
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(ours, key: "ours")
                try await fixture.startCampaign(theirs, key: "theirs")
                try await fixture.waitForCampaigns()
            }
            let seen = await fixture.simulator.snapshot()
            #expect(seen.refused.isEmpty)
            #expect(seen.accepted == 600)
            #expect(seen.connections == 2)
            await fixture.simulator.flushRecord()
            var campaigns: [Int: Set<Substring>] = [:]
            for event in try SimulatorRecord(path: file).events where event.event == "arrived" {
                // The first digits of an apns-id identify the campaign.
                campaigns[event.connection ?? 0, default: []].insert(event.apnsID?.prefix(18) ?? "")
            }
            #expect(campaigns.count == 2)
            #expect(campaigns.values.allSatisfy { $0.count == 1 }, "\(campaigns)")
        }
    }
}
