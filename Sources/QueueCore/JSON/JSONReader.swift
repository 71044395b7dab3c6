/// Why a text is not JSON, or is not accepted.
package enum JSONReadingError: Error, Equatable {
    /// RFC 8259 does not allow the byte at this offset.
    case malformed(offset: Int, expected: String)
    /// The text nests deeper than ``JSONReader/maximumDepth``.
    case tooDeep(offset: Int)
}

/// Reads JSON (RFC 8259) and stores the place of every value. It accepts what PostgreSQL's type `json` accepts.
package struct JSONReader: ~Copyable {
    /// The maximum number of nested objects and arrays. A payload is at most 5 KB, and no app needs more; the bound
    /// keeps the recursion small.
    static let maximumDepth = 64

    private let bytes: [UInt8]
    private var position = 0
    /// The offset of the first `\u` escape that is not a character: a zero, or half of a surrogate pair.
    package private(set) var invalidEscape: Int?

    package init(_ text: String) {
        bytes = Array(text.utf8)
    }

    /// Reads the whole text as one value.
    package mutating func read() throws(JSONReadingError) -> JSONNode {
        let node = try value(depth: 1)
        skipSpace()
        guard position == bytes.count else { throw malformed("the end of the text") }
        return node
    }

    private mutating func value(depth: Int) throws(JSONReadingError) -> JSONNode {
        skipSpace()
        let start = position
        let value: JSONNode.Value =
            switch peek {
            case UInt8(ascii: "{"): try object(depth: depth)
            case UInt8(ascii: "["): try array(depth: depth)
            case UInt8(ascii: "\""): .string(try string())
            case let byte? where byte == "-" || Self.isDigit(byte): .number(try number())
            default: try word()
            }
        return JSONNode(value: value, range: start..<position)
    }

    private mutating func object(depth: Int) throws(JSONReadingError) -> JSONNode.Value {
        try enter(depth)
        var members: [JSONNode.Member] = []
        if takeAfterSpace("}") { return .object(members) }
        repeat {
            skipSpace()
            let start = position
            guard peek == UInt8(ascii: "\"") else { throw malformed("a name in quotes") }
            let name = try string()
            guard takeAfterSpace(":") else { throw malformed("a colon") }
            members.append(JSONNode.Member(name: name, offset: start, node: try value(depth: depth + 1)))
        } while takeAfterSpace(",")
        guard takeAfterSpace("}") else { throw malformed("a comma or }") }
        return .object(members)
    }

    private mutating func array(depth: Int) throws(JSONReadingError) -> JSONNode.Value {
        try enter(depth)
        var elements: [JSONNode] = []
        if takeAfterSpace("]") { return .array(elements) }
        repeat { elements.append(try value(depth: depth + 1)) } while takeAfterSpace(",")
        guard takeAfterSpace("]") else { throw malformed("a comma or ]") }
        return .array(elements)
    }

    private mutating func enter(_ depth: Int) throws(JSONReadingError) {
        guard depth <= Self.maximumDepth else { throw .tooDeep(offset: position) }
        position += 1
    }

    private mutating func word() throws(JSONReadingError) -> JSONNode.Value {
        let words: [(String, JSONNode.Value)] = [("true", .bool(true)), ("false", .bool(false)), ("null", .null)]
        let end = bytes[position...].firstIndex { !Self.isWordByte($0) } ?? bytes.count
        let written = String(decoding: bytes[position..<end], as: UTF8.self)
        guard let (word, value) = words.first(where: { $0.0 == written }) else { throw malformed("a value") }
        position += word.utf8.count
        return value
    }

    // RFC 8259 §6: number = [ minus ] int [ frac ] [ exp ]
    private mutating func number() throws(JSONReadingError) -> String {
        let start = position
        _ = take("-")
        if !take("0") { try digits() }
        if take(".") { try digits() }
        if take("e") || take("E") {
            _ = take("+") || take("-")
            try digits()
        }
        guard peek.map({ !Self.isWordByte($0) }) ?? true else { throw malformed("the end of a number") }
        return String(decoding: bytes[start..<position], as: UTF8.self)
    }

    private mutating func digits() throws(JSONReadingError) {
        let start = position
        while let byte = peek, Self.isDigit(byte) { position += 1 }
        guard position > start else { throw malformed("a digit") }
    }

    private static func isDigit(_ byte: UInt8) -> Bool { UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte }

    private static func isWordByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), 0x80...: true
        default: false
        }
    }
}

// Strings: RFC 8259 §7.
extension JSONReader {
    private mutating func string() throws(JSONReadingError) -> String {
        position += 1
        var content: [UInt8] = []
        while let byte = peek {
            switch byte {
            case UInt8(ascii: "\""):
                position += 1
                return String(decoding: content, as: UTF8.self)
            case UInt8(ascii: "\\"): content += try escape()
            case 0..<0x20: throw malformed("no control character in a string")
            default:
                content.append(byte)
                position += 1
            }
        }
        throw malformed("the end of a string")
    }

    private mutating func escape() throws(JSONReadingError) -> [UInt8] {
        let start = position
        position += 1
        let escaped = peek
        position += 1
        switch escaped {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return [escaped!]
        case UInt8(ascii: "b"): return [0x08]
        case UInt8(ascii: "f"): return [0x0C]
        case UInt8(ascii: "n"): return [0x0A]
        case UInt8(ascii: "r"): return [0x0D]
        case UInt8(ascii: "t"): return [0x09]
        case UInt8(ascii: "u"): return try character(at: start)
        default:
            position = start
            throw malformed("an escape such as \\n")
        }
    }

    /// The character of one `\uXXXX` escape or of a pair of them.
    private mutating func character(at start: Int) throws(JSONReadingError) -> [UInt8] {
        var units = [try codeUnit()]
        if UTF16.isLeadSurrogate(units[0]), take("\\") {
            if take("u") { units.append(try codeUnit()) } else { position -= 1 }
        }
        let text = String(validating: units, as: UTF16.self)
        guard let text, units != [0] else {
            invalidEscape = invalidEscape ?? start
            return Array("\u{FFFD}".utf8)
        }
        return Array(text.utf8)
    }

    private mutating func codeUnit() throws(JSONReadingError) -> UInt16 {
        let end = min(position + 4, bytes.count)
        let digits = String(decoding: bytes[position..<end], as: UTF8.self)
        guard end - position == 4, digits.utf8.allSatisfy({ Character(Unicode.Scalar($0)).isHexDigit }),
            let unit = UInt16(digits, radix: 16)
        else { throw malformed("four hexadecimal digits") }
        position = end
        return unit
    }
}

// The bytes.
extension JSONReader {
    private var peek: UInt8? { position < bytes.count ? bytes[position] : nil }

    private mutating func take(_ scalar: Unicode.Scalar) -> Bool {
        guard peek == UInt8(ascii: scalar) else { return false }
        position += 1
        return true
    }

    private mutating func takeAfterSpace(_ scalar: Unicode.Scalar) -> Bool {
        skipSpace()
        return take(scalar)
    }

    private mutating func skipSpace() {
        while let byte = peek, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 { position += 1 }
    }

    private func malformed(_ expected: String) -> JSONReadingError {
        .malformed(offset: min(position, bytes.count), expected: expected)
    }
}
