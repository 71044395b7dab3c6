/// The rules of HTTP/2 for all fields, whatever they mean (RFC 9113 §8.2, §8.3).
enum FieldRules {
    private static let trailersText = Array("trailers".utf8)

    /// Whether the name of a regular field is valid: no upper case, no control octet, no space, nothing beyond ASCII
    /// and no colon (RFC 9113 §8.2.1).
    static func isValidName(_ name: Span<UInt8>) -> Bool {
        guard !name.isEmpty else { return false }
        for index in name.indices {
            let octet = name[index]
            let isUpperCase = octet >= UInt8(ascii: "A") && octet <= UInt8(ascii: "Z")
            if octet <= 0x20 || octet >= 0x7f || isUpperCase || octet == UInt8(ascii: ":") { return false }
        }
        return true
    }

    /// Whether a value has neither NUL nor line break, and no space around it (RFC 9113 §8.2.1).
    static func isValidValue(_ value: Span<UInt8>) -> Bool {
        guard !value.isEmpty else { return true }
        func isSpace(_ octet: UInt8) -> Bool { octet == 0x20 || octet == 0x09 }
        if isSpace(value[0]) || isSpace(value[value.count &- 1]) { return false }
        for index in value.indices {
            let octet = value[index]
            if octet < 0x0e, octet == 0 || octet == 0x0a || octet == 0x0d { return false }
        }
        return true
    }

    /// The kind of a section. The rules for pseudo fields depend on it.
    enum Kind {
        case request
        case response
        case trailers
    }

    /// The facts about the message that a well-formed section contains.
    struct Summary {
        /// The value of `:status`, 0 outside responses.
        var status = 0
        /// The value of `content-length`, if there is one.
        var contentLength: Int?
    }

    /// Checks a section against the rules. Returns nil if it makes the message malformed (RFC 9113 §8.1.1).
    static func check(_ section: borrowing FieldSection, as kind: Kind) -> Summary? {
        var summary = Summary()
        var pseudoFieldsSeen: UInt8 = 0
        var isPastPseudoFields = false
        for field in section.fields {
            guard field.isWellFormed else { return nil }
            let number = field.name.rawValue
            if number != 0, number <= FieldName.status.rawValue {
                // A pseudo field stands before regular fields, and only once (RFC 9113 §8.3).
                let bit = UInt8(1) << number
                if isPastPseudoFields || pseudoFieldsSeen & bit != 0 { return nil }
                pseudoFieldsSeen |= bit
            } else {
                isPastPseudoFields = true
                guard !field.name.isConnectionSpecific, isAllowed(field, in: section, &summary) else { return nil }
            }
        }
        return hasNeededPseudoFields(section, kind, pseudoFieldsSeen, &summary) ? summary : nil
    }

    /// Returns the status of a final response, whatever else is wrong with it; 0 if it has none, or several that
    /// differ.
    static func readableStatus(of section: borrowing FieldSection) -> Int {
        let status = section.status
        guard (200...999).contains(status) else { return 0 }
        for field in section.fields where field.name == .status {
            guard section.withValue(of: field, { Int(decimal: $0) }) == status else { return 0 }
        }
        return status
    }

    private static func isAllowed(
        _ field: FieldSection.Field, in section: borrowing FieldSection, _ summary: inout Summary
    ) -> Bool {
        if field.name == .te {  // Only "trailers" may be said (RFC 9113 §8.2.2).
            return section.withValue(of: field) { $0.isEqual(to: trailersText.span) }
        }
        if field.name == .contentLength {
            guard let length = section.withValue(of: field, { Int(decimal: $0) }) else { return false }
            if let earlier = summary.contentLength, earlier != length { return false }
            summary.contentLength = length
        }
        return true
    }

    private static func hasNeededPseudoFields(
        _ section: borrowing FieldSection, _ kind: Kind, _ seen: UInt8, _ summary: inout Summary
    ) -> Bool {
        func bit(_ name: FieldName) -> UInt8 { 1 << name.rawValue }
        switch kind {
        case .request:  // RFC 9113 §8.3.1; CONNECT, which has no scheme and path, is of no use here.
            let needed = bit(.method) | bit(.scheme) | bit(.path)
            guard seen & needed == needed, seen & bit(.status) == 0 else { return false }
            return section.withValue(of: FieldName.path) { !$0.isEmpty } ?? false
        case .response:  // RFC 9113 §8.3.2
            guard seen == bit(.status) else { return false }
            summary.status = section.status
            return summary.status >= 100
        case .trailers:
            return seen == 0
        }
    }
}
