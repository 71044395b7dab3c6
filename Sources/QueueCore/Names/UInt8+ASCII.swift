extension UInt8 {
    /// Lets a byte of UTF-8 be compared with a literal: `byte == "-"`.
    static func == (byte: UInt8, scalar: Unicode.Scalar) -> Bool { byte == UInt8(ascii: scalar) }
}
