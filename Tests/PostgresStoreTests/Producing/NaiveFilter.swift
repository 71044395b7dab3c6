import Foundation

/// A random device, with the properties that filters test.
struct MadeUpDevice: Sendable {
    enum Value: Equatable, Sendable {
        case text(String)
        case number(Double)
        case flag(Bool)
    }

    var kind: String?
    var user: String?
    /// When the app last reported the device, in seconds since 1970.
    var reportedAt: Int?
    /// Whether it has a profile. Without one, the following properties are unknown.
    var hasProfile = true
    var locale: String?
    var timeZone: String?
    var activityType: String?
    var activity: String?
    var version: String?
    var tags: Set<String> = []
    var attributes: [String: Value] = [:]
    var firstSeenAt: Int?
    var importedSeenAt: Int?

    var seenAt: Int? { [reportedAt, importedSeenAt].compactMap(\.self).max() }
}

/// A filter parser written from docs/audiences.md alone, in the simplest way: recursive descent that builds a function
/// of a device. It shares no code or idea with the parser and the SQL that it is compared with.
struct NaiveFilter {
    /// The error if a text is not a filter.
    struct Wrong: Error {}

    typealias Condition = @Sendable (MadeUpDevice) -> Bool

    /// The time zones that the parser knows: those of the random devices.
    static let timeZones = ["Europe/Berlin", "Asia/Kathmandu", "UTC"]
    static let kinds = [
        "alert", "voip", "complication", "fileprovider", "liveactivity", "liveactivity-start", "location", "pushtotalk",
        "widgets", "controls",
    ]

    private enum Token: Equatable {
        case word(String)
        case number(String)
        case text(String)
        case sign(String)
    }

    private var tokens: [Token]
    private var depth = 0
    /// The time from which `within` counts back.
    private let now: Int

    /// Returns a condition that tells whether a device matches the filter.
    static func parse(_ text: String, now: Int) throws(Wrong) -> Condition {
        var parser = NaiveFilter(tokens: try tokens(of: text), now: now)
        let condition = try parser.alternatives()
        guard parser.tokens.isEmpty else { throw Wrong() }
        return condition
    }

    private init(tokens: [Token], now: Int) {
        self.tokens = tokens
        self.now = now
    }

    // MARK: Words

    private static func tokens(of text: String) throws(Wrong) -> [Token] {
        var rest = Array(text.unicodeScalars)[...]
        var tokens: [Token] = []
        func take(_ isMore: (Unicode.Scalar) -> Bool) -> String {
            var taken = String.UnicodeScalarView()
            while let next = rest.first, isMore(next) { taken.append(rest.removeFirst()) }
            return String(taken)
        }
        while let first = rest.first {
            switch first {
            case " ", "\n", "\t", "\u{a0}": rest.removeFirst()
            case "'", "\"":
                rest.removeFirst()
                var content = String.UnicodeScalarView()
                while true {
                    guard let next = rest.popFirst() else { throw Wrong() }
                    if next != first {
                        content.append(next)
                    } else if rest.first == first {
                        content.append(rest.removeFirst())
                    } else {
                        break
                    }
                }
                tokens.append(.text(String(content)))
            case "a"..."z", "A"..."Z", "_":
                tokens.append(.word(take { $0.isASCII && ($0.properties.isAlphabetic || $0 == "_" || isDigit($0)) }))
            case let digit where isDigit(digit) || digit == "-" && rest.dropFirst().first.map(isDigit) == true:
                var number = String(rest.removeFirst())
                while let next = rest.first, isDigit(next) || next == "." && rest.dropFirst().first.map(isDigit) == true
                {
                    number.unicodeScalars.append(rest.removeFirst())
                }
                tokens.append(.number(number))
            default:
                let signs = ["<=", ">=", "!=", "<", ">", "=", "(", ")", ","]
                let head = rest.prefix(2).map(String.init).joined()
                guard !["<>", "==", "=="].contains(head), let sign = signs.first(where: head.hasPrefix) else {
                    throw Wrong()
                }
                rest.removeFirst(sign.count)
                tokens.append(.sign(sign))
            }
        }
        return tokens
    }

    private static func isDigit(_ scalar: Unicode.Scalar) -> Bool { ("0"..."9").contains(scalar) }

    private mutating func skip(_ keyword: String) -> Bool {
        guard case .word(let word)? = tokens.first, word.lowercased() == keyword else { return false }
        tokens.removeFirst()
        return true
    }

    private mutating func skip(sign: String) -> Bool {
        guard tokens.first == .sign(sign) else { return false }
        tokens.removeFirst()
        return true
    }

    private func require(_ condition: Bool) throws(Wrong) {
        guard condition else { throw Wrong() }
    }

    // MARK: Grammar

    private mutating func alternatives() throws(Wrong) -> Condition {
        var parts = [try conjunction()]
        while skip("or") { parts.append(try conjunction()) }
        return { [parts] device in parts.contains { $0(device) } }
    }

    private mutating func conjunction() throws(Wrong) -> Condition {
        var parts = [try part()]
        while skip("and") { parts.append(try part()) }
        return { [parts] device in parts.allSatisfy { $0(device) } }
    }

    private mutating func part() throws(Wrong) -> Condition {
        if skip("not") {
            let inner = try part()
            return { !inner($0) }
        }
        if skip(sign: "(") {
            depth += 1
            try require(depth <= 20)
            let inner = try alternatives()
            try require(skip(sign: ")"))
            depth -= 1
            return inner
        }
        return try condition()
    }

    private mutating func condition() throws(Wrong) -> Condition {
        guard case .word(let name)? = tokens.first else { throw Wrong() }
        tokens.removeFirst()
        switch name.lowercased() {
        case "locale": return try choice({ $0.locale }, matches: Self.speaks, isValid: { Self.isLanguageTag($0) })
        case "time_zone": return try choice({ $0.timeZone }, isValid: { Self.timeZones.contains($0) })
        case "user": return try choice({ $0.user }, isValid: { _ in true })
        case "activity_type": return try choice({ $0.activityType }, isValid: { _ in true })
        case "activity": return try choice({ $0.activity }, isValid: { _ in true })
        case "kind":
            if case .word(let word)? = tokens.first { try require(word.lowercased() != "is") }
            return try choice({ $0.kind ?? "alert" }, isValid: { Self.kinds.contains($0) })
        case "tag": return try tag()
        case "app_version": return try version()
        case "registered": return try time { $0.firstSeenAt }
        case "seen": return try time { $0.seenAt }
        case "attribute":
            switch tokens.popFirst() {
            case .word(let name)?: return try attribute(name)
            case .text(let name)? where !name.isEmpty: return try attribute(name)
            default: throw Wrong()
            }
        default: throw Wrong()
        }
    }

    /// `is [not] missing`, or nil.
    private mutating func missing<Field>(_ field: @escaping @Sendable (MadeUpDevice) -> Field?) throws(Wrong)
        -> Condition?
    {
        guard skip("is") else { return nil }
        let isNegated = skip("not")
        try require(skip("missing"))
        return { (field($0) == nil) != isNegated }
    }

    /// Parses the text after a field that is compared with values: `= x`, `!= x`, `in (x, …)`, `not in (…)`.
    private mutating func values<Value>(
        _ value: (inout Self) throws(Wrong) -> Value
    ) throws(Wrong) -> (values: [Value], isNegated: Bool)? {
        if skip(sign: "=") { return ([try value(&self)], false) }
        if skip(sign: "!=") { return ([try value(&self)], true) }
        let isNegated = skip("not")
        guard skip("in") else {
            try require(!isNegated)
            return nil
        }
        try require(skip(sign: "("))
        var values = [try value(&self)]
        while skip(sign: ",") { values.append(try value(&self)) }
        try require(skip(sign: ")"))
        return (values, isNegated)
    }

    private mutating func order() -> String? {
        for sign in ["<=", ">=", "<", ">"] where skip(sign: sign) { return sign }
        return nil
    }

    private static func holds<Value: Comparable>(_ left: Value, _ sign: String, _ right: Value) -> Bool {
        switch sign {
        case "<": left < right
        case "<=": left <= right
        case ">": left > right
        default: left >= right
        }
    }

    private mutating func text() throws(Wrong) -> String {
        guard case .text(let text)? = tokens.popFirst() else { throw Wrong() }
        return text
    }

    // MARK: Fields

    private mutating func choice(
        _ field: @escaping @Sendable (MadeUpDevice) -> String?,
        matches: @escaping @Sendable (String, String) -> Bool = { Array($0.utf8) == Array($1.utf8) },
        isValid: (String) -> Bool
    ) throws(Wrong) -> Condition {
        if let missing = try missing(field) { return missing }
        let given = try values { (parser: inout Self) throws(Wrong) in
            let text = try parser.text()
            try parser.require(isValid(text))
            return text
        }
        guard let (values, isNegated) = given else { throw Wrong() }
        return { device in
            let value = field(device)
            return values.contains { wanted in value.map { matches($0, wanted) } ?? false } != isNegated
        }
    }

    private static func speaks(_ locale: String, _ range: String) -> Bool {
        let (locale, range) = (locale.lowercased(), range.lowercased().replacing("_", with: "-"))
        return locale == range || locale.hasPrefix(range + "-")
    }

    private static func isLanguageTag(_ text: String) -> Bool {
        text.wholeMatch(of: /[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*/) != nil && text.utf8.count <= 35
    }

    private mutating func tag() throws(Wrong) -> Condition {
        if let missing = try missing({ $0.tags.isEmpty ? nil : $0.tags }) { return missing }
        if case .text(let tag)? = tokens.first {
            tokens.removeFirst()
            return { $0.tags.contains(tag) }
        }
        if case .sign? = tokens.first { throw Wrong() }
        guard let (tags, isNegated) = try values({ (parser: inout Self) throws(Wrong) in try parser.text() }) else {
            throw Wrong()
        }
        return { $0.tags.isDisjoint(with: tags) == isNegated }
    }

    private mutating func version() throws(Wrong) -> Condition {
        @Sendable func parts(_ text: String) -> [Int] {
            let parts = text.split(separator: ".").map { Int($0)! }
            return parts + Array(repeating: 0, count: 8 - parts.count)
        }
        @Sendable func field(_ device: MadeUpDevice) -> [Int]? { device.version.map(parts) }
        func value(_ parser: inout Self) throws(Wrong) -> [Int] {
            switch parser.tokens.popFirst() {
            case .text(let text)?, .number(let text)?:
                try parser.require(text.wholeMatch(of: /[0-9]{1,18}([.][0-9]{1,18}){0,7}/) != nil)
                return parts(text)
            default: throw Wrong()
            }
        }
        if let missing = try missing(field) { return missing }
        if let sign = order() {
            let wanted = try value(&self)
            return { device in
                guard let version = field(device) else { return false }
                return version == wanted
                    ? sign.hasSuffix("=") : version.lexicographicallyPrecedes(wanted) == sign.hasPrefix("<")
            }
        }
        guard let (wanted, isNegated) = try values(value) else { throw Wrong() }
        return { device in (field(device).map { wanted.contains($0) } ?? false) != isNegated }
    }

    private mutating func time(_ field: @escaping @Sendable (MadeUpDevice) -> Int?) throws(Wrong) -> Condition {
        if let missing = try missing(field) { return missing }
        if skip("within") {
            guard case .number(let digits)? = tokens.popFirst(), digits.wholeMatch(of: /[0-9]{1,5}/) != nil,
                let count = Int(digits), count > 0, case .word(let unit)? = tokens.popFirst(),
                let seconds = ["minute": 60, "hour": 3600, "day": 86400, "week": 604_800][
                    String(unit.lowercased().wholeMatch(of: /([a-z]*?)s?/)?.output.1 ?? "")],
                count * seconds <= 1_000_000_000
            else { throw Wrong() }
            return { [now] in field($0).map { $0 >= now - count * seconds } ?? false }
        }
        guard let sign = order(), let moment = Self.moment(try text()) else { throw Wrong() }
        return { field($0).map { Self.holds(Double($0), sign, moment) } ?? false }
    }

    /// Seconds since 1970.
    private static func moment(_ text: String) -> Double? {
        let pattern = /(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d))?(Z|[+-]\d\d:\d\d))?/
        guard let match = text.wholeMatch(of: pattern)?.output else { return nil }
        let (year, month, day) = (Int(match.1)!, Int(match.2)!, Int(match.3)!)
        let (hour, minute, second) = (Int(match.4 ?? "0")!, Int(match.5 ?? "0")!, Int(match.6 ?? "0")!)
        guard year >= 1, (1...12).contains(month), day >= 1, hour < 24, minute < 60, second < 60 else { return nil }
        let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
        let lengths = [31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
        guard day <= lengths[month - 1] else { return nil }
        let before = year - 1
        let days =
            before * 365 + before / 4 - before / 100 + before / 400 + lengths.prefix(month - 1).reduce(0, +) + day - 1
        var offset = 0
        if let zone = match.7, zone != "Z" {
            let (hours, minutes) = (Int(zone.dropFirst().prefix(2))!, Int(zone.suffix(2))!)
            guard hours < 15, minutes < 60 else { return nil }
            offset = (hours * 60 + minutes) * (zone.hasPrefix("-") ? -60 : 60)
        }
        return Double((days - 719_162) * 86400 + hour * 3600 + minute * 60 + second - offset)
    }

    private mutating func attribute(_ name: String) throws(Wrong) -> Condition {
        func value(_ parser: inout Self) throws(Wrong) -> MadeUpDevice.Value {
            switch parser.tokens.popFirst() {
            case .text(let text)?: return .text(text)
            case .number(let digits)?:
                try parser.require(digits.wholeMatch(of: /-?[0-9]+([.][0-9]+)?/) != nil)
                return .number(Double(digits)!)
            case .word(let word)? where ["true", "false"].contains(word.lowercased()):
                return .flag(word.lowercased() == "true")
            default: throw Wrong()
            }
        }
        @Sendable func field(_ device: MadeUpDevice) -> MadeUpDevice.Value? { device.attributes[name] }
        if let missing = try missing(field) { return missing }
        if let sign = order() {
            let wanted = try value(&self)
            if case .flag = wanted { throw Wrong() }
            return { device in
                switch (field(device), wanted) {
                case (.number(let left)?, .number(let right)): Self.holds(left, sign, right)
                case (.text(let left)?, .text(let right)):
                    left == right
                        ? sign.hasSuffix("=") : left.utf8.lexicographicallyPrecedes(right.utf8) == sign.hasPrefix("<")
                default: false
                }
            }
        }
        guard let (wanted, isNegated) = try values(value) else { throw Wrong() }
        return { device in (field(device).map { wanted.contains($0) } ?? false) != isNegated }
    }
}

extension Array {
    /// Removes the first element and returns it; nil if there is none.
    fileprivate mutating func popFirst() -> Element? { isEmpty ? nil : removeFirst() }
}
