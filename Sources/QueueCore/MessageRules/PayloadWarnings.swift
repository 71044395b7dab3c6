/// Finds what APNs accepts but the producer probably does not mean.
struct PayloadWarnings {
    /// Source: Apple, "Generating a remote notification", `interruption-level`.
    private static let interruptionLevels = ["passive", "active", "time-sensitive", "critical"]

    private let root: JSONNode
    private let type: PushType
    private var findings: [Finding] = []

    /// Adds the warnings about a payload whose root is an object.
    static func append(to findings: inout [Finding], root: JSONNode, type: PushType) {
        var warnings = PayloadWarnings(root: root, type: type)
        warnings.switches()
        warnings.alerts()
        warnings.scales()
        warnings.liveActivity()
        warnings.customKeys()
        findings += warnings.findings
    }

    private init(root: JSONNode, type: PushType) {
        self.root = root
        self.type = type
    }

    private mutating func warn(_ path: String, _ problem: String, _ remedy: String) {
        findings.append(.warning(path, problem, remedy, at: root.at(path)?.offset))
    }

    private mutating func switches() {
        for key in ["content-available", "mutable-content"] where root.at("aps.\(key)")?.value == .number("0") {
            warn("aps.\(key)", "aps.\(key) is 0, which has no effect", "leave it out, or set it to 1")
        }
    }

    private mutating func alerts() {
        if root.at("aps.mutable-content") != nil, root.at("aps.alert") == nil {
            warn("aps.mutable-content", "aps.mutable-content does nothing without aps.alert", "add an alert")
        }
        guard case .string(let level) = root.at("aps.interruption-level")?.value else { return }
        if !Self.interruptionLevels.contains(level) {
            let remedy = "use \(Self.interruptionLevels.joined(separator: ", "))"
            warn("aps.interruption-level", "aps.interruption-level is not one that Apple documents", remedy)
        } else if level == "critical", root.at("aps.sound.critical")?.value != .number("1") {
            let problem = "a critical alert is not heard without a critical sound"
            warn("aps.interruption-level", problem, "make aps.sound an object with critical 1 and a name")
        }
    }

    private mutating func scales() {
        let paths = ["aps.sound.volume"] + (type == .liveactivity ? [] : ["aps.relevance-score"])
        for path in paths {
            guard case .number(let digits) = root.at(path)?.value, let number = Double(digits) else { continue }
            if !(0...1).contains(number) { warn(path, "\(path) is not between 0 and 1", "use a number from 0 to 1") }
        }
    }

    private mutating func liveActivity() {
        guard type == .liveactivity, case .string(let event) = root.at("aps.event")?.value else { return }
        if event != "end", root.at("aps.dismissal-date") != nil {
            warn("aps.dismissal-date", "aps.dismissal-date counts only with event end", "leave it out")
        }
        if event == "end", root.at("aps.content-state") == nil {
            warn("aps", "the activity ends with the state it had", "add content-state, the final state")
        }
        for key in ["attributes", "attributes-type", "input-push-token", "input-push-channel"]
        where event != "start" && root.at("aps.\(key)") != nil {
            warn("aps.\(key)", "aps.\(key) counts only with event start", "leave it out")
        }
    }

    private mutating func customKeys() {
        guard type.rules.livesByCustomKeys, !(root.members ?? []).contains(where: { $0.name != "aps" }) else { return }
        warn("payload", "the payload contains nothing for the app", "add keys of your own next to aps")
    }
}
