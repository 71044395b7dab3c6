/// A key that was pressed on a terminal.
package enum Key: Equatable, Sendable {
    case character(Character)
    case enter, escape, backspace, tab
    case up, down, pageUp, pageDown, home, end

    /// Reads the bytes that a terminal sent at once: characters in UTF-8, and the sequences that xterm sends for other
    /// keys. Unknown sequences are left out. An escape character that begins no sequence is the Escape key.
    package static func keys(in bytes: [UInt8]) -> [Key] {
        var keys: [Key] = []
        var rest = bytes[...]
        while let byte = rest.first {
            if byte == 0x1B {
                let (key, count) = sequence(rest)
                if let key { keys.append(key) }
                rest = rest.dropFirst(count)
                continue
            }
            let count = max(1, length(of: byte))
            switch byte {
            case 0x0D, 0x0A: keys.append(.enter)
            case 0x08, 0x7F: keys.append(.backspace)
            case 0x09: keys.append(.tab)
            case ..<0x20: break
            default:
                let text = String(decoding: rest.prefix(count), as: UTF8.self)
                if let character = text.first, character != "\u{FFFD}" { keys.append(.character(character)) }
            }
            rest = rest.dropFirst(count)
        }
        return keys
    }

    /// Returns the key whose sequence begins here, and the length of the sequence in bytes: `ESC [ A`, `ESC O A`, `ESC
    /// [ 5 ~`.
    private static func sequence(_ bytes: ArraySlice<UInt8>) -> (key: Key?, count: Int) {
        let body = bytes.dropFirst()
        guard let opening = body.first, opening == UInt8(ascii: "[") || opening == UInt8(ascii: "O") else {
            return (.escape, 1)
        }
        let parameters = body.dropFirst().prefix { (0x20..<0x40).contains($0) }
        guard let final = body.dropFirst(1 + parameters.count).first else { return (nil, bytes.count) }
        let count = 3 + parameters.count
        switch (final, String(decoding: parameters, as: UTF8.self)) {
        case (UInt8(ascii: "A"), _): return (.up, count)
        case (UInt8(ascii: "B"), _): return (.down, count)
        case (UInt8(ascii: "H"), _), (UInt8(ascii: "~"), "1"), (UInt8(ascii: "~"), "7"): return (.home, count)
        case (UInt8(ascii: "F"), _), (UInt8(ascii: "~"), "4"), (UInt8(ascii: "~"), "8"): return (.end, count)
        case (UInt8(ascii: "~"), "5"): return (.pageUp, count)
        case (UInt8(ascii: "~"), "6"): return (.pageDown, count)
        default: return (nil, count)
        }
    }

    /// Returns the number of bytes of a character that begins with this byte.
    private static func length(of byte: UInt8) -> Int {
        switch byte {
        case 0xC0..<0xE0: 2
        case 0xE0..<0xF0: 3
        case 0xF0...: 4
        default: 1
        }
    }
}
