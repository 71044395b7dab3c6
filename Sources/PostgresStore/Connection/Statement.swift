/// A statement that the program runs: its name, in errors and logs, and its text.
///
/// Statements are constants beside the function that binds them. Each connection prepares a statement on first use.
/// Parameters have names: `where id = $queue_id`. PostgreSQL numbers its parameters, so the names are replaced by
/// numbers.
package struct Statement: Sendable {
    /// A few words with underscores, for readers: `claim`, `finish_duty`.
    package let name: String
    /// The text that PostgreSQL gets, with `$1` for the first parameter.
    package let sql: String
    /// The names of the parameters: the first one is `$1`.
    let parameterNames: [String]
    /// The name under which the server prepares the statement. It contains a fingerprint of the text: a transaction
    /// pooler may give one server connection to several versions of this program in turn, and a name alone could run
    /// another version's text.
    let preparedName: String

    package init(_ name: String, _ sql: String) {
        var numbering = ParameterNumbering()
        self.name = name
        self.sql = numbering.number(sql)
        parameterNames = numbering.names
        preparedName = "pushq_\(name.prefix(40))_\(String(Self.fingerprint(of: self.sql), radix: 16))"
    }

    /// The values of the parameters in their order.
    ///
    /// A name that is missing, unknown or repeated is a mistake in this program: statement and call stand side by side.
    /// It ends the program with a message that says where.
    func values(of parameters: Parameters) -> [Parameter] {
        guard parameters.pairs.count == parameterNames.count else {
            fatalError("\(name) has the parameters \(parameterNames), and is given \(parameters.pairs.map(\.name))")
        }
        return parameterNames.indices.map { index in
            // Most calls name the parameters in the order of the statement.
            let pair = parameters.pairs[index]
            if pair.name == parameterNames[index] { return pair.value }
            guard let other = parameters.pairs.first(where: { $0.name == parameterNames[index] }) else {
                fatalError("\(name) is not given its parameter $\(parameterNames[index])")
            }
            return other.value
        }
    }

    /// FNV-1a, 64 bits.
    private static func fingerprint(of text: String) -> UInt64 {
        text.utf8.reduce(0xcbf2_9ce4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
    }
}

/// Replaces the names of parameters by numbers, in the order in which they first occur. Does not change comments and
/// texts in single quotes.
private struct ParameterNumbering {
    private(set) var names: [String] = []

    mutating func number(_ sql: String) -> String {
        var text: [UInt8] = []
        var rest = Array(sql.utf8)[...]
        while let byte = rest.first {
            if rest.starts(with: "--".utf8) {
                text += Self.take(&rest) { $0 != UInt8(ascii: "\n") }
            } else if byte == UInt8(ascii: "'") {
                text.append(rest.removeFirst())
                text += Self.take(&rest) { $0 != UInt8(ascii: "'") }
                text += rest.popFirst().map { [$0] } ?? []
            } else if byte == UInt8(ascii: "$") {
                rest.removeFirst()
                let name = Self.take(&rest, while: Self.isPartOfName)
                guard !name.isEmpty else { fatalError("a parameter without a name in: \(sql)") }
                text += Array("$\(number(of: String(decoding: name, as: UTF8.self)))".utf8)
            } else {
                text.append(rest.removeFirst())
            }
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// Numbers a parameter. If its name is a number already, as in some tests, it keeps that number.
    private mutating func number(of name: String) -> Int {
        if let number = Int(name) {
            while names.count < number { names.append("\(names.count + 1)") }
            return number
        }
        if let index = names.firstIndex(of: name) { return index + 1 }
        names.append(name)
        return names.count
    }

    private static func isPartOfName(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"): true
        default: false
        }
    }

    private static func take(_ rest: inout ArraySlice<UInt8>, while isWanted: (UInt8) -> Bool) -> ArraySlice<UInt8> {
        let taken = rest.prefix(while: isWanted)
        rest = rest.dropFirst(taken.count)
        return taken
    }
}
