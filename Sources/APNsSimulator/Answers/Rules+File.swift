import FoundationEssentials

extension Rules {
    /// Reads rules from JSON. Every key is optional:
    ///
    ///     {
    ///       "latency_ms": [5, 50],
    ///       "outcomes": [
    ///         {"token_prefix": "dead", "reason": "Unregistered", "timestamp": 1700000000000},
    ///         {"share": 0.01, "reason": "BadDeviceToken"},
    ///         {"probability": 0.02, "reason": "ServiceUnavailable", "retry_after": 3, "times": 2},
    ///         {"token_prefix": "f00d", "status": 520, "body": "<html>"},
    ///         {"topic": "com.example.Quiet", "answer": false}
    ///       ],
    ///       "go_away": {"after_requests": 100000, "graceful": true},
    ///       "reset": {"after_requests": 50000},
    ///       "errors": {"end_after": 1000, "slow_after": 20}
    ///     }
    ///
    /// `latency_ms` is a number or a pair. `status` may be left out for reasons that Apple documents. The first outcome
    /// decides whose conditions (`token_prefix`, `topic`, `channel`, `share`, `probability`, `times`) all hold. If
    /// there is none, the push is accepted.
    ///
    /// Throws ``SimulatorError/rules(place:problem:)`` with the place of the first mistake and how to correct it.
    package init(json: [UInt8]) throws(SimulatorError) {
        let value: JSONValue
        do {
            value = try JSONDecoder().decode(JSONValue.self, from: Data(json))
        } catch {
            throw .rules(place: "", problem: "this is not JSON; compare it with the example of `pushq simulate --help`")
        }
        try self.init(Place(value, at: ""))
    }

    private init(_ root: Place) throws(SimulatorError) {
        let fields = try root.fields(["latency_ms", "outcomes", "go_away", "reset", "errors"])
        self.init()
        if let place = fields["latency_ms"] { latency = try Self.latency(place) }
        if let place = fields["outcomes"] {
            for element in try place.elements() { outcomes.append(try OutcomeRule(element)) }
            guard Set(outcomes.compactMap(\.tokenPrefix)).count <= Rules.maximumPrefixCount else {
                throw place.mistake(
                    "name more than \(Rules.maximumPrefixCount) token prefixes; put some under a shorter one")
            }
        }
        if let place = fields["go_away"] {
            let parts = try place.fields(["after_requests", "graceful"], required: ["after_requests"])
            connections.goAwayAfter = try parts["after_requests"]?.integer(1...1_000_000_000)
            connections.isGoAwayGraceful = try parts["graceful"]?.bool() ?? true
        }
        if let place = fields["reset"] {
            let parts = try place.fields(["after_requests"], required: ["after_requests"])
            connections.resetAfter = try parts["after_requests"]?.integer(1...1_000_000_000)
        }
        if let place = fields["errors"] {
            let parts = try place.fields(["end_after", "slow_after"])
            connections.endAfterErrors = try parts["end_after"]?.integer(1...1_000_000_000)
            connections.slowAfterErrors = try parts["slow_after"]?.integer(1...1_000_000_000)
        }
    }

    private static func latency(_ place: Place) throws(SimulatorError) -> ClosedRange<Duration> {
        let bounds: [Double]
        if case .array = place.value {
            var numbers: [Double] = []
            for element in try place.elements() { numbers.append(try element.number(0...600_000)) }
            bounds = numbers
        } else {
            let number = try place.number(0...600_000)
            bounds = [number, number]
        }
        guard bounds.count == 2, bounds[0] <= bounds[1] else {
            throw place.mistake("must be a number of milliseconds or two of them, the smaller first")
        }
        return .microseconds(Int(bounds[0] * 1000)) ... .microseconds(Int(bounds[1] * 1000))
    }
}

extension OutcomeRule {
    fileprivate init(_ place: Place) throws(SimulatorError) {
        let fields = try place.fields([
            "token_prefix", "topic", "channel", "share", "probability", "times", "status", "reason", "timestamp",
            "retry_after",
            "body",
            "answer",
        ])
        self.init(try Self.outcome(place, fields))
        tokenPrefix = try fields["token_prefix"]?.hexadecimal()
        topic = try fields["topic"]?.string()
        channel = try fields["channel"]?.string()
        share = try fields["share"]?.number(0...1)
        probability = try fields["probability"]?.number(0...1)
        times = try fields["times"]?.integer(1...1_000_000)
    }

    private static func outcome(_ place: Place, _ fields: [String: Place]) throws(SimulatorError) -> Outcome {
        if let answer = fields["answer"], try !answer.bool() { return .silence }
        let reason = try fields["reason"]?.string()
        let known = reason.flatMap(DocumentedReason.init(rawValue:))
        guard let status = try fields["status"]?.integer(200...599) ?? known?.status else {
            throw place.mistake(
                reason == nil
                    ? #"says neither "reason" nor "status" nor "answer": false; add one of them"#
                    : "has a reason that Apple does not document; check its spelling or add \"status\"")
        }
        var answer = Answer(status: status, reason: reason ?? "")
        answer.timestamp = try fields["timestamp"]?.integer(0...10_000_000_000_000)
        answer.rawBody = try fields["body"]?.string()
        answer.retryAfter = try fields["retry_after"]?.retryAfter()
        return .refuse(answer)
    }
}

/// A value and its place in the file, for messages.
private struct Place {
    let value: JSONValue
    let path: String

    init(_ value: JSONValue, at path: String) {
        self.value = value
        self.path = path
    }

    func mistake(_ problem: String) -> SimulatorError { .rules(place: path, problem: problem) }

    func fields(_ known: [String], required: [String] = []) throws(SimulatorError) -> [String: Place] {
        guard case .object(let object) = value else { throw mistake("must be an object: { … }") }
        for key in object.keys.sorted() where !known.contains(key) {
            throw mistake("has \"\(key)\", which means nothing here; known are \(known.joined(separator: ", "))")
        }
        for key in required where object[key] == nil { throw mistake("lacks \"\(key)\"; add it") }
        var places: [String: Place] = [:]
        for (key, value) in object { places[key] = Place(value, at: path.isEmpty ? key : path + "." + key) }
        return places
    }

    func elements() throws(SimulatorError) -> [Place] {
        guard case .array(let array) = value else { throw mistake("must be a list: [ … ]") }
        return array.enumerated().map { Place($1, at: "\(path)[\($0)]") }
    }

    func bool() throws(SimulatorError) -> Bool {
        guard case .bool(let bool) = value else { throw mistake("must be true or false") }
        return bool
    }

    func string() throws(SimulatorError) -> String {
        guard case .string(let string) = value else { throw mistake("must be a text in quotes") }
        return string
    }

    func number(_ range: ClosedRange<Double>) throws(SimulatorError) -> Double {
        guard case .number(let number) = value, range.contains(number) else {
            throw mistake("must be a number from \(Int(range.lowerBound)) to \(Int(range.upperBound))")
        }
        return number
    }

    func integer(_ range: ClosedRange<Int>) throws(SimulatorError) -> Int {
        guard case .number(let number) = value, let integer = Int(exactly: number), range.contains(integer) else {
            throw mistake("must be a whole number from \(range.lowerBound) to \(range.upperBound)")
        }
        return integer
    }

    func hexadecimal() throws(SimulatorError) -> String {
        let text = try string().lowercased()
        guard !text.isEmpty, text.utf8.allSatisfy({ HexDigits.value(of: $0) != nil }) else {
            throw mistake("must be the first hexadecimal digits of device tokens, such as \"dead\"")
        }
        return text
    }

    /// Reads seconds, or an HTTP date as text.
    func retryAfter() throws(SimulatorError) -> String {
        if case .string(let date) = value {
            // The text becomes a header value unchanged.
            guard date.utf8.allSatisfy({ (0x20..<0x7F).contains($0) }), !date.hasPrefix(" "), !date.hasSuffix(" ")
            else {
                throw mistake("must be seconds, or a date such as \"Sun, 06 Nov 1994 08:49:37 GMT\"")
            }
            return date
        }
        return String(try integer(0...86_400))
    }
}
