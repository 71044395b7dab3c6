import QueueCore

/// A JSON value whose objects keep the order in which they were written.
package enum JSON: Equatable, Sendable {
    case null
    case bool(Bool)
    case integer(Int)
    case decimal(Double, places: Int)
    /// A finite number with as many digits as needed, and no decimal places if it is a whole one.
    case number(Double)
    case string(String)
    indirect case array([JSON])
    indirect case members([Member])
    /// A value that PostgreSQL has written, on one line.
    case written(String)

    /// A name and its value in an object.
    package struct Member: Equatable, Sendable {
        let name: String
        let value: JSON
    }

    /// An object of `members` in that order.
    package static func object(_ members: [(String, JSON)]) -> JSON {
        .members(members.map { Member(name: $0.0, value: $0.1) })
    }

    /// The value on one line (RFC 8259).
    package var text: String {
        switch self {
        case .null: "null"
        case .bool(let value): value ? "true" : "false"
        case .integer(let value): "\(value)"
        case .decimal(let value, let places): NumberText.fixed(value, places: places)
        case .number(let value): Int(exactly: value).map { "\($0)" } ?? "\(value)"
        case .string(let value): Self.quoted(value)
        case .array(let values): "[\(values.map(\.text).joined(separator: ","))]"
        case .members(let members):
            "{\(members.map { "\(Self.quoted($0.name)):\($0.value.text)" }.joined(separator: ","))}"
        case .written(let value): Self.escaped(value)
        }
    }

    // RFC 8259 §7: the quotation mark, the reverse solidus and control characters are escaped.
    private static func quoted(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": quoted += "\\\""
            case "\\": quoted += "\\\\"
            case "\n": quoted += "\\n"
            case "\t": quoted += "\\t"
            case "\r": quoted += "\\r"
            // RFC 8259 does not require this escape, but a terminal would obey these characters. A reader of the JSON
            // gets the same text.
            case _ where scalar.isControl: quoted += escape(scalar)
            default: quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted + "\""
    }

    /// Escapes control characters in values that PostgreSQL has written, a line each. It escapes only what RFC 8259
    /// requires. Control characters occur only in texts, apart from the line break behind each value.
    static func escaped(_ lines: String) -> String {
        // Nearly all values are plain ASCII, which is quick to check.
        if lines.utf8.allSatisfy({ $0 < 0x7F }) { return lines }
        var escaped = String.UnicodeScalarView()
        for scalar in lines.unicodeScalars {
            if scalar != "\n", scalar.isControl {
                escaped += escape(scalar).unicodeScalars
            } else {
                escaped.append(scalar)
            }
        }
        return String(escaped)
    }

    /// Returns the JSON escape of a character of the basic plane. All characters that control a terminal belong to that
    /// plane.
    private static func escape(_ scalar: Unicode.Scalar) -> String {
        "\\u" + String(scalar.value, radix: 16).padding(with: "0", to: 4)
    }
}

extension JSON: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral,
    ExpressibleByDictionaryLiteral, ExpressibleByArrayLiteral
{
    package init(stringLiteral value: String) { self = .string(value) }
    package init(integerLiteral value: Int) { self = .integer(value) }
    package init(booleanLiteral value: Bool) { self = .bool(value) }
    package init(arrayLiteral elements: JSON...) { self = .array(elements) }
    package init(dictionaryLiteral elements: (String, JSON)...) { self = .object(elements) }
}

extension String {
    fileprivate func padding(with character: Character, to width: Int) -> String {
        String(repeating: character, count: max(0, width - count)) + self
    }
}
