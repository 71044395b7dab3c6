import HTTP2

/// The octets of one frame.
func frame(_ type: UInt8, _ flags: FrameFlags = [], on streamID: UInt32 = 0, _ payload: [UInt8] = []) -> [UInt8] {
    let length = [16, 8, 0].map { UInt8(truncatingIfNeeded: payload.count >> $0) }
    return length + [type, flags.rawValue] + number(streamID) + payload
}

/// A number of 32 bits in network byte order.
func number(_ value: UInt32) -> [UInt8] { [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: value >> $0) } }

func settings(_ entries: (UInt16, UInt32)...) -> [UInt8] {
    frame(FrameType.settings, on: 0, entries.flatMap { [UInt8($0.0 >> 8), UInt8($0.0 & 0xFF)] + number($0.1) })
}

func windowUpdate(_ increment: UInt32, on streamID: UInt32 = 0) -> [UInt8] {
    frame(FrameType.windowUpdate, on: streamID, number(increment))
}

func reset(_ streamID: UInt32, _ code: ErrorCode = .cancel) -> [UInt8] {
    frame(FrameType.rstStream, on: streamID, number(code.rawValue))
}

func ping(_ octet: UInt8, _ flags: FrameFlags = []) -> [UInt8] {
    frame(FrameType.ping, flags, on: 0, Array(repeating: octet, count: 8))
}

/// PRIORITY: the stream depends on another one, with a weight.
func priority(_ streamID: UInt32, dependsOn other: UInt32 = 0, isExclusive: Bool = false, weight: UInt8 = 15) -> [UInt8]
{
    frame(FrameType.priority, on: streamID, number(other | (isExclusive ? 0x8000_0000 : 0)) + [weight])
}

/// A string literal without Huffman coding, preceded by its length (RFC 7541 §5.2).
func string(_ text: [UInt8]) -> [UInt8] {
    guard text.count >= 127 else { return [UInt8(text.count)] + text }
    var length: [UInt8] = [127]
    var rest = text.count - 127
    while rest >= 128 {
        length.append(UInt8(rest & 127) | 128)
        rest >>= 7
    }
    return length + [UInt8(rest)] + text
}

/// A field as literals that do not change the tables (RFC 7541 §6.2.2).
func field(_ name: String, _ value: String) -> [UInt8] { [0] + string(Array(name.utf8)) + string(Array(value.utf8)) }

/// The fields of a push that the simulator accepts.
enum Push {
    static let fields: [(String, String)] = [
        (":method", "POST"), (":scheme", "https"), (":path", "/3/device/" + PushClient.token),
        (":authority", "127.0.0.1"), ("apns-topic", "com.example.App"), ("apns-push-type", "alert"),
    ]
    static let body = Array(#"{"aps":{"alert":"Hello"}}"#.utf8)

    /// A header block of these fields, with some of them replaced, omitted or added.
    static func block(
        replacing replaced: [String: String] = [:], without removed: String? = nil,
        adding added: [(String, String)] = []
    ) -> [UInt8] {
        let kept = fields.filter { $0.0 != removed }.map { ($0.0, replaced[$0.0] ?? $0.1) }
        return (kept + added).flatMap { field($0.0, $0.1) }
    }

    /// HEADERS that open a stream and do not end it.
    static func head(_ streamID: UInt32, _ block: [UInt8] = block()) -> [UInt8] {
        frame(FrameType.headers, .endHeaders, on: streamID, block)
    }

    static func data(_ streamID: UInt32, _ flags: FrameFlags = .endStream, _ body: [UInt8] = Push.body) -> [UInt8] {
        frame(FrameType.data, flags, on: streamID, body)
    }

    /// A whole push.
    static func whole(_ streamID: UInt32, _ block: [UInt8] = block()) -> [UInt8] {
        head(streamID, block) + data(streamID)
    }

    /// A whole request that the simulator refuses, with a body of 29 octets: `{"reason":"MethodNotAllowed"}`.
    static func refused(_ streamID: UInt32) -> [UInt8] {
        frame(FrameType.headers, [.endHeaders, .endStream], on: streamID, block(replacing: [":method": "GET"]))
    }
    static let refusalByteCount = 29

    /// A whole push that the simulator never answers: the stream stays half-closed.
    static func unanswered(_ streamID: UInt32) -> [UInt8] {
        whole(streamID, block(replacing: [":path": "/3/device/" + silentToken]))
    }
    static let silentToken = String(repeating: "511e", count: 16)
}
