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

    /// Appends all digits of a number, including leading zeros.
    static func append<Number: FixedWidthInteger>(_ number: Number, to text: inout [UInt8]) {
        for shift in stride(from: Number.bitWidth - 4, through: 0, by: -4) {
            text.append(digit(of: UInt8(truncatingIfNeeded: number >> Number(shift)) & 0xf))
        }
    }
}
