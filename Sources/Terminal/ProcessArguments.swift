import Glibc

/// This process's command line.
enum ProcessArguments {
    /// The words after the executable's name.
    static var words: [String] { Array(CommandLine.arguments.dropFirst()) }

    /// The number of the first word that is not UTF-8 text, from 1; nil if all are. ``words`` cannot show it, because
    /// invalid bytes are replaced there.
    static var firstBroken: Int? {
        for index in 1..<max(1, Int(CommandLine.argc)) {
            guard let word = unsafe CommandLine.unsafeArgv[index] else { continue }
            let bytes = unsafe UnsafeBufferPointer(start: word, count: strlen(word)).map(UInt8.init(bitPattern:))
            if String(validating: bytes, as: UTF8.self) == nil { return index }
        }
        return nil
    }

    /// The name of the executable, without its folder.
    static var program: String { CommandLine.arguments.first?.split(separator: "/").last.map(String.init) ?? "pushq" }

    /// Overwrites passwords, and device tokens except for their beginning, in the memory from which `ps` and `/proc`
    /// read a command line, so that the machine's other users do not see them. First makes the standard library copy
    /// the arguments, which it does on first access. Until then, for a few milliseconds, other users can see them.
    static func hideSecrets() {
        _ = CommandLine.arguments
        for index in 1..<max(1, Int(CommandLine.argc)) {
            guard let word = unsafe CommandLine.unsafeArgv[index] else { continue }
            let bytes = unsafe UnsafeMutableBufferPointer(start: word, count: strlen(word))
            let text = unsafe bytes.map(UInt8.init(bitPattern:))
            let isToken = TokenDigits.isToken(at: index, of: CommandLine.arguments)
            let digits = TokenDigits.positions(in: text, isToken: isToken)
            for position in ConnectionPassword.positions(in: text) + digits {
                unsafe bytes[position] = CChar(UInt8(ascii: "*"))
            }
        }
    }
}

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

/// Finds device tokens: 40 hexadecimal digits, which are 20 bytes, with nothing between them, or what iOS prints there:
/// angle brackets and spaces. Where a token is expected, it finds shorter ones, too.
package enum TokenDigits {
    private static let fewest = 40
    /// The number of digits that stay visible, as in a redacted token.
    private static let shown = 8

    /// Whether a token is expected as this word of a command line: the value of `--token`, or any word of the commands
    /// for devices.
    package static func isToken(at index: Int, of words: [String]) -> Bool {
        words[index].hasPrefix("--token=")
            || words[..<index].last == "--token" || words[..<index].dropFirst().contains("device")
    }

    /// Returns the positions of the digits of `word` to hide.
    package static func positions(in word: [UInt8], isToken: Bool = false) -> [Int] {
        var positions: [Int] = []
        var digits: [Int] = []
        for (index, byte) in (word + [0]).enumerated() {
            if isDigit(byte) {
                digits.append(index)
            } else if !isBetweenDigits(byte) {
                if digits.count >= (isToken ? shown + 1 : fewest) { positions += digits.dropFirst(shown) }
                digits = []
            }
        }
        return positions
    }

    private static func isBetweenDigits(_ byte: UInt8) -> Bool {
        [UInt8(ascii: " "), UInt8(ascii: "<"), UInt8(ascii: ">")].contains(byte)
    }

    private static func isDigit(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"),
            UInt8(ascii: "A")...UInt8(ascii: "F"):
            true
        default: false
        }
    }
}
