/// A payload that is joined for each recipient: pieces of its text, and between them attributes of the recipient.
///
/// Attributes come as PostgreSQL writes them in JSON, and what stands between two pieces is the inside of a JSON
/// string. So joining copies bytes, and what comes out is JSON whatever is in the attributes.
package struct PayloadTemplate: Sendable {
    /// A place between two pieces.
    private struct Slot {
        /// Where in the text the piece before it ends, and where the next one begins.
        let range: Range<Int>
        /// Which attribute is put there; nil: none, but always `fallback`.
        let attribute: Int?
        /// Bytes of the text that are put there if the attribute is missing; nil: there is no default.
        let fallback: Range<Int>?
    }

    private let text: [UInt8]
    private let slots: [Slot]

    /// Reads a payload that was accepted when its campaign was started. Anything else is sent as it is.
    /// - Parameter attributes: what the message has placeholders for, in the order in which values are given.
    package init(_ payload: [UInt8], attributes: [String]) {
        text = payload
        let placeholders = (try? PlaceholderReader.read(payload)) ?? []
        slots = placeholders.map { placeholder in
            Slot(
                range: placeholder.range,
                attribute: placeholder.attribute.flatMap { attributes.firstIndex(of: $0) },
                fallback: placeholder.fallback)
        }
    }

    /// The length of a payload in bytes; nil if it lacks an attribute that has no default.
    /// - Parameter value: the place of an attribute, as JSON, in a text of the caller's; empty for none.
    package func byteCount(_ value: (Int) -> Range<Int>) -> Int? {
        var count = text.count
        for slot in slots {
            count -= slot.range.count
            if let attribute = slot.attribute, case let range = value(attribute), !range.isEmpty {
                count += range.count
            } else if let fallback = slot.fallback {
                count += fallback.count
            } else {
                return nil
            }
        }
        return count
    }

    /// Appends a payload to `output`. To be called only if ``byteCount(_:)`` gives a number.
    /// - Parameters:
    ///   - values: the text in which `value` names places.
    ///   - value: as in ``byteCount(_:)``.
    package func append(to output: inout [UInt8], _ values: [UInt8], _ value: (Int) -> Range<Int>) {
        var place = 0
        for slot in slots {
            output += text[place..<slot.range.lowerBound]
            place = slot.range.upperBound
            if let attribute = slot.attribute, case let range = value(attribute), !range.isEmpty {
                output += values[range]
            } else if let fallback = slot.fallback {
                output += text[fallback]
            }
        }
        output += text[place...]
    }
}
