/// The maximum length of a payload, and what sets it, such as `push type voip`.
struct PayloadLimit {
    let bytes: Int
    let setBy: String
}

/// Checks the payload of one message against the rules of its push type.
struct PayloadCheck {
    /// The maximum number of characters of a value or key that a finding shows.
    private static let shownCharacters = 40
    /// The maximum length of an object that raises the badge, in bytes. It does not count against the limit of the
    /// payload, because a number replaces it; but the payload is kept as it is given.
    private static let maximumIncrementBytes = 64

    private let type: PushType
    private let isForWalletPass: Bool
    /// Whether the payload may start a Live Activity; a broadcast may not.
    private let mayStart: Bool
    private let root: JSONNode
    private var findings: [Finding] = []

    /// Checks the payload and returns the findings.
    static func findings(in message: Message, limit: PayloadLimit, mayStart: Bool = true) -> [Finding] {
        var tooLong = length(of: message, limit)
        var reader = JSONReader(message.payload)
        do throws(JSONReadingError) {
            let root = try reader.read()
            guard root.members != nil else { return [notAnObject] }
            if reader.invalidEscape == nil, let badge = root.at("aps.badge"), badge.members != nil {
                // A number replaces the object when the push is sent.
                tooLong = length(of: message, limit, shortenedBy: badge.range.count - longestFigureBytes)
            }
            var check = PayloadCheck(
                type: message.pushType, isForWalletPass: message.isForWalletPass, mayStart: mayStart, root: root,
                findings: tooLong)
            check.escape(at: reader.invalidEscape)
            check.run()
            return check.findings
        } catch {
            return findings(for: error, in: message, tooLong)
        }
    }

    private static func findings(
        for error: JSONReadingError, in message: Message, _ tooLong: [Finding]
    ) -> [Finding] {
        switch error {
        case .malformed(let offset, let expected):
            return [.error("payload", "the payload is not JSON", "\(expected) is expected here", at: offset)]
        case .tooDeep(let offset):
            guard message.payload.utf8.first(where: { !$0.isJSONSpace }) == UInt8(ascii: "{") else {
                return [notAnObject]
            }
            let problem = "the payload nests deeper than \(JSONReader.maximumDepth) levels"
            return tooLong + [.error("payload", problem, "flatten it", at: offset)]
        }
    }

    private static let notAnObject = Finding.error(
        "payload", "the payload is not a JSON object", #"begin with {"aps": …}"#, at: 0)

    /// The length of the largest number that a raised badge can have.
    private static let longestFigureBytes = String(PayloadTemplate.largestFigure).utf8.count

    private static func length(of message: Message, _ limit: PayloadLimit, shortenedBy saved: Int = 0) -> [Finding] {
        let bytes = message.payload.utf8.count - saved
        guard bytes > limit.bytes else { return [] }
        let remedy = "\(limit.setBy) takes at most \(limit.bytes)"
        return [.error("payload", "the payload has \(bytes) bytes", remedy)]
    }

    private init(type: PushType, isForWalletPass: Bool, mayStart: Bool, root: JSONNode, findings: [Finding]) {
        self.type = type
        self.isForWalletPass = isForWalletPass
        self.mayStart = mayStart
        self.root = root
        self.findings = findings
    }

    private mutating func escape(at offset: Int?) {
        guard let offset else { return }
        let problem = "the payload has a \\u escape that is not a character"
        findings.append(.error("payload", problem, "write the character itself", at: offset))
    }

    private mutating func run() {
        repeated(in: root, "the payload")
        forbidden()
        requirements { !$0.hasPrefix("aps.") }
        if let aps = root["aps"] {
            guard kind(.object, of: aps, "aps") else { return }
            keys(of: aps, "aps", PayloadKeys.aps)
        }
        requirements { $0.hasPrefix("aps.") }
        oneOf()
        liveActivity()
        PayloadWarnings.append(to: &findings, root: root, type: type)
    }
}

// The types of values.
extension PayloadCheck {
    /// Checks the members of one object, and of the objects in it.
    private mutating func keys(of object: JSONNode, _ path: String, _ known: [PayloadKey]) {
        repeated(in: object, path)
        for member in object.members ?? [] {
            let place = "\(path).\(member.name)"
            guard let key = known.first(where: { $0.name == member.name }) else {
                findings.append(unknown(member, path))
                continue
            }
            if member.node.value == .null {
                findings.append(.warning(place, "\(place) is null", "leave it out", at: member.offset))
            } else if place == "aps.badge", member.node.members != nil {
                increment(member.node)
            } else if kind(key.kind, of: member.node, place), member.node.members != nil, let inner = keys(in: place) {
                keys(of: member.node, place, inner)
            }
        }
    }

    /// Checks a badge that is to be raised. This form is pushq's own: APNs gets the resulting number.
    private mutating func increment(_ badge: JSONNode) {
        let path = "aps.badge.increment"
        let names = (badge.members ?? []).map(\.name)
        let remedy = "use \(ValueKind.count.rawValue), or {\"increment\": 1}"
        if type != .alert {
            let problem = "\(path) does not go with push type \(type)"
            findings.append(.error(path, problem, "use \(ValueKind.count.rawValue)", at: badge.offset))
        } else if badge.range.count > Self.maximumIncrementBytes {
            let problem = "aps.badge is an object of \(badge.range.count) bytes"
            findings.append(.error("aps.badge", problem, remedy, at: badge.offset))
        } else if Set(names).count < names.count {
            repeated(in: badge, "aps.badge")
        } else if names == ["increment"], let node = badge.members?.first?.node {
            _ = kind(.increment, of: node, path)
        } else {
            findings.append(.error("aps.badge", "aps.badge is an object", remedy, at: badge.offset))
        }
    }

    private func keys(in path: String) -> [PayloadKey]? {
        switch path {
        case "aps.alert": type == .liveactivity ? PayloadKeys.liveActivityAlert : PayloadKeys.alert
        case "aps.sound": PayloadKeys.sound
        default: nil
        }
    }

    private mutating func repeated(in object: JSONNode, _ path: String) {
        var seen: Set<[UInt8]> = []
        for member in object.members ?? [] where !seen.insert(Array(member.name.utf8)).inserted {
            let problem = "“\(Self.shown(member.name))” occurs twice in \(path)"
            findings.append(.error(path == "the payload" ? "payload" : path, problem, "keep one", at: member.offset))
            return
        }
    }

    private func unknown(_ member: JSONNode.Member, _ path: String) -> Finding {
        let place = "\(path).\(Self.shown(member.name))"
        let remedy = path == "aps" ? "a key of your own belongs next to aps" : "leave it out"
        return .warning(place, "\(place) is not a key that Apple documents", remedy, at: member.offset)
    }

    /// Whether a value is of the required kind.
    private mutating func kind(_ kind: ValueKind, of node: JSONNode, _ path: String) -> Bool {
        if kind.admits(node.value) { return true }
        var problem = "\(path) is \(Self.shown(node.value, against: kind))"
        if kind == .seconds, case .number(let digits) = node.value, ValueKind.isWhole(digits) {
            problem += ", which is milliseconds"
        }
        findings.append(.error(path, problem, "use \(kind.rawValue)", at: node.offset))
        return false
    }

    /// A value as a finding shows it: its type if that is wrong, else the value itself.
    private static func shown(_ value: JSONNode.Value, against kind: ValueKind) -> String {
        switch value {
        case .object: "an object"
        case .array: kind == .texts ? "an array of other things" : "an array"
        case .string(let text): kind == .event ? "“\(shown(text))”" : "a string"
        case .number(let digits): [.count, .increment, .toggle, .seconds].contains(kind) ? shown(digits) : "a number"
        case .bool: "a boolean"
        case .null: "null"
        }
    }

    private static func shown(_ text: String) -> String {
        String(String.UnicodeScalarView(text.unicodeScalars.prefix(shownCharacters)))
    }
}

// The requirements of the push type.
extension PayloadCheck {
    /// The update of a Wallet pass is `{}` or `{"aps":{}}` (Apple: "Adding a Web Service to Update Passes").
    private var mayBeEmpty: Bool { isForWalletPass && type == .alert }

    private mutating func requirements(where concerned: (String) -> Bool) {
        guard !mayBeEmpty else { return }
        for requirement in type.rules.requirements where concerned(requirement.path) {
            let node = root.at(requirement.path)
            if let value = requirement.value {
                if node?.value.text == value { continue }
                let problem = "\(requirement.path) is not \(value), which push type \(type) requires"
                findings.append(.error(requirement.path, problem, requirement.remedy, at: node?.offset))
            } else if let node {
                if requirement.path.contains(".") || requirement.path == "aps" { continue }
                _ = kind(.text, of: node, requirement.path)
            } else {
                let problem = "\(requirement.path) is missing, which push type \(type) requires"
                let remedy = requirement.remedy + adviceOfLanguages(requirement.path)
                findings.append(.error(requirement.path, problem, remedy))
            }
        }
    }

    /// A message in several languages was passed where one payload is expected, or one of its two parts is missing.
    private func adviceOfLanguages(_ path: String) -> String {
        guard path == "aps", root["default"] != nil || root["languages"] != nil else { return "" }
        return "; only a campaign takes several languages, with default and languages"
    }

    private mutating func forbidden() {
        for path in type.rules.forbidden {
            guard let node = root.at(path) else { continue }
            let problem = "\(path) does not go with push type \(type)"
            findings.append(.error(path, problem, "leave it out", at: node.offset))
        }
    }

    private mutating func oneOf() {
        let keys = type.rules.oneOf
        guard !keys.isEmpty, !mayBeEmpty, let aps = root["aps"], !keys.contains(where: { aps[$0] != nil }) else {
            return
        }
        let problem = "aps has none of \(keys.joined(separator: ", ")), one of which push type \(type) requires"
        findings.append(.error("aps", problem, "add one, or use push type background", at: aps.offset))
    }

    private mutating func liveActivity() {
        guard type == .liveactivity, case .string(let name) = root.at("aps.event")?.value,
            let event = LiveActivityEvent(rawValue: name)
        else { return }
        if event == .start, !mayStart {
            let problem = "aps.event is start, and a broadcast cannot start a Live Activity"
            findings.append(.error("aps.event", problem, "use update or end", at: root.at("aps.event")?.offset))
            return
        }
        for key in event.required where root.at("aps.\(key)") == nil {
            let problem = "aps.\(key) is missing, which event \(event) of a Live Activity requires"
            findings.append(.error("aps.\(key)", problem, "add it"))
        }
    }
}

extension JSONNode.Value {
    /// A number or boolean as it is written; nil for any other value.
    fileprivate var text: String? {
        switch self {
        case .number(let digits): digits
        case .bool(let value): "\(value)"
        default: nil
        }
    }
}

extension UInt8 {
    fileprivate var isJSONSpace: Bool { self == 0x20 || self == 0x0A || self == 0x0D || self == 0x09 }
}
