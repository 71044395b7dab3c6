/// A JSON value as it stands in a text: members in their order, repeated names kept, numbers as they were written.
struct JSONNode: Equatable {
    enum Value: Equatable {
        case object([Member])
        case array([JSONNode])
        case string(String)
        /// As it was written: a payload must not be rounded.
        case number(String)
        case bool(Bool)
        case null
    }

    struct Member: Equatable {
        let name: String
        /// The byte at which the name begins.
        let offset: Int
        let node: JSONNode
    }

    let value: Value
    /// The byte at which it begins.
    let offset: Int

    /// The members of an object; nil for anything else.
    var members: [Member]? {
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
