/// The kinds of frame. An unknown kind is ignored, except inside a header block (RFC 9113 §4.1, §5.5).
package enum FrameType {
    package static let data: UInt8 = 0x0
    package static let headers: UInt8 = 0x1
    package static let priority: UInt8 = 0x2
    package static let rstStream: UInt8 = 0x3
    package static let settings: UInt8 = 0x4
    package static let pushPromise: UInt8 = 0x5
    package static let ping: UInt8 = 0x6
    package static let goAway: UInt8 = 0x7
    package static let windowUpdate: UInt8 = 0x8
    package static let continuation: UInt8 = 0x9
}

/// The flags of a frame. A bit without a meaning for a kind is ignored (RFC 9113 §4.1).
package struct FrameFlags: OptionSet, Hashable, Sendable {
    package let rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }

    package static let endStream = FrameFlags(rawValue: 0x1)
    package static let ack = FrameFlags(rawValue: 0x1)
    package static let endHeaders = FrameFlags(rawValue: 0x4)
    package static let padded = FrameFlags(rawValue: 0x8)
    package static let priority = FrameFlags(rawValue: 0x20)
}

/// The nine octets before every frame's payload (RFC 9113 §4.1).
package struct FrameHeader: Equatable, Sendable {
    package static let byteCount = 9
    /// The largest stream identifier: 31 bits; the topmost is reserved and ignored.
    package static let maximumStreamID: UInt32 = 0x7fff_ffff

    package var payloadByteCount: Int
    package var type: UInt8
    package var flags: FrameFlags
    package var streamID: UInt32

    package init(payloadByteCount: Int, type: UInt8, flags: FrameFlags = [], streamID: UInt32) {
        self.payloadByteCount = payloadByteCount
        self.type = type
        self.flags = flags
        self.streamID = streamID
    }

    /// Reads the first nine octets of `bytes`, which must have at least nine.
    init(_ bytes: Span<UInt8>) {
        payloadByteCount = Int(bytes[0]) << 16 | Int(bytes[1]) << 8 | Int(bytes[2])
        type = bytes[3]
        flags = FrameFlags(rawValue: bytes[4])
        streamID = bytes.bigEndian(at: 5, as: UInt32.self) & Self.maximumStreamID
    }
}
