/// A JSON value as it is written: members keep their order, repeated names are kept, and numbers keep their spelling.
package struct JSONNode: Equatable {
    package enum Value: Equatable {
        case object([Member])
        case array([JSONNode])
        case string(String)
        /// The number as it is written: a payload must not be rounded.
        case number(String)
        case bool(Bool)
        case null
    }

    package struct Member: Equatable {
        package let name: String
        /// The byte at which the name begins.
        let offset: Int
        package let node: JSONNode
    }

    package let value: Value
    /// The bytes of the text that contain the value.
    let range: Range<Int>

    /// The byte at which the value begins.
    var offset: Int { range.lowerBound }

    /// The members of an object; nil for any other value.
    package var members: [Member]? {
        if case .object(let members) = value { members } else { nil }
    }

    /// The member with that name, if its value is not null: APNs treats null like an absent member.
    subscript(_ name: String) -> JSONNode? {
        members?.last { $0.name == name && $0.node.value != .null }?.node
    }

    /// The value at a path such as `aps.alert`.
    func at(_ path: String) -> JSONNode? {
        path.split(separator: ".").reduce(self) { node, name in node?[String(name)] }
    }
}

extension JSONNode {
    /// The value as JSON text on one line.
    package var text: String {
        switch value {
        case .object(let members):
            "{" + members.map { "\(Self.quoted($0.name)):\($0.node.text)" }.joined(separator: ",") + "}"
        case .array(let elements): "[" + elements.map(\.text).joined(separator: ",") + "]"
        case .string(let text): Self.quoted(text)
        case .number(let written): written
        case .bool(let value): value ? "true" : "false"
        case .null: "null"
        }
    }

    // RFC 8259 §7: the quotation mark, the reverse solidus and control characters are escaped.
    private static func quoted(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": quoted += "\\\""
            case "\\": quoted += "\\\\"
            case _ where scalar.value < 0x20:
                let digits = String(scalar.value, radix: 16)
                quoted += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted + "\""
    }
}
