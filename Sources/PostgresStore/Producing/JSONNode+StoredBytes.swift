package import QueueCore

extension JSONNode {
    /// The number of bytes of this value as PostgreSQL writes it from jsonb: with spaces, each member once, and numbers
    /// without an exponent. `pushq.attributes_problem` measures in the same way.
    package var storedBytes: Int {
        switch value {
        case .object(let members):
            // The key is bytes, because Swift takes names for equal that differ in how an accent is written.
            let last = Dictionary(members.map { (Array($0.name.utf8), $0) }, uniquingKeysWith: { _, last in last })
            return 2 + last.values.reduce(0) { $0 + Self.bytes(of: $1.name) + 2 + $1.node.storedBytes }
                + 2 * max(0, last.count - 1)
        case .array(let elements):
            return 2 + elements.reduce(0) { $0 + $1.storedBytes } + 2 * max(0, elements.count - 1)
        case .string(let text): return Self.bytes(of: text)
        case .number(let written): return Self.bytes(ofNumber: written)
        case .bool(let value): return value ? 4 : 5
        case .null: return 4
        }
    }

    private static func bytes(of text: String) -> Int {
        text.utf8.reduce(2) { count, byte in
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"), 0x08, 0x09, 0x0A, 0x0C, 0x0D: count + 2
            case ..<0x20: count + 6
            default: count + 1
            }
        }
    }

    /// The bytes of a number. A number that PostgreSQL may refuse counts as more bytes than are ever stored.
    private static func bytes(ofNumber written: String) -> Int {
        let most = 100_000
        let parts = written.utf8.split(maxSplits: 1) { $0 | 0x20 == UInt8(ascii: "e") }
        let exponent = parts.count == 1 ? 0 : Int(String(decoding: parts[1], as: UTF8.self)) ?? most
        guard exponent.magnitude < most else { return most }
        let digits = parts[0].filter { $0 != UInt8(ascii: "-") }
        let point = digits.firstIndex(of: UInt8(ascii: ".")) ?? digits.count
        let decimals = max(0, digits.count - point - 1) - exponent
        let significant = digits.filter { $0 != UInt8(ascii: ".") }.drop { $0 == UInt8(ascii: "0") }.count
        let isNegative = significant > 0 && parts[0].first == UInt8(ascii: "-")
        let whole = significant > 0 ? max(1, significant - decimals) : 1
        return (isNegative ? 1 : 0) + whole + (decimals > 0 ? 1 + decimals : 0)
    }
}
