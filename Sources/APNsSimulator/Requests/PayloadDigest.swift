/// FNV-1a over a payload that comes in parts.
struct PayloadDigest {
    private(set) var value: UInt64 = 0xcbf2_9ce4_8422_2325

    /// The digest of an empty payload, to which parts are added.
    init() {}

    /// The digest of a whole payload.
    init(of payload: [UInt8]) { add(payload.span) }

    mutating func add(_ part: Span<UInt8>) {
        for index in part.indices { value = (value ^ UInt64(part[index])) &* 0x100_0000_01b3 }
    }
}
