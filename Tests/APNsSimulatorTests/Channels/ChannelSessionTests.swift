import APNsSimulator
import Testing

/// Apple, "Sending channel management requests to APNs".
@Suite(.timeLimit(.minutes(10))) struct `The port for channels` {
    private static let channels = "/1/apps/com.example.App/channels"
    private static let creation = #"{"message-storage-policy":1,"push-type":"LiveActivity"}"#

    /// A configuration that allows an app two channels.
    private static var simulator: SimulatorConfiguration {
        configured {
            $0.managementPort = 0
            $0.channelLimit = 2
            $0.bundleIDs = ["com.example.App"]
        }
    }

    @Test func `makes, tells, lists and deletes channels`() async throws {
        try await withSimulator(Self.simulator) { simulator in
            let token = ("authorization", try simulator.token())
            try await PushClient.with(simulator, port: simulator.managementPort) { client in
                let made = await client.answer(
                    to: client.write(path: Self.channels, [token], body: Self.creation))
                #expect(made?.status == 201)
                #expect(made?.fields["apns-request-id"]?.count == 36)
                let channel = ("apns-channel-id", try #require(made?.fields["apns-channel-id"]))
                let told = await client.answer(
                    to: client.write(method: "GET", path: Self.channels, [token, channel], body: ""))
                #expect(told?.body == Self.creation)
                let all = "/1/apps/com.example.App/all-channels"
                let listed = await client.answer(to: client.write(method: "GET", path: all, [token], body: ""))
                #expect(listed?.body == #"{"channels":["\#(channel.1)"]}"#)
                let deleted = await client.answer(
                    to: client.write(method: "DELETE", path: Self.channels, [token, channel], body: ""))
                #expect(deleted?.status == 204)
                let empty = await client.answer(to: client.write(method: "GET", path: all, [token], body: ""))
                #expect(empty?.body == #"{"channels":[]}"#)
            }
        }
    }

    struct Case: Sendable, CustomTestStringConvertible {
        var what: String
        var refusal: DocumentedReason
        var method = "POST"
        var path = channels
        var fields: [(String, String)] = []
        var body = creation
        var hasToken = true

        var testDescription: String { what }
    }

    static let cases: [Case] = [
        Case(what: "another path", refusal: .badPath, path: "/1/apps/com.example.App/channel"),
        Case(what: "the path of a push", refusal: .badPath, path: "/3/device/" + PushClient.token),
        Case(what: "PUT", refusal: .methodNotAllowed, method: "PUT"),
        Case(what: "POST to the list", refusal: .methodNotAllowed, path: "/1/apps/com.example.App/all-channels"),
        Case(what: "no credential", refusal: .missingProviderToken, hasToken: false),
        Case(what: "another app", refusal: .topicDisallowed, path: "/1/apps/com.example.Other/channels"),
        Case(
            what: "a suffix", refusal: .topicDisallowed,
            path: "/1/apps/com.example.App.push-type.liveactivity/channels"),
        Case(what: "no body", refusal: .payloadEmpty, body: ""),
        Case(what: "no JSON", refusal: .badRequestPayload, body: "x"),
        Case(what: "no push type", refusal: .missingPushType, body: #"{"message-storage-policy":1}"#),
        Case(
            what: "the header's spelling", refusal: .invalidPushType,
            body: #"{"message-storage-policy":1,"push-type":"liveactivity"}"#),
        Case(what: "no policy", refusal: .missingChannelQueueSize, body: #"{"push-type":"LiveActivity"}"#),
        Case(
            what: "policy 2", refusal: .missingChannelQueueSize,
            body: #"{"message-storage-policy":2,"push-type":"LiveActivity"}"#),
        Case(what: "a long body", refusal: .payloadTooLarge, body: String(repeating: " ", count: 5000)),
        Case(what: "to read without a channel", refusal: .missingChannelID, method: "GET", body: ""),
        Case(
            what: "to read what is no channel", refusal: .badChannelID, method: "GET",
            fields: [("apns-channel-id", "a b")], body: ""),
        Case(
            what: "to delete an unknown channel", refusal: .channelNotRegistered, method: "DELETE",
            fields: [("apns-channel-id", "YQ==")], body: ""),
        Case(
            what: "a request ID that is none", refusal: .badMessageID, fields: [("apns-request-id", "1")]),
    ]

    @Test(arguments: cases) func `refuses`(example: Case) async throws {
        try await withSimulator(Self.simulator) { simulator in
            let token = example.hasToken ? [("authorization", try simulator.token())] : []
            try await PushClient.with(simulator, port: simulator.managementPort) { client in
                let answer = await client.answer(
                    to: client.write(
                        method: example.method, path: example.path, token + example.fields, body: example.body))
                #expect(answer?.reason == example.refusal.rawValue)
                #expect(answer?.status == example.refusal.status)
            }
        }
    }

    @Test func `makes no more than the limit`() async throws {
        try await withSimulator(Self.simulator) { simulator in
            let identity = try simulator.identity()
            try await PushClient.with(simulator, port: simulator.managementPort, identity: identity) { client in
                var statuses: [Int?] = []
                for _ in 1...3 {
                    let answer = await client.answer(to: client.write(path: Self.channels, [], body: Self.creation))
                    statuses.append(answer?.status)
                    if statuses.count == 3 { #expect(answer?.reason == "CannotCreateChannelConfig") }
                }
                #expect(statuses == [201, 201, 400])
            }
        }
    }
}
