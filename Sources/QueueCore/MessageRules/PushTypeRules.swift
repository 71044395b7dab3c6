/// What a push type requires beyond the types of values. Each push type has one row in ``PushTypeRules/table``.
///
/// Sources: Apple, "Sending notification requests to APNs", "Generating a remote notification", "Pushing background
/// updates", "Starting and updating Live Activities with ActivityKit push notifications".
package struct PushTypeRules: Sendable {
    /// A required key, and what to do if it is missing.
    package struct Requirement: Sendable {
        package let path: String
        package let remedy: String
        /// The only accepted value, as it is written; nil: any value of its kind.
        package let value: String?

        init(_ path: String, _ remedy: String, value: String? = nil) {
            self.path = path
            self.remedy = remedy
            self.value = value
        }
    }

    package let type: PushType
    /// The priorities that are accepted.
    package var priorities: [Priority] = [.immediate, .powerAware, .passive]
    /// The priorities that Apple names for this type; any other is a warning.
    package var usualPriorities: [Priority] = [.immediate, .powerAware, .passive]
    package var requirements: [Requirement] = []
    /// Keys of `aps` of which at least one is required.
    package var oneOf: [String] = []
    /// The paths of forbidden keys.
    package var forbidden: [String] = []
    /// Whether a push says nothing to the app without keys beside `aps`.
    package var livesByCustomKeys = false

    /// The rules of all push types.
    package static let table: [PushType: PushTypeRules] = Dictionary(
        uniqueKeysWithValues: [
            PushTypeRules(type: .alert, requirements: [aps], oneOf: ["alert", "badge", "sound"]),
            PushTypeRules(
                type: .background, priorities: [.powerAware], usualPriorities: [.powerAware],
                requirements: [aps, Requirement("aps.content-available", "set it to 1", value: "1")],
                forbidden: ["aps.alert", "aps.badge", "aps.sound"]),
            PushTypeRules(type: .voip),
            PushTypeRules(type: .complication, livesByCustomKeys: true),
            PushTypeRules(
                type: .fileprovider,
                requirements: [
                    Requirement("container-identifier", "set it to the container's identifier"),
                    Requirement("domain", "set it to the domain's identifier"),
                ]),
            PushTypeRules(
                type: .mdm, requirements: [Requirement("mdm", "set it to the device's PushMagic")], forbidden: ["aps"]),
            PushTypeRules(
                type: .liveactivity, usualPriorities: [.immediate, .powerAware],
                requirements: [
                    aps, Requirement("aps.timestamp", "set it to seconds since 1970"),
                    Requirement("aps.event", "set it to start, update or end"),
                ]),
            PushTypeRules(type: .location, usualPriorities: [.immediate, .powerAware]),
            PushTypeRules(type: .pushtotalk, usualPriorities: [.immediate], livesByCustomKeys: true),
            PushTypeRules(type: .widgets, requirements: [aps, contentChanged]),
            PushTypeRules(type: .controls, requirements: [aps, contentChanged]),
        ].map { ($0.type, $0) })

    private static let aps = Requirement("aps", "add it")
    private static let contentChanged = Requirement("aps.content-changed", "set it to true", value: "true")
}

extension PushType {
    /// The rules of this push type.
    package var rules: PushTypeRules {
        guard let rules = PushTypeRules.table[self] else { fatalError("\(self) has no rules") }
        return rules
    }
}

/// What happens to a Live Activity: `aps.event`.
package enum LiveActivityEvent: String, CaseIterable, Sendable {
    case start, update, end

    /// Required keys of `aps`.
    package var required: [String] {
        switch self {
        case .start: ["content-state", "attributes-type", "attributes", "alert"]
        case .update: ["content-state"]
        case .end: []
        }
    }
}
