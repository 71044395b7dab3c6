/// FNV-1a over a payload, of which the parts come one after the other.
struct PayloadDigest {
    private(set) var value: UInt64 = 0xcbf2_9ce4_8422_2325

    /// Of a payload that has not come yet.
    init() {}

    /// Of a whole one.
    init(of payload: [UInt8]) { add(payload.span) }

    mutating func add(_ part: Span<UInt8>) {
        for index in part.indices { value = (value ^ UInt64(part[index])) &* 0x100_0000_01b3 }
    }
}
