import QueueCore

/// The `:path` of a push to one device, `/3/device/` and the token in hexadecimal. On the stack, since there is one for
/// every push.
struct RequestPath {
    private static let prefix: InlineArray<10, UInt8> = [
        0x2F, 0x33, 0x2F, 0x64, 0x65, 0x76, 0x69, 0x63, 0x65, 0x2F,  // /3/device/
    ]

    private(set) var text = InlineArray<210, UInt8>(repeating: 0)
    /// How much of `text` is in use.
    let byteCount: Int

    init(deviceToken: Span<UInt8>) {
        precondition(
            deviceToken.count <= DeviceToken.maximumBytes, "a device token is checked when it is registered")
        for index in Self.prefix.indices { text[index] = Self.prefix[index] }
        var position = Self.prefix.count
        for index in deviceToken.indices {
            text[position] = Self.digit(deviceToken[index] >> 4)
            text[position &+ 1] = Self.digit(deviceToken[index] & 15)
            position &+= 2
        }
        byteCount = position
    }

    private static func digit(_ value: UInt8) -> UInt8 {
        value &+ (value < 10 ? UInt8(ascii: "0") : UInt8(ascii: "a") - 10)
    }
}
