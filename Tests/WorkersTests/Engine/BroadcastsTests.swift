import APNs
import APNsSimulator
import Cryptography
import Glibc
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@testable import Workers

@Suite(.timeLimit(.minutes(10))) struct `Broadcasts to channels` {
    private static let update = #"{"aps":{"timestamp":1,"event":"update","content-state":{}}}"#

    /// Runs a test with a queue, and a client for its channels with the engine's credential.
    private func withChannels(
        _ body: @escaping @Sendable (EngineFixture, QueueName, ChannelClient) async throws -> Void
    ) async throws {
        try await EngineFixture.run {
            $0.managementPort = 0
        } _: { actor, fixture in
            let queue = try await fixture.makeQueue(devices: 1)
            let settings = try await fixture.connection.queueSettings(named: queue)
            let credential = try await HTTP2Gateway.Credential.opening(
                try #require(settings?.credential), under: fixture.masterKeys, over: fixture.database.address,
                on: actor.loop)
            let endpoint = Endpoint(
                host: "127.0.0.1", port: fixture.simulator.managementPort ?? 0,
                authorities: try TrustStore(adding: [fixture.simulator.authority.certificate]))
            let client = ChannelClient(app: queue.app, endpoint: endpoint, credential: credential, loop: actor.loop)
            try await body(fixture, queue, client)
            client.close()
        }
    }

    /// Creates a channel that Apple and the queue know.
    private func makeChannel(
        _ fixture: EngineFixture, _ queue: QueueName, _ client: ChannelClient, policy: ChannelPolicy = .none
    ) async throws -> ChannelID {
        let channel = try await client.create(policy)
        try await fixture.connection.registerChannel(channel, policy: policy, inQueue: queue)
        return channel
    }

    private func broadcast(
        to channel: ChannelID, expiration: Int64 = 0, _ fixture: EngineFixture, _ queue: QueueName
    ) async throws -> Int64 {
        let draft = BroadcastDraft(payload: Self.update, expiration: expiration)
        return try await fixture.connection.broadcast(draft, to: channel, ofQueue: queue, key: nil)
    }

    /// Waits until a broadcast has ended, and returns its tally.
    private func tally(of root: Int64, _ fixture: EngineFixture, _ queue: QueueName) async throws -> OutcomeTally {
        let progress = try await eventually("the end of the broadcast", within: .seconds(30)) {
            try await fixture.connection.progress(ofRoot: root, inQueue: queue)
        } until: {
            $0?.isFinished == true
        }
        return try #require(progress).tally
    }

    @Test func `are delivered, with the provider token that made the channel`() async throws {
        try await withChannels { fixture, queue, client in
            let quiet = try await makeChannel(fixture, queue, client)
            let kept = try await makeChannel(fixture, queue, client, policy: .latest)
            try await fixture.withEngine { _ in
                let roots = [
                    try await broadcast(to: quiet, fixture, queue),
                    try await broadcast(to: kept, expiration: 4_102_444_800, fixture, queue),
                ]
                for root in roots { #expect(try await tally(of: root, fixture, queue).delivered == 1) }
            }
            let snapshot = await fixture.simulator.snapshot()
            // A second token within 20 minutes would have been refused.
            #expect(snapshot.refused.isEmpty)
            #expect(snapshot.topics == ["com.acme": 2])
            #expect(try await fixture.number("select count(*) from pushq.provider_token") == 1)
        }
    }

    @Test func `are delivered although each claim takes longer than an update is held`() async throws {
        try await withChannels { fixture, queue, client in
            let channel = try await makeChannel(fixture, queue, client)
            let proxy = try await DatabaseProxy { message in
                if message.statementName?.hasPrefix("pushq_claim_") == true { usleep(300_000) }
                return .pass
            }
            defer { proxy.close() }
            let address = try DatabaseAddress(
                url: proxy.connectionString(database: fixture.database.name, user: TestServer.workerLogin),
                environment: [:])
            try await fixture.withEngine(over: address) { _ in
                let tally = try await tally(of: try await broadcast(to: channel, fixture, queue), fixture, queue)
                #expect(tally.delivered == 1)
            }
        }
    }

    @Test func `are sent again after a transient refusal, under the same request ID`() async throws {
        try await withChannels { fixture, queue, client in
            let channel = try await makeChannel(fixture, queue, client)
            await fixture.simulator.use(
                Rules(outcomes: [OutcomeRule(.refuse(.init(.serviceUnavailable)), channel: channel.text, times: 2)]))
            try await fixture.withEngine { _ in
                let tally = try await tally(of: try await broadcast(to: channel, fixture, queue), fixture, queue)
                #expect(tally.delivered == 1)
                #expect(tally.retried == 2)
            }
            let snapshot = await fixture.simulator.snapshot()
            #expect(snapshot.arrived == 3)
            #expect(snapshot.distinct == 1)
            #expect(snapshot.repeated == 0)
        }
    }

    @Test func `retire a channel that APNs does not know, and no device`() async throws {
        try await withChannels { fixture, queue, client in
            let channel = try await makeChannel(fixture, queue, client)
            try await client.delete(channel)
            try await fixture.withEngine { _ in
                let tally = try await tally(of: try await broadcast(to: channel, fixture, queue), fixture, queue)
                #expect(tally.rejected == 1)
            }
            let stored = try await fixture.connection.channels(ofQueue: queue)
            #expect(stored.map(\.retiredReason) == [.named("ChannelNotRegistered")])
            await #expect(throws: PostgresError.self) { try await broadcast(to: channel, fixture, queue) }
            #expect(try await fixture.number("select count(*) from pushq.device where not active") == 0)
            #expect(try await fixture.number("select count(*) from pushq.queue where paused_at is not null") == 0)
        }
    }

    @Test func `wait on a throttled channel alone, and only the newest is sent`() async throws {
        try await withChannels { fixture, queue, client in
            let slow = try await makeChannel(fixture, queue, client)
            let other = try await makeChannel(fixture, queue, client)
            let answer = OutcomeRule.Answer(.tooManyRequests, retryAfter: "600")
            await fixture.simulator.use(Rules(outcomes: [OutcomeRule(.refuse(answer), channel: slow.text, times: 1)]))
            try await fixture.withEngine { _ in
                let first = try await broadcast(to: slow, fixture, queue)
                let throttled = "select count(*) from pushq.channel where throttled_until > now()"
                try await eventually(
                    "the channel is throttled", { try await fixture.number(throttled) }, until: { $0 == 1 })
                let newest = try await broadcast(to: slow, fixture, queue)
                // No other push waits for the slow channel.
                let beside = try await tally(of: try await broadcast(to: other, fixture, queue), fixture, queue)
                #expect(beside.delivered == 1)
                try await fixture.startCampaign(queue)
                try await fixture.waitForCampaigns()
                #expect(try await fixture.progress()["delivered"] == 1)
                let late = "select count(*) from pushq.job where run_at > now() + interval '5 minutes'"
                #expect(try await fixture.number(late) == 2)

                try await fixture.connection.runScript("update pushq.job set run_at = now(); select pushq.wake()")
                #expect(try await tally(of: newest, fixture, queue).delivered == 1)
                let superseded = try await tally(of: first, fixture, queue)
                #expect(superseded.suppressed == 1)
                #expect(superseded.retried == 1)
            }
        }
    }

    @Test func `of many throttled channels delay no device`() async throws {
        try await withChannels { fixture, queue, client in
            var channels: [ChannelID] = []
            for _ in 0..<20 { channels.append(try await makeChannel(fixture, queue, client)) }
            let answer = OutcomeRule.Answer(.tooManyRequests, retryAfter: "600")
            await fixture.simulator.use(
                Rules(outcomes: channels.map { OutcomeRule(.refuse(answer), channel: $0.text) }))
            try await fixture.withEngine { _ in
                let throttled = "select count(*) from pushq.channel where throttled_until > now()"
                // The refusals take more than a second, as long as those of an outage.
                for (place, channel) in channels.enumerated() {
                    _ = try await broadcast(to: channel, fixture, queue)
                    try await eventually(
                        "the channel is throttled", { try await fixture.number(throttled) }, until: { $0 == place + 1 })
                    try await Task.sleep(for: .milliseconds(60))
                }
                #expect(!fixture.events.contains("APNs currently answers"), "\(fixture.events.all)")
                try await fixture.startCampaign(queue)
                try await fixture.waitForCampaigns()
                #expect(try await fixture.progress()["delivered"] == 1)
            }
        }
    }
}
