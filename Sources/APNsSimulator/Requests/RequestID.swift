/// An `apns-id`: 128 bits, compared as a number and written as a UUID.
struct RequestID: Hashable {
    static let textByteCount = 36

    let high: UInt64
    let low: UInt64

    init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// A new one, for a request that came without (UUID version 4).
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

/// Hexadecimal digits as octets.
enum HexDigits {
    static func value(of octet: UInt8) -> UInt8? {
        switch octet {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): octet - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): octet - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): octet - UInt8(ascii: "A") + 10
        default: nil
        }
    }

    static func digit(of value: UInt8, isUpperCase: Bool = false) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") + value : (isUpperCase ? UInt8(ascii: "A") : UInt8(ascii: "a")) + value - 10
    }

    /// Appends all digits of a number, leading zeros too.
    static func append<Number: FixedWidthInteger>(_ number: Number, to text: inout [UInt8]) {
        for shift in stride(from: Number.bitWidth - 4, through: 0, by: -4) {
            text.append(digit(of: UInt8(truncatingIfNeeded: number >> Number(shift)) & 0xf))
        }
    }
}
