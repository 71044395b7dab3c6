/// A payload that is joined for each recipient: pieces of its text, and between them the recipient's attributes and the
/// number for the app's badge.
///
/// Attributes come as JSON that PostgreSQL writes, and between two pieces there is the inside of a JSON string. So
/// joining copies bytes, and the result is JSON whatever the attributes contain.
package struct PayloadTemplate: Sendable {
    /// A place between two pieces.
    private struct Slot {
        /// The range of the text that the slot replaces, between two pieces.
        let range: Range<Int>
        /// The index of the attribute to insert; nil: none, always insert `fallback`.
        var attribute: Int?
        /// The bytes of the text to insert if the attribute is missing; nil: there is no default.
        var fallback: Range<Int>?
        /// Whether to insert the number for the badge.
        var isBadge = false
    }

    /// The largest number for a badge: a higher count is sent as this number.
    package static let largestFigure = 99999
    private static let longestFigureBytes = 5

    private let text: [UInt8]
    private let slots: [Slot]

    /// Reads a payload that was accepted when its campaign was started. Any other payload is sent unchanged.
    /// - Parameters:
    ///   - attributes: the attributes that the message has placeholders for, in the order of the values.
    ///   - hasPlaceholders: whether braces stand for attributes; only in the messages of campaigns.
    ///   - raisesBadge: whether its badge is `{"increment": 1}`, which a number replaces.
    package init(_ payload: [UInt8], attributes: [String], hasPlaceholders: Bool = true, raisesBadge: Bool = false) {
        text = payload
        let placeholders = hasPlaceholders ? (try? PlaceholderReader.read(payload)) ?? [] : []
        let badge = raisesBadge ? Self.badge(in: payload).map { [Slot(range: $0, isBadge: true)] } ?? [] : []
        let filled = placeholders.map { placeholder in
            Slot(
                range: placeholder.range,
                attribute: placeholder.attribute.flatMap { name in
                    // Names differ if their bytes do, as in PostgreSQL.
                    attributes.firstIndex { $0.utf8.elementsEqual(name.utf8) }
                },
                fallback: placeholder.fallback)
        }
        slots = badge.isEmpty ? filled : (filled + badge).sorted { $0.range.lowerBound < $1.range.lowerBound }
    }

    /// The bytes of memory that the template takes. Of a text with many placeholders, these are several times its
    /// length.
    package var size: Int { text.count + slots.count * MemoryLayout<Slot>.stride }

    /// The range of the badge's value in a payload.
    private static func badge(in payload: [UInt8]) -> Range<Int>? {
        var reader = JSONReader(String(decoding: payload, as: UTF8.self))
        return (try? reader.read())?.at("aps.badge")?.range
    }

    /// The length of a payload in bytes, with the longest number for a badge; nil if it lacks an attribute that has no
    /// default.
    /// - Parameter value: returns the range of an attribute, as JSON, in a text of the caller's; empty if it is
    ///   missing.
    package func byteCount(_ value: (Int) -> Range<Int>) -> Int? {
        var count = text.count
        for slot in slots {
            count -= slot.range.count
            if slot.isBadge {
                count += Self.longestFigureBytes
            } else if let attribute = slot.attribute, case let range = value(attribute), !range.isEmpty {
                count += range.count
            } else if let fallback = slot.fallback {
                count += fallback.count
            } else {
                return nil
            }
        }
        return count
    }

    /// Appends a payload to `output`. Call it only if ``byteCount(_:)`` returns a number.
    /// - Parameters:
    ///   - figure: the number for the badge.
    ///   - values: the text to which the ranges of `value` refer.
    ///   - value: as in ``byteCount(_:)``.
    package func append(
        to output: inout [UInt8], figure: Int = 0, _ values: [UInt8], _ value: (Int) -> Range<Int>
    ) {
        var place = 0
        for slot in slots {
            output += text[place..<slot.range.lowerBound]
            place = slot.range.upperBound
            if slot.isBadge {
                output += String(figure).utf8
            } else if let attribute = slot.attribute, case let range = value(attribute), !range.isEmpty {
                output += values[range]
            } else if let fallback = slot.fallback {
                output += text[fallback]
            }
        }
        output += text[place...]
    }
}
