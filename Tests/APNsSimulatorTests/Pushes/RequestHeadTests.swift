import APNsSimulator
import Cryptography
import QueueCore
import Testing

/// Apple, "Sending notification requests to APNs" and "Handling notification responses from APNs".
@Suite struct `What breaks a rule of APNs` {
    struct Case: Sendable, CustomTestStringConvertible {
        var what: String
        var refusal: DocumentedReason?
        var path: String?
        var method = "POST"
        var fields: [(String, String?)] = []
        var body = #"{"aps":{"alert":"Hello"}}"#

        var testDescription: String { what }
    }

    private static let id = "123e4567-e89b-12d3-a456-426614174000"
    private static func token(_ digits: String, _ count: Int) -> String {
        "/3/device/" + String(String(repeating: digits, count: count).prefix(count))
    }

    static let cases: [Case] = [
        Case(what: "nothing", refusal: nil),
        Case(what: "GET", refusal: .methodNotAllowed, method: "GET"),
        Case(what: "another path", refusal: .badPath, path: "/2/device/00"),
        Case(what: "no token", refusal: .missingDeviceToken, path: "/3/device/"),
        Case(what: "a token of 63 digits", refusal: .badDeviceToken, path: token("a", 63)),
        Case(what: "a token of 65 digits", refusal: .badDeviceToken, path: token("a", 65)),
        Case(what: "a token that is not hexadecimal", refusal: .badDeviceToken, path: token("g", 64)),
        Case(what: "a token of 160 digits", refusal: nil, path: token("aB", 160)),
        Case(what: "no topic", refusal: .missingTopic, fields: [("apns-topic", nil)]),
        Case(what: "a topic with a space", refusal: .badTopic, fields: [("apns-topic", "com.example App")]),
        Case(
            what: "the topic of another app", refusal: .topicDisallowed, fields: [("apns-topic", "com.example.Other")]),
        Case(
            what: "a suffix the certificate lacks", refusal: .topicDisallowed,
            fields: [("apns-topic", "com.example.App.x")]),
        Case(what: "VoIP without its suffix", refusal: .topicDisallowed, fields: [("apns-push-type", "voip")]),
        Case(
            what: "VoIP with its suffix", refusal: nil,
            fields: [("apns-push-type", "voip"), ("apns-topic", "com.example.App.voip")]),
        Case(what: "no push type", refusal: nil, fields: [("apns-push-type", nil)]),
        Case(what: "an unknown push type", refusal: .invalidPushType, fields: [("apns-push-type", "Alert")]),
        Case(what: "priority 5", refusal: nil, fields: [("apns-priority", "5")]),
        Case(what: "priority 7", refusal: .badPriority, fields: [("apns-priority", "7")]),
        Case(what: "priority high", refusal: .badPriority, fields: [("apns-priority", "high")]),
        Case(
            what: "a background push with priority 10", refusal: .badPriority,
            fields: [("apns-push-type", "background"), ("apns-priority", "10")]),
        Case(
            what: "a background push without priority", refusal: .badPriority,
            fields: [("apns-push-type", "background"), ("apns-priority", nil)]),
        Case(
            what: "a background push with priority 5", refusal: nil,
            fields: [("apns-push-type", "background"), ("apns-priority", "5")]),
        Case(what: "expiration 0", refusal: nil, fields: [("apns-expiration", "0")]),
        Case(what: "expiration tomorrow", refusal: .badExpirationDate, fields: [("apns-expiration", "tomorrow")]),
        Case(
            what: "a collapse ID of 64 bytes", refusal: nil,
            fields: [("apns-collapse-id", String(repeating: "é", count: 32))]),
        Case(
            what: "a collapse ID of 66 bytes", refusal: .badCollapseID,
            fields: [("apns-collapse-id", String(repeating: "é", count: 33))]),
        Case(what: "an apns-id in upper case", refusal: nil, fields: [("apns-id", id.uppercased())]),
        Case(
            what: "an apns-id without hyphens", refusal: .badMessageID,
            fields: [("apns-id", String(repeating: "a", count: 32))]),
        Case(what: "an empty payload", refusal: .payloadEmpty, body: ""),
        Case(what: "4096 bytes", refusal: nil, body: String(repeating: "x", count: 4096)),
        Case(what: "4097 bytes", refusal: .payloadTooLarge, body: String(repeating: "x", count: 4097)),
        Case(
            what: "5120 bytes of VoIP", refusal: nil,
            fields: [("apns-push-type", "voip"), ("apns-topic", "com.example.App.voip")],
            body: String(repeating: "x", count: 5120)),
        Case(
            what: "5121 bytes of VoIP", refusal: .payloadTooLarge,
            fields: [("apns-push-type", "voip"), ("apns-topic", "com.example.App.voip")],
            body: String(repeating: "x", count: 5121)),
    ]

    @Test func `is answered with Apple's status and reason`() async throws {
        let snapshot = try await withSimulator { simulator in
            try await PushClient.with(simulator, identity: simulator.identity()) { client in
                for item in Self.cases {
                    let answer = await client.push(
                        path: item.path, method: item.method, fields: item.fields, body: item.body)
                    #expect(answer?.status == item.refusal?.status ?? 200, "\(item.what)")
                    #expect(answer?.reason == item.refusal?.rawValue, "\(item.what)")
                    #expect(answer?.fields["apns-id"]?.count == 36, "\(item.what)")
                }
            }
        }
        #expect(snapshot.arrived == Self.cases.count)
        #expect(snapshot.accepted == Self.cases.count { $0.refusal == nil })
        #expect(snapshot.refused["BadPriority"] == 4)
        #expect(snapshot.answered == Self.cases.count)
    }

    @Test func `is told of a header that comes twice`() async throws {
        try await withSimulator { simulator in
            try await PushClient.with(simulator, identity: simulator.identity()) { client in
                let tag = client.write(
                    path: "/3/device/" + PushClient.token,
                    [("apns-topic", "com.example.App"), ("apns-priority", "5"), ("apns-priority", "5")], body: "{}")
                #expect(await client.answer(to: tag)?.reason == "DuplicateHeaders")
            }
        }
    }

    @Test func `the apns-id comes back, or one is made`() async throws {
        try await withSimulator(configured { $0.environment = .sandbox }) { simulator in
            try await PushClient.with(simulator, identity: simulator.identity()) { client in
                let echoed = await client.push(fields: [("apns-id", Self.id)])
                #expect(echoed?.fields["apns-id"] == Self.id)
                // Only the development environment sends this field.
                #expect(echoed?.fields["apns-unique-id"]?.count == 36)
                let made = await client.push()
                #expect(made?.fields["apns-id"] != nil && made?.fields["apns-id"] != Self.id)
            }
        }
        try await withSimulator(configured { $0.returnsUpperCaseIDs = true }) { simulator in
            try await PushClient.with(simulator, identity: simulator.identity()) { client in
                let echoed = await client.push(fields: [("apns-id", Self.id)])
                #expect(echoed?.fields["apns-id"] == Self.id.uppercased())
                #expect(echoed?.fields["apns-unique-id"] == nil)
            }
        }
    }
}
