/// Language tags (BCP 47), such as `de`, `pt-BR` or `zh-Hant-TW`.
package enum LanguageTag {
    /// The maximum length of a stored tag, in bytes.
    private static let maximumBytes = 35

    /// A tag as it is stored: with hyphens, the language in lower case, the script capitalised, and the region in upper
    /// case (RFC 5646 §2.1.1). `pushq.plain_locale` (migrations/functions/profiles.sql) does the same.
    package static func canonical(_ tag: String) -> String {
        let parts = tag.replacing("_", with: "-").split(separator: "-", omittingEmptySubsequences: false)
        return parts.enumerated().map { place, part in
            let isAlphabetic = part.utf8.allSatisfy { ($0 | 0x20) >= 0x61 && ($0 | 0x20) <= 0x7A }
            if place > 0, part.unicodeScalars.count == 4, isAlphabetic {
                return part.prefix(1).uppercased() + part.dropFirst().lowercased()
            }
            return place > 0 && part.unicodeScalars.count == 2 ? part.uppercased() : part.lowercased()
        }.joined(separator: "-")
    }

    /// The locale that an app reports, without the changes of the phone's user: without the part that Apple's
    /// `Locale.identifier` writes after @, and without extensions if they make it too long. `pushq.reported_locale`
    /// (migrations/functions/reported.sql) does the same.
    package static func reported(_ locale: String) -> String {
        var tag = locale
        if let at = tag.firstIndex(of: "@"), at > tag.startIndex { tag = String(tag[..<at]) }
        guard tag.utf8.count > maximumBytes else { return tag }
        return tag.replacing(/[-_][A-Za-z0-9][-_].*$/.dotMatchesNewlines(), with: "")
    }

    /// Whether a tag is well-formed: a language of two to eight letters, and parts of up to eight letters and digits.
    package static func isValid(_ tag: String) -> Bool {
        tag.utf8.count <= maximumBytes && tag.wholeMatch(of: /[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*/) != nil
    }
}
