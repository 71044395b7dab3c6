import QueueCore
import Testing

@Suite struct `Warnings about a message` {
    private static let now: Int64 = 1_800_000_000

    private func warnings(_ message: Message) -> [String] {
        MessageRules.check(message, now: Self.now).map { finding in
            #expect(finding.severity == .warning, "\(finding.text)")
            return finding.path
        }
    }

    @Test(arguments: [
        (#"{"aps":{"alert":"x","future-key":1}}"#, PushType.alert, "aps.future-key"),
        (#"{"aps":{"alert":{"title":"x","colour":"red"}}}"#, .alert, "aps.alert.colour"),
        (#"{"aps":{"alert":"x","sound":{"name":"default","pitch":2}}}"#, .alert, "aps.sound.pitch"),
        (#"{"aps":{"alert":"x","badge":null}}"#, .alert, "aps.badge"),
        (#"{"aps":{"alert":"x","content-available":0}}"#, .alert, "aps.content-available"),
        (#"{"aps":{"badge":1,"mutable-content":1}}"#, .alert, "aps.mutable-content"),
        (#"{"aps":{"alert":"x","interruption-level":"loud"}}"#, .alert, "aps.interruption-level"),
        (#"{"aps":{"alert":"x","interruption-level":"critical","sound":"default"}}"#, .alert, "aps.interruption-level"),
        (#"{"aps":{"alert":"x","relevance-score":1.5}}"#, .alert, "aps.relevance-score"),
        (#"{"aps":{"alert":"x","sound":{"name":"a","critical":1,"volume":2}}}"#, .alert, "aps.sound.volume"),
        (#"{"aps":{}}"#, .complication, "payload"),
        (
            #"{"aps":{"timestamp":1,"event":"update","content-state":{},"dismissal-date":2}}"#, .liveactivity,
            "aps.dismissal-date"
        ),
        (#"{"aps":{"timestamp":1,"event":"end"}}"#, .liveactivity, "aps"),
        (
            #"{"aps":{"timestamp":1,"event":"update","content-state":{},"input-push-token":1}}"#, .liveactivity,
            "aps.input-push-token"
        ),
    ])
    func `name the key`(payload: String, type: PushType, path: String) {
        #expect(warnings(Message(payload: payload, pushType: type)) == [path])
    }

    private static let unusual: [(PushType, Int, Int64?, String)] = [
        (.alert, 5, now + 40 * 86400, "expiration"), (.liveactivity, 1, nil, "priority"),
        (.pushtotalk, 5, 0, "priority"), (.pushtotalk, 10, nil, "expiration"), (.voip, 10, nil, "expiration"),
        (.voip, 10, now + 3600, "expiration"), (.location, 1, nil, "priority"),
    ]

    @Test(arguments: unusual)
    func `tell of priorities and expirations that are not usual`(
        type: PushType, priority: Int, expiration: Int64?, path: String
    ) {
        let payload =
            switch type {
            case .alert: #"{"aps":{"alert":"x"}}"#
            case .liveactivity: #"{"aps":{"timestamp":1,"event":"update","content-state":{}}}"#
            default: #"{"a":1}"#
            }
        let message = Message(payload: payload, pushType: type, priority: priority, expiration: expiration)
        #expect(warnings(message) == [path])
    }

    @Test func `stay away from what is right`() {
        let payload = """
            {"aps": {"alert": {"title": "a", "loc-key": null, "loc-args": ["b"]}, "badge": 0, "relevance-score": 0,
                     "sound": {"critical": 1, "name": "default", "volume": 0.5}, "interruption-level": "critical"}, "mine": [1]}
            """
        let message = Message(payload: payload, priority: 10, expiration: Self.now + 60)
        #expect(MessageRules.check(message, now: Self.now).map(\.path) == ["aps.alert.loc-key"])
        #expect(warnings(Message(payload: #"{"a":1}"#, pushType: .voip, expiration: 0)).isEmpty)
    }
}

@Suite struct `Findings about a message` {
    @Test func `say where in the text they are`() throws {
        let payload = "{\n  \"é\": 1, \"aps\": {\"alert\": \"x\",\n    \"badge\": \"1\"}\n}"
        let finding = try #require(MessageRules.firstError(in: Message(payload: payload), now: 0))
        #expect(finding.text == "aps.badge is a string: use a whole number, 0 or greater")
        let position = TextPosition(ofByte: try #require(finding.offset), in: payload)
        #expect(position.line == 3)
        #expect(position.column == 14)
        #expect(TextPosition(ofByte: 10, in: payload).column == 8, "characters, not bytes")
    }

    @Test func `are all told, errors of all parts at once`() {
        let message = Message(
            payload: #"{"aps":{"alert":1,"badge":-1}}"#, priority: 7, expiration: 300, collapseID: "")
        let paths = MessageRules.check(message, now: 1_800_000_000).map(\.path)
        #expect(paths == ["aps.alert", "aps.badge", "priority", "expiration", "collapse-id"])
    }
}

@Suite struct `The table of push types` {
    @Test func `has a row for each`() {
        #expect(Set(PushTypeRules.table.keys) == Set(PushType.allCases))
    }

    @Test func `topics have the suffix of their type`() {
        let suffixes = PushType.allCases.map(\.topicSuffix)
        #expect(
            suffixes == [
                "", "", ".voip", ".complication", ".pushkit.fileprovider", "", ".push-type.liveactivity",
                ".location-query", ".voip-ptt", ".push-type.widgets", ".push-type.controls",
            ])
    }
}
