/// An `apns-id`: 128 bits, compared as a number and written as a UUID.
struct RequestID: Hashable {
    static let textByteCount = 36

    let high: UInt64
    let low: UInt64

    init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// Returns a new ID, for a request without one (UUID version 4).
    static func random() -> RequestID {
        let high = UInt64.random(in: .min ... .max) & ~0xf000 | 0x4000
        let low = UInt64.random(in: .min ... .max) & ~(0xc000 << 48) | 0x8000 << 48
        return RequestID(high: high, low: low)
    }

    /// Reads a UUID in its 8-4-4-4-12 form, in either case; nil for anything else.
    init?(_ text: Span<UInt8>) {
        guard text.count == Self.textByteCount else { return nil }
        var halves: (UInt64, UInt64) = (0, 0)
        var digitCount = 0
        for index in text.indices {
            if index == 8 || index == 13 || index == 18 || index == 23 {
                guard text[index] == UInt8(ascii: "-") else { return nil }
                continue
            }
            guard let digit = HexDigits.value(of: text[index]) else { return nil }
            if digitCount < 16 {
                halves.0 = halves.0 << 4 | UInt64(digit)
            } else {
                halves.1 = halves.1 << 4 | UInt64(digit)
            }
            digitCount += 1
        }
        self.init(high: halves.0, low: halves.1)
    }

    /// Appends the UUID's text.
    func write(into text: inout [UInt8], isUpperCase: Bool = false) {
        for index in 0..<32 {
            if index == 8 || index == 12 || index == 16 || index == 20 { text.append(UInt8(ascii: "-")) }
            let half = index < 16 ? high : low
            let digit = UInt8(truncatingIfNeeded: half >> UInt64(60 - index % 16 * 4)) & 0xf
            text.append(HexDigits.digit(of: digit, isUpperCase: isUpperCase))
        }
    }
}
