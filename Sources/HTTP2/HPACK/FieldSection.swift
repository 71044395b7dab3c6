/// The fields of one message, in the order of arrival: the text of all names and values, and a row for each field.
///
/// A connection fills the same section again for each header block, so it costs no allocation. The section is valid
/// only during the event that carries it.
package struct FieldSection: ~Copyable {
    /// One field. Its name and value are adjacent in the section's text.
    package struct Field {
        package let name: FieldName
        /// Whether name and value obey RFC 9113 §8.2.1.
        let isWellFormed: Bool
        fileprivate let start: Int
        fileprivate let nameByteCount: Int
        fileprivate let valueByteCount: Int
        /// The number of the dynamic table's entry that the field was read from or put into, 0 if there is none. Within
        /// a connection the same identity means the same name and value, so the owner need not derive again what it
        /// derived from a value (a checked provider token, a topic).
        package let identity: UInt64
    }

    private var text: [UInt8] = []
    package private(set) var fields: [Field] = []
    /// The size of the list: name, value and 32 octets for each field (RFC 7541 §4.1).
    private(set) var size = 0
    /// The maximum number of octets of text.
    private var textLimit = 0

    package init() {}

    package var count: Int { fields.count }

    package func withName<Result>(of field: Field, _ body: (Span<UInt8>) -> Result) -> Result {
        body(text.span.extracting(field.start..<(field.start &+ field.nameByteCount)))
    }

    package func withValue<Result>(of field: Field, _ body: (Span<UInt8>) -> Result) -> Result {
        let start = field.start &+ field.nameByteCount
        return body(text.span.extracting(start..<(start &+ field.valueByteCount)))
    }

    /// Calls `body` with the value of the first field of that name; nil if there is none.
    package func withValue<Result>(of name: FieldName, _ body: (Span<UInt8>) -> Result) -> Result? {
        for field in fields where field.name == name { return withValue(of: field, body) }
        return nil
    }

    /// The value of the first field of that name, as text; nil if there is none.
    package func text(of name: FieldName) -> String? {
        withValue(of: name) { String(decoding: Array($0), as: UTF8.self) }
    }

    /// The value of `:status`, 0 if it is missing or not three digits.
    package var status: Int {
        withValue(of: .status) { value in
            guard value.count == 3 else { return 0 }
            return Int(decimal: value) ?? 0
        } ?? 0
    }
}

// The decoder fills a section: first the text, then the row that says where it is.
extension FieldSection {
    /// Empties the section, for a list whose names and values together may have `textLimit` octets.
    mutating func removeAll(textLimit: Int) {
        text.removeAll(keepingCapacity: true)
        fields.removeAll(keepingCapacity: true)
        size = 0
        self.textLimit = textLimit
    }

    var textByteCount: Int { text.count }

    /// How many octets of text it still takes. Never negative, because every method that adds text checks the limit
    /// first.
    private var room: Int { textLimit &- text.count }

    /// Adds text; fails with `headerListTooLarge` when there is no room for all of it.
    mutating func append(text bytes: Span<UInt8>) throws(Violation) {
        guard bytes.count <= room else { throw .headerListTooLarge }
        text.append(bytes)
    }

    /// The same for a part of `bytes`.
    mutating func append(text bytes: [UInt8], _ range: Range<Int>) throws(Violation) {
        try append(text: bytes.span.extracting(range))
    }

    /// Adds what `fill` writes into room for `count` octets, or for the remaining room if that is less.
    mutating func appendText(
        upTo count: Int, _ fill: (inout OutputSpan<UInt8>) throws(Violation) -> Void
    ) throws(Violation) {
        try text.append(addingCapacity: min(count, room), initializingWith: fill)
    }

    /// Adds the row of a field whose name starts at `start`, whose value starts at `valueStart` and ends with the text.
    mutating func appendField(
        _ name: FieldName, from start: Int, valueFrom valueStart: Int, isWellFormed: Bool, identity: UInt64
    ) {
        size &+= text.count &- start &+ DynamicTable.entryOverhead
        fields.append(
            Field(
                name: name, isWellFormed: isWellFormed, start: start, nameByteCount: valueStart &- start,
                valueByteCount: text.count &- valueStart, identity: identity))
    }

    func withText<Result>(from start: Int, _ body: (Span<UInt8>) -> Result) -> Result {
        body(text.span.extracting(start..<text.count))
    }
}

extension Int {
    /// Reads a decimal number of up to 18 digits; nil for an empty text or anything else.
    package init?(decimal text: Span<UInt8>) {
        guard !text.isEmpty, text.count <= 18 else { return nil }
        var value = 0
        for index in text.indices {
            let digit = text[index] &- UInt8(ascii: "0")
            guard digit < 10 else { return nil }
            value = value &* 10 &+ Int(digit)
        }
        self = value
    }
}
