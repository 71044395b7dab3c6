/// Identifies pushes of the binary interface in the simulator's record.
package enum BinaryRecord {
    /// The identifier that the record has instead of an `apns-id`.
    package static func id(token: [UInt8], payload: [UInt8]) -> String {
        var text: [UInt8] = []
        RequestID(token: token, payload: payload).write(into: &text)
        return String(decoding: text, as: UTF8.self)
    }
}

extension RequestID {
    /// The identifier of a push that has none: FNV-1a over its token and its payload, in the form of a UUID of version
    /// 8 (RFC 9562 §5.8), like pushq's own.
    init(token: [UInt8], payload: [UInt8]) {
        let hash = { (bytes: [UInt8]) in
            bytes.reduce(0xcbf2_9ce4_8422_2325 as UInt64) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
        }
        self.init(high: hash(token) & ~0xf000 | 0x8000, low: hash(payload) & ~(0xc000 << 48) | 0x8000 << 48)
    }
}
