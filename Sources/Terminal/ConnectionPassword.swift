/// Finds passwords in libpq's connection strings: `postgres://user:PASSWORD@host/database`, `…?password=PASSWORD` and
/// `host=… password=PASSWORD` (PostgreSQL manual, 34.1.1).
package enum ConnectionPassword {
    /// The positions of the bytes of passwords in `word`.
    package static func positions(in word: [UInt8]) -> [Int] {
        Array(inAuthority(of: word)) + inParameters(of: word)
    }

    private static func inAuthority(of word: [UInt8]) -> Range<Int> {
        guard let scheme = word.firstRange(of: Array("://".utf8)) else { return 0..<0 }
        // libpq takes a question mark for a part of the password.
        let authority = word[scheme.upperBound...].prefix { $0 != UInt8(ascii: "/") }
        guard let at = authority.lastIndex(of: UInt8(ascii: "@")),
            let colon = authority[..<at].firstIndex(of: UInt8(ascii: ":"))
        else { return 0..<0 }
        return colon + 1..<at
    }

    /// `password` and `sslpassword`. The word may also occur elsewhere, such as in the name of a user.
    private static func inParameters(of word: [UInt8]) -> [Int] {
        word.ranges(of: Array("password".utf8)).flatMap { inParameter(of: word, behind: $0) }
    }

    private static func inParameter(of word: [UInt8], behind key: Range<Int>) -> Range<Int> {
        let space = UInt8(ascii: " ")
        let rest = word[key.upperBound...].drop { $0 == space }
        guard rest.first == UInt8(ascii: "=") else { return 0..<0 }
        let value = rest.dropFirst().drop { $0 == space }
        if isURL(word) {
            let plain = value.prefix { $0 != UInt8(ascii: "&") }
            return plain.startIndex..<plain.endIndex
        }
        let quotation = UInt8(ascii: "'")
        if value.first == quotation { return part(of: value.dropFirst(), until: [quotation]) }
        return part(of: value, until: [9, 10, 11, 12, 13, 32])
    }

    private static func isURL(_ word: [UInt8]) -> Bool {
        ["postgres://", "postgresql://"].contains { word.firstRange(of: Array($0.utf8)) != nil }
    }

    /// Returns the range up to the first of these bytes that no backslash escapes.
    private static func part(of value: ArraySlice<UInt8>, until ends: [UInt8]) -> Range<Int> {
        var end = value.startIndex
        while end < value.endIndex, !ends.contains(value[end]) { end += value[end] == UInt8(ascii: "\\") ? 2 : 1 }
        return value.startIndex..<min(end, value.endIndex)
    }
}
