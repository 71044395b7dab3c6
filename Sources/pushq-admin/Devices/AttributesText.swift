import PostgresStore
import QueueCore
import Terminal

/// The attributes of a device as an argument: a JSON object. The database checks its contents.
struct AttributesText: ArgumentValue {
    /// The object; empty if the argument is empty.
    let json: String

    static let placeholder = "JSON"

    static func parse(_ text: String) throws(InvalidValue) -> AttributesText {
        guard !text.isEmpty else { return AttributesText(json: "{}") }
        var reader = JSONReader(text)
        let node: JSONNode
        do {
            node = try reader.read()
        } catch {
            switch error {
            case .malformed(let offset, let expected):
                let place = TextPosition(ofByte: offset, in: text).column
                throw InvalidValue("is not JSON: expected \(expected) at character \(place)")
            case .tooDeep:
                throw InvalidValue("has objects or arrays in it: use texts, numbers and booleans")
            }
        }
        guard node.members != nil else {
            throw InvalidValue("is not a JSON object: write one such as {\"plan\": \"pro\"}")
        }
        guard reader.invalidEscape == nil else {
            throw InvalidValue("has an escape that is no character, such as \\u0000: leave it out")
        }
        // PostgreSQL stores numbers without an exponent, so a short number can become longer than PostgreSQL can read.
        guard node.storedBytes <= 8192 else {
            throw InvalidValue("has \(node.storedBytes) bytes as it is stored: use at most 8192")
        }
        return AttributesText(json: text)
    }
}
