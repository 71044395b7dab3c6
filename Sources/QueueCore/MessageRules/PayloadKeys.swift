/// What kind of value a payload's key requires.
package enum ValueKind: String, Sendable {
    case text = "a string"
    case textOrObject = "a string or an object"
    case object = "an object"
    case texts = "an array of strings"
    case count = "a whole number, 0 or greater"
    case increment = "a whole number, 1 to 99"
    case toggle = "the number 1"
    case yes = "true or false"
    case number = "a number"
    /// Apple's dates count seconds; a number of twelve digits or more is taken for milliseconds.
    case seconds = "seconds since 1970"
    case event = "start, update or end"

    func admits(_ value: JSONNode.Value) -> Bool {
        switch (self, value) {
        case (.text, .string), (.textOrObject, .string), (.textOrObject, .object), (.object, .object),
            (.number, .number),
            (.yes, .bool):
            true
        case (.texts, .array(let elements)): elements.allSatisfy { if case .string = $0.value { true } else { false } }
        // JSON has two zeros (RFC 8259 §6).
        case (.count, .number(let digits)): Self.isWhole(digits) || digits == "-0"
        case (.increment, .number(let digits)): Self.isWhole(digits) && digits.utf8.count <= 2 && !digits.hasPrefix("0")
        case (.toggle, .number(let digits)): ["1", "0", "-0"].contains(digits)
        case (.seconds, .number(let digits)): Self.isWhole(digits) && digits.utf8.count <= Self.maximumSecondsDigits
        case (.event, .string(let event)): LiveActivityEvent(rawValue: event) != nil
        default: false
        }
    }

    /// Eleven digits suffice until the year 5138.
    static let maximumSecondsDigits = 11

    static func isWhole(_ digits: String) -> Bool {
        digits.utf8.allSatisfy { UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }
    }
}

/// A key that Apple documents, and the kind of its value.
package struct PayloadKey: Sendable {
    package let name: String
    package let kind: ValueKind

    init(_ name: String, _ kind: ValueKind) {
        self.name = name
        self.kind = kind
    }
}

/// The documented keys. Sources: Apple, "Generating a remote notification", and for Live Activities "Starting and
/// updating Live Activities with ActivityKit push notifications". Apple adds keys every year, so an unknown key is a
/// warning, never an error.
package enum PayloadKeys {
    /// The keys of `aps`.
    package static let aps = [
        PayloadKey("alert", .textOrObject),
        PayloadKey("badge", .count),
        PayloadKey("sound", .textOrObject),
        PayloadKey("thread-id", .text),
        PayloadKey("category", .text),
        PayloadKey("content-available", .toggle),
        PayloadKey("mutable-content", .toggle),
        PayloadKey("target-content-id", .text),
        PayloadKey("interruption-level", .text),
        PayloadKey("relevance-score", .number),
        PayloadKey("filter-criteria", .text),
        PayloadKey("content-changed", .yes),
        PayloadKey("timestamp", .seconds),
        PayloadKey("event", .event),
        PayloadKey("content-state", .object),
        PayloadKey("stale-date", .seconds),
        PayloadKey("dismissal-date", .seconds),
        PayloadKey("attributes-type", .text),
        PayloadKey("attributes", .object),
        PayloadKey("input-push-token", .toggle),
        PayloadKey("input-push-channel", .text),
        PayloadKey("url-args", .texts),
    ]

    /// The keys of `aps.alert`.
    package static let alert = [
        PayloadKey("title", .text),
        PayloadKey("subtitle", .text),
        PayloadKey("body", .text),
        PayloadKey("launch-image", .text),
        PayloadKey("title-loc-key", .text),
        PayloadKey("subtitle-loc-key", .text),
        PayloadKey("loc-key", .text),
        PayloadKey("title-loc-args", .texts),
        PayloadKey("subtitle-loc-args", .texts),
        PayloadKey("loc-args", .texts),
        PayloadKey("action-loc-key", .text),
        PayloadKey("action", .text),
        PayloadKey("sound", .text),
    ]

    /// The keys of `aps.alert` of a Live Activity, where a text may be an object with `loc-key` and `loc-args`.
    package static let liveActivityAlert = alert.map { key in
        ["title", "subtitle", "body"].contains(key.name) ? PayloadKey(key.name, .textOrObject) : key
    }

    /// The keys of `aps.sound` of a critical alert.
    package static let sound = [
        PayloadKey("critical", .toggle),
        PayloadKey("name", .text),
        PayloadKey("volume", .number),
    ]
}
