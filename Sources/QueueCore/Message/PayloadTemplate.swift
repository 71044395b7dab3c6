/// A payload that is joined for each recipient: pieces of its text, and between them attributes of the recipient, and
/// the number for the badge of its app.
///
/// Attributes come as PostgreSQL writes them in JSON, and what stands between two pieces is the inside of a JSON
/// string. So joining copies bytes, and what comes out is JSON whatever is in the attributes.
package struct PayloadTemplate: Sendable {
    /// A place between two pieces.
    private struct Slot {
        /// Where in the text the piece before it ends, and where the next one begins.
        let range: Range<Int>
        /// Which attribute is put there; nil: none, but always `fallback`.
        var attribute: Int?
        /// Bytes of the text that are put there if the attribute is missing; nil: there is no default.
        var fallback: Range<Int>?
        /// The figure for the badge is put there.
        var isBadge = false
    }

    /// The largest figure for a badge: a count that is higher is sent as this.
    package static let largestFigure = 99999
    private static let longestFigureBytes = 5

    private let text: [UInt8]
    private let slots: [Slot]

    /// Reads a payload that was accepted when its campaign was started. Anything else is sent as it is.
    /// - Parameters:
    ///   - attributes: what the message has placeholders for, in the order in which values are given.
    ///   - hasPlaceholders: whether braces stand for attributes: not in a message that is no campaign's.
    ///   - raisesBadge: whether its badge is `{"increment": 1}`, which a figure takes the place of.
    package init(_ payload: [UInt8], attributes: [String], hasPlaceholders: Bool = true, raisesBadge: Bool = false) {
        text = payload
        let placeholders = hasPlaceholders ? (try? PlaceholderReader.read(payload)) ?? [] : []
        let badge = raisesBadge ? Self.badge(in: payload).map { [Slot(range: $0, isBadge: true)] } ?? [] : []
        let filled = placeholders.map { placeholder in
            Slot(
                range: placeholder.range,
                attribute: placeholder.attribute.flatMap { attributes.firstIndex(of: $0) },
                fallback: placeholder.fallback)
        }
        slots = badge.isEmpty ? filled : (filled + badge).sorted { $0.range.lowerBound < $1.range.lowerBound }
    }

    /// Where a payload says what its badge is.
    private static func badge(in payload: [UInt8]) -> Range<Int>? {
        var reader = JSONReader(String(decoding: payload, as: UTF8.self))
        return (try? reader.read())?.at("aps.badge")?.range
    }

    /// The length of a payload in bytes, with the longest figure for a badge; nil if it lacks an attribute that has no
    /// default.
    /// - Parameter value: the place of an attribute, as JSON, in a text of the caller's; empty for none.
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

    /// Appends a payload to `output`. To be called only if ``byteCount(_:)`` gives a number.
    /// - Parameters:
    ///   - figure: the number for the badge.
    ///   - values: the text in which `value` names places.
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
