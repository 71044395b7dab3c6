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
