import FoundationEssentials

/// A place in a text of a payload that is replaced for each recipient.
struct Placeholder: Equatable {
    /// The bytes of the payload that are replaced.
    let range: Range<Int>
    /// The attribute to insert; nil for an escaped pair of braces.
    let attribute: String?
    /// The bytes of the payload to insert if a recipient lacks the attribute; nil if there is no default.
    let fallback: Range<Int>?
}

/// Why a placeholder is refused, in the words of `pushq.read_placeholders` (migrations/functions/placeholders.sql).
struct PlaceholderError: Error, Equatable {
    let problem: String
    let remedy: String
    /// The byte of the payload that the error is about.
    let offset: Int
}

/// Finds the placeholders of a payload: `{{name}}`, or `{{name|there}}` with a default. They occur in strings, as the
/// JSON spells them. `{{{{` stands for two braces.
struct PlaceholderReader: ~Copyable {
    /// The maximum length of an attribute's name, in bytes.
    private static let maximumNameBytes = 100
    private static let opening = Array("{{".utf8)
    private static let closing = Array("}}".utf8)
    private static let escapedBrace = Array("\\u007b".utf8)
    private static let escapedBraceInCapitals = Array("\\u007B".utf8)

    private let payload: [UInt8]
    private var found: [Placeholder] = []

    /// The placeholders of a payload, in their order.
    static func read(_ payload: [UInt8]) throws(PlaceholderError) -> [Placeholder] {
        var reader = PlaceholderReader(payload: payload)
        try reader.read()
        return reader.found
    }

    private init(payload: [UInt8]) {
        self.payload = payload
    }

    private mutating func read() throws(PlaceholderError) {
        try refuseEscapedBraces()
        guard first(Self.opening, from: 0, to: payload.count) != nil else { return }
        var place = 0
        while let quote = payload[place...].firstIndex(of: UInt8(ascii: "\"")) {
            place = endOfString(from: quote + 1)
            try readString(quote..<place)
        }
    }

    /// The end of a string that begins before `start`: the position after its closing quote.
    private func endOfString(from start: Int) -> Int {
        var place = start
        while place < payload.count {
            switch payload[place] {
            case UInt8(ascii: "\\"): place += 2
            case UInt8(ascii: "\""): return place + 1
            default: place += 1
            }
        }
        return payload.count
    }

    private mutating func readString(_ string: Range<Int>) throws(PlaceholderError) {
        var place = string.lowerBound
        while let start = first(Self.opening, from: place, to: string.upperBound) {
            guard !isName(endingAt: string.upperBound) else {
                throw error("is in a name", "use it in texts only", at: start)
            }
            if hasBytes(Self.opening, at: start + 2) {
                found.append(Placeholder(range: start..<start + 4, attribute: nil, fallback: start..<start + 2))
                place = start + 4
                continue
            }
            guard let end = first(Self.closing, from: start, to: string.upperBound) else {
                throw error("has no end", "close it with }}, or write {{{{ for two braces", at: start)
            }
            found.append(try placeholder(start..<end + 2))
            place = end + 2
        }
    }

    /// Whether the string that ends at `end` is the name of a member.
    private func isName(endingAt end: Int) -> Bool {
        payload[end...].first { ![0x20, 0x09, 0x0A, 0x0D].contains($0) } == UInt8(ascii: ":")
    }

    private func placeholder(_ range: Range<Int>) throws(PlaceholderError) -> Placeholder {
        let inside = range.lowerBound + 2..<max(range.lowerBound + 2, range.upperBound - 2)
        let bar = payload[inside].firstIndex(of: UInt8(ascii: "|"))
        let name = trimmed(inside.lowerBound..<(bar ?? inside.upperBound))
        let fallback = bar.map { trimmed($0 + 1..<inside.upperBound) }
        let attribute = Self.name(spelled: payload[name])
        guard !name.isEmpty else {
            throw error("names no attribute", "write {{name}} or {{name|there}}", at: range.lowerBound)
        }
        guard attribute.utf8.count <= Self.maximumNameBytes,
            !attribute.utf8.contains(where: { "{}\\".utf8.contains($0) })
        else {
            let shown = String(String.UnicodeScalarView(attribute.unicodeScalars.prefix(40)))
            throw error(
                "asks for “\(shown)”",
                "the name of an attribute has 1 to 100 bytes here, without braces and backslashes",
                at: range.lowerBound)
        }
        if let fallback, payload[fallback].contains(where: { "{}".utf8.contains($0) }) {
            throw error("has braces in its default", "leave them out", at: range.lowerBound)
        }
        return Placeholder(range: range, attribute: attribute, fallback: fallback)
    }

    /// The name that the payload spells: serializers write letters beyond ASCII as escapes. A name that is spelled in
    /// any other way with backslashes stays as it is, and is refused.
    private static func name(spelled bytes: ArraySlice<UInt8>) -> String {
        let plain = String(decoding: bytes, as: UTF8.self)
        let afterBackslashes = plain.split(separator: "\\", omittingEmptySubsequences: false).dropFirst()
        guard !afterBackslashes.isEmpty, afterBackslashes.allSatisfy({ $0.hasPrefix("u") }),
            let name = try? JSONDecoder().decode(String.self, from: Data("\"\(plain)\"".utf8)),
            !name.utf8.contains(where: { "{}|\\".utf8.contains($0) || $0 < 0x20 || $0 == 0x7F })
        else { return plain }
        return name
    }

    private func trimmed(_ range: Range<Int>) -> Range<Int> {
        let space = UInt8(ascii: " ")
        guard let start = payload[range].firstIndex(where: { $0 != space }),
            let last = payload[range].lastIndex(where: { $0 != space })
        else { return range.lowerBound..<range.lowerBound }
        return start..<last + 1
    }

    /// Refuses braces that are written as escapes: a reader of the JSON sees braces, a reader of its text does not.
    private func refuseEscapedBraces() throws(PlaceholderError) {
        var place = 0
        while let escape = payload[place...].firstIndex(of: UInt8(ascii: "\\")) {
            place = escape + 1
            guard isEscapedBrace(at: escape) else { continue }
            let brace = UInt8(ascii: "{")
            let next = escape + Self.escapedBrace.count
            let isPair =
                escape > 0 && payload[escape - 1] == brace || next < payload.count && payload[next] == brace
                || isEscapedBrace(at: next)
            guard !isPair else {
                throw PlaceholderError(
                    problem: "the payload has braces that are written as \\u007b", remedy: "write { instead",
                    offset: escape)
            }
        }
    }

    private func isEscapedBrace(at place: Int) -> Bool {
        hasBytes(Self.escapedBrace, at: place) || hasBytes(Self.escapedBraceInCapitals, at: place)
    }

    private func hasBytes(_ bytes: [UInt8], at place: Int) -> Bool {
        place + bytes.count <= payload.count && payload[place..<place + bytes.count].elementsEqual(bytes)
    }

    /// The first position of two bytes.
    private func first(_ pair: [UInt8], from start: Int, to end: Int) -> Int? {
        var place = start
        while place + 1 < end {
            if payload[place] == pair[0], payload[place + 1] == pair[1] { return place }
            place += 1
        }
        return nil
    }

    private func error(_ problem: String, _ remedy: String, at offset: Int) -> PlaceholderError {
        // The position is in characters, as PostgreSQL counts them, so it counts bytes that begin a character.
        let position = payload[..<offset].count { $0 & 0xC0 != 0x80 } + 1
        return PlaceholderError(
            problem: "the placeholder at position \(position) \(problem)", remedy: remedy, offset: offset)
    }
}
