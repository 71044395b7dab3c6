import QueueCore

/// What a file of devices can say about a device: the columns of a CSV and the members of an NDJSON object.
enum DeviceColumn: String, CaseIterable {
    case token
    case userKey = "user_key"
    case active
    case kind
    case locale
    case timeZone = "time_zone"
    case appVersion = "app_version"
    case tags
    case attributes
    case installation
    case activityType = "activity_type"
    case activity
    case firstSeenAt = "first_seen_at"
    case seenAt = "seen_at"
}

/// What is wrong with a field. The text never contains a token.
struct DeviceFieldProblem: Error {
    let text: String

    init(_ text: String) { self.text = text }

    /// Returns the text of a field.
    static func text(
        of field: ArraySlice<UInt8>, named name: () -> String
    ) throws(DeviceFieldProblem) -> String {
        guard let text = String(validating: field, as: UTF8.self) else {
            throw DeviceFieldProblem("\(name()) is not UTF-8 text")
        }
        return try checked(text, named: name)
    }

    /// Returns a text that PostgreSQL can store.
    static func checked(_ text: String, named name: () -> String) throws(DeviceFieldProblem) -> String {
        guard !text.utf8.contains(0) else { throw DeviceFieldProblem("\(name()) contains a NUL character") }
        return text
    }
}

/// What a line says about a device, besides its token. The rules are those of `pushq.profile_problem`, except that only
/// PostgreSQL knows which time zones exist.
struct DeviceLine {
    private(set) var userKey: String?
    private(set) var isActive = true
    private(set) var kind: String?
    /// Its times are not set: the line keeps them as numbers.
    private(set) var profile = DeviceProfile()
    /// In microseconds since 1970.
    private(set) var firstSeenAt: Int64?
    private(set) var seenAt: Int64?

    /// Whether the line says anything that a profile keeps.
    var hasProfile: Bool { profile != DeviceProfile() || firstSeenAt != nil || seenAt != nil }

    /// Reads a field of a CSV. An empty field says nothing.
    mutating func set(_ column: DeviceColumn, to text: String) throws(DeviceFieldProblem) {
        guard !text.isEmpty else { return }
        switch column {
        case .token: break
        case .userKey: userKey = try Self.bounded(text, "the user key has more than 200 bytes")
        case .active: isActive = try Self.boolean(text)
        case .kind: kind = try Self.kind(text)
        case .locale: profile.locale = try Self.locale(text)
        case .timeZone: profile.timeZone = text
        case .appVersion: profile.appVersion = try Self.version(text)
        case .tags: try setTags(text.hasPrefix("[") ? Self.texts(of: Self.json(text, "the tags")) : Self.parts(text))
        case .attributes: try setAttributes(Self.json(text, "the attributes"))
        case .installation: profile.installation = try Self.bounded(text, "the installation has more than 200 bytes")
        case .activityType: profile.activityType = try Self.bounded(text, Self.longActivity)
        case .activity: profile.activity = try Self.bounded(text, Self.longActivity)
        case .firstSeenAt: firstSeenAt = try Self.time(text, column)
        case .seenAt: seenAt = try Self.time(text, column)
        }
    }

    /// Reads a member of an object of NDJSON. Null says nothing.
    mutating func set(_ column: DeviceColumn, to node: JSONNode) throws(DeviceFieldProblem) {
        switch (column, node.value) {
        case (_, .null): break
        case (.active, .bool(let value)): isActive = value
        case (.tags, .array): try setTags(Self.texts(of: node))
        case (.tags, _): throw DeviceFieldProblem("the tags are not a list of texts")
        case (.attributes, _): try setAttributes(node)
        case (_, .string(let text)):
            try set(column, to: DeviceFieldProblem.checked(text) { "'\(column.rawValue)'" })
        default: throw DeviceFieldProblem("'\(column.rawValue)' is not a text")
        }
    }

    /// Adds the stage's columns that follow the line number and the token, in their order.
    func add(to rows: inout CopyRows) {
        rows.add(optional: userKey)
        rows.add(isActive)
        for text in [kind, profile.locale, profile.timeZone, profile.appVersion] { rows.add(optional: text) }
        if let tags = profile.tags { rows.add(tags) } else { rows.addNull() }
        if let attributes = profile.attributes { rows.add(json: attributes) } else { rows.addNull() }
        for text in [profile.installation, profile.activityType, profile.activity] { rows.add(optional: text) }
        for time in [firstSeenAt, seenAt] {
            if let time { rows.add(timestamp: time) } else { rows.addNull() }
        }
    }
}

extension CopyRows {
    mutating func add(optional text: String?) {
        if let text { add(text) } else { addNull() }
    }
}

// The rules.
extension DeviceLine {
    private static let kinds: Set<String> = Set(
        ["alert", "liveactivity-start"] + PushType.allCases.filter { !$0.topicSuffix.isEmpty }.map(\.rawValue))
    private static let longActivity = "activity and activity_type have at most 200 bytes"

    private mutating func setTags(_ tags: [String]) throws(DeviceFieldProblem) {
        guard tags.count <= 100 else {
            throw DeviceFieldProblem("there are \(tags.count) tags: use at most 100")
        }
        guard tags.allSatisfy({ (1...100).contains($0.utf8.count) }) else {
            throw DeviceFieldProblem("a tag has 1 to 100 bytes")
        }
        guard !tags.isEmpty else { return }
        // Bytes count, as in PostgreSQL: Swift takes texts for equal that differ in how an accent is written.
        profile.tags = tags.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
            .reduce(into: []) { different, tag in
                if different.last?.utf8.elementsEqual(tag.utf8) != true { different.append(tag) }
            }
    }

    private mutating func setAttributes(_ node: JSONNode) throws(DeviceFieldProblem) {
        guard let members = node.members else {
            throw DeviceFieldProblem("the attributes are not a JSON object, such as {}")
        }
        for member in members {
            switch member.node.value {
            case .string, .bool, .number: break
            default:
                throw DeviceFieldProblem(
                    "the attribute “\(member.name.prefix(40))” is not a text, a number, true or false")
            }
            guard (1...100).contains(member.name.utf8.count) else {
                throw DeviceFieldProblem(
                    "the name of the attribute “\(member.name.prefix(40))” does not have 1 to 100 bytes")
            }
        }
        let bytes = node.storedBytes
        guard bytes <= 8192 else {
            throw DeviceFieldProblem("the attributes have \(bytes) bytes: use at most 8192")
        }
        profile.attributes = node.text
    }

    /// Reads the JSON of a column.
    private static func json(_ text: String, _ what: String) throws(DeviceFieldProblem) -> JSONNode {
        var reader = JSONReader(text)
        guard let node = try? reader.read(), reader.invalidEscape == nil else {
            throw DeviceFieldProblem("\(what) are not valid JSON")
        }
        return node
    }

    private static func texts(of node: JSONNode) throws(DeviceFieldProblem) -> [String] {
        guard case .array(let elements) = node.value else { return [] }
        var texts: [String] = []
        for element in elements {
            guard case .string(let text) = element.value, !text.utf8.contains(0) else {
                throw DeviceFieldProblem("the tags are not a list of texts")
            }
            texts.append(text)
        }
        return texts
    }

    private static func parts(_ text: String) -> [String] {
        // As bytes: as characters, a bar and a combining accent behind it would be one.
        text.utf8.split(separator: UInt8(ascii: "|"), omittingEmptySubsequences: false).map { String(Substring($0)) }
    }

    private static func boolean(_ text: String) throws(DeviceFieldProblem) -> Bool {
        switch text.lowercased() {
        case "true": true
        case "false": false
        default: throw DeviceFieldProblem("the column 'active' is neither true nor false")
        }
    }

    private static func kind(_ text: String) throws(DeviceFieldProblem) -> String {
        guard kinds.contains(text) else {
            throw DeviceFieldProblem(
                "the kind “\(text.prefix(40))” is unknown: use alert, voip, complication, fileprovider, liveactivity "
                    + "(its update tokens), liveactivity-start, location, pushtotalk, widgets or controls")
        }
        return text
    }

    private static func locale(_ written: String) throws(DeviceFieldProblem) -> String {
        let text = LanguageTag.reported(written)
        let parts = text.utf8.split(omittingEmptySubsequences: false) {
            $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_")
        }
        let isTag = parts.enumerated().allSatisfy { index, part in
            (index == 0 ? 2...8 : 1...8).contains(part.count)
                && part.allSatisfy { isLetter($0) || index > 0 && isDigit($0) }
        }
        guard isTag, text.utf8.count <= 35 else {
            throw DeviceFieldProblem(
                "the locale “\(written.prefix(40))” is not a language tag: use one such as de or de-AT")
        }
        return text
    }

    private static func version(_ text: String) throws(DeviceFieldProblem) -> String {
        let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.allSatisfy({ !$0.isEmpty && $0.allSatisfy(isDigit) }) else {
            throw DeviceFieldProblem(
                "the app version “\(text.prefix(40))” is not numbers with dots: use one such as 4.12.1")
        }
        guard parts.count <= 8, parts.allSatisfy({ $0.count <= 18 }) else {
            throw DeviceFieldProblem(
                "the app version “\(text.prefix(40))” has more than 8 numbers, or one of more than 18 digits")
        }
        return text
    }

    private static func bounded(_ text: String, _ problem: String) throws(DeviceFieldProblem) -> String {
        guard text.utf8.count <= 200 else { throw DeviceFieldProblem(problem) }
        return text
    }

    private static func time(_ text: String, _ column: DeviceColumn) throws(DeviceFieldProblem) -> Int64 {
        guard let time = DeviceTime.microseconds(text) else {
            throw DeviceFieldProblem(
                "'\(column.rawValue)' is not a time: use one such as 2026-11-21T09:30:00Z or 2026-11-21T10:30:00+01:00")
        }
        return time
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }

    private static func isLetter(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20)
    }
}
