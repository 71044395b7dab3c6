import APNsSimulator
import Foundation
import Testing

/// Apple, "Sending broadcast push notification requests to APNs".
@Suite(.timeLimit(.minutes(10))) struct `A broadcast to the simulator` {
    private static let path = "/4/broadcasts/apps/com.example.App"

    /// The channels of a test: one with each policy.
    private struct Channels {
        let none: String
        let latest: String
    }

    /// Runs `body` with a client of the API port, and channels that were created at the port for channels.
    private func withChannels(
        _ configuration: SimulatorConfiguration = configured(),
        _ body: @escaping @Sendable (PushClient, Channels, Simulator) async throws -> Void
    ) async throws {
        var configuration = configuration
        configuration.managementPort = 0
        try await withSimulator(configuration) { simulator in
            let identity = try simulator.identity()
            let channels = try await PushClient.with(
                simulator, port: simulator.managementPort, identity: identity
            ) { client in
                var made: [String] = []
                for policy in 0...1 {
                    let body = #"{"message-storage-policy":\#(policy),"push-type":"LiveActivity"}"#
                    let answer = await client.answer(
                        to: client.write(path: "/1/apps/com.example.App/channels", [], body: body))
                    made.append(try #require(answer?.fields["apns-channel-id"]))
                }
                return Channels(none: made[0], latest: made[1])
            }
            try await PushClient.with(simulator, identity: identity) { client in
                try await body(client, channels, simulator)
            }
        }
    }

    /// Sends a broadcast with valid fields, except those in `fields`; nil omits a field.
    private func broadcast(
        _ client: PushClient, _ channel: String, _ fields: [(String, String?)] = [], path: String = path,
        body: String = "{}"
    ) async -> PushClient.Answer? {
        var all = [
            ("apns-channel-id", channel), ("apns-push-type", "liveactivity"), ("apns-priority", "10"),
            ("apns-expiration", "0"),
        ]
        for (name, value) in fields {
            all.removeAll { $0.0 == name }
            if let value { all.append((name, value)) }
        }
        return await client.answer(to: client.write(path: path, all, body: body))
    }

    @Test func `is accepted, and its request ID comes back`() async throws {
        let id = "123e4567-e89b-12d3-a456-426614174000"
        try await withChannels { client, channels, simulator in
            let answer = await broadcast(client, channels.none, [("apns-request-id", id)])
            #expect(answer?.status == 200)
            #expect(answer?.fields["apns-request-id"] == id)
            #expect(answer?.fields["apns-id"] == nil)
            let later = String(Int(Date.now.timeIntervalSince1970) + 3600)
            let stored = await broadcast(client, channels.latest, [("apns-expiration", later)])
            #expect(stored?.status == 200)
            let snapshot = await simulator.snapshot()
            #expect(snapshot.topics == ["com.example.App": 2])
        }
    }

    @Test func `is refused for what is wrong with it`() async throws {
        try await withChannels { client, channels, _ in
            let cases: [([(String, String?)], String)] = [
                ([("apns-channel-id", nil)], "MissingChannelId"),
                ([("apns-channel-id", "a b")], "BadChannelId"),
                ([("apns-channel-id", "YQ==")], "ChannelNotRegistered"),
                ([("apns-push-type", nil)], "MissingPushType"),
                ([("apns-push-type", "alert")], "InvalidPushType"),
                ([("apns-priority", nil)], "BadPriority"),
                ([("apns-priority", "7")], "BadPriority"),
                ([("apns-expiration", nil)], "BadExpirationDate"),
                ([("apns-expiration", "4102444800")], "BadExpirationDate"),
                ([("apns-channel-id", channels.latest)], "BadExpirationDate"),
                ([("apns-request-id", "1")], "BadMessageId"),
            ]
            for (fields, reason) in cases {
                let answer = await broadcast(client, channels.none, fields)
                #expect(answer?.reason == reason, "\(fields)")
            }
            let suffixed = await broadcast(client, channels.none, path: Self.path + ".push-type.liveactivity")
            #expect(suffixed?.reason == "TopicDisallowed")
        }
    }

    @Test func `may have 5120 bytes`() async throws {
        try await withChannels { client, channels, _ in
            let whole = await broadcast(client, channels.none, body: String(repeating: "x", count: 5120))
            #expect(whole?.status == 200)
            let long = await broadcast(client, channels.none, body: String(repeating: "x", count: 5121))
            #expect(long?.reason == "PayloadTooLarge")
        }
    }

    @Test func `meets the rules for its channel alone, and is recorded with it`() async throws {
        let record = FileManager.default.temporaryDirectory.appending(path: "record-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: record) }
        try await withChannels(configured { $0.recordFile = record }) { client, channels, simulator in
            await simulator.use(
                Rules(outcomes: [OutcomeRule(.refuse(.init(.tooManyRequests)), channel: channels.none, times: 1)]))
            let later = String(Int(Date.now.timeIntervalSince1970) + 3600)
            let other = await broadcast(client, channels.latest, [("apns-expiration", later)])
            #expect(other?.status == 200)
            let throttled = await broadcast(client, channels.none)
            #expect(throttled?.reason == "TooManyRequests")
            let again = await broadcast(client, channels.none)
            #expect(again?.status == 200)
            await simulator.flushRecord()
            let text = try String(contentsOfFile: record, encoding: .utf8)
            #expect(text.split(separator: "\n").count { $0.contains(#""channel":"\#(channels.none)""#) } == 2)
        }
    }
}
