/// Writes frames to the end of a connection's output.
extension ByteQueue {
    /// Writes the nine octets of a frame header (RFC 9113 §4.1).
    mutating func append(_ header: FrameHeader) {
        append(bigEndian: UInt32(header.payloadByteCount) << 8 | UInt32(header.type))
        append(header.flags.rawValue)
        append(bigEndian: header.streamID)
    }

    /// Completes, at `position`, the header of a frame whose payload reaches to the end of the queue.
    mutating func completeFrame(at position: UInt64, type: UInt8, flags: FrameFlags) {
        let payloadByteCount = UInt32(endPosition - position) - UInt32(FrameHeader.byteCount)
        overwrite(at: position, bigEndian: payloadByteCount << 8 | UInt32(type))
        overwrite(at: position + 4, bigEndian: flags.rawValue)
    }

    /// A SETTINGS frame with the given entries (RFC 9113 §6.5).
    mutating func appendSettings(_ entries: [(identifier: UInt16, value: UInt32)]) {
        append(FrameHeader(payloadByteCount: entries.count * 6, type: FrameType.settings, streamID: 0))
        for entry in entries {
            append(bigEndian: entry.identifier)
            append(bigEndian: entry.value)
        }
    }

    /// The acknowledgement of a SETTINGS frame (RFC 9113 §6.5.3).
    mutating func appendSettingsAck() {
        append(FrameHeader(payloadByteCount: 0, type: FrameType.settings, flags: .ack, streamID: 0))
    }

    /// A PING frame (RFC 9113 §6.7).
    mutating func appendPing(_ payload: UInt64, flags: FrameFlags = []) {
        append(FrameHeader(payloadByteCount: 8, type: FrameType.ping, flags: flags, streamID: 0))
        append(bigEndian: payload)
    }

    /// A RST_STREAM frame (RFC 9113 §6.4).
    mutating func appendReset(_ code: ErrorCode, of streamID: UInt32) {
        append(FrameHeader(payloadByteCount: 4, type: FrameType.rstStream, streamID: streamID))
        append(bigEndian: code.rawValue)
    }

    /// A WINDOW_UPDATE frame (RFC 9113 §6.9).
    mutating func appendWindowUpdate(_ increment: Int, of streamID: UInt32) {
        append(FrameHeader(payloadByteCount: 4, type: FrameType.windowUpdate, streamID: streamID))
        append(bigEndian: UInt32(increment))
    }

    /// A GOAWAY frame (RFC 9113 §6.8).
    mutating func appendGoAway(lastStreamID: UInt32, code: ErrorCode, debugData: Span<UInt8>) {
        append(FrameHeader(payloadByteCount: 8 + debugData.count, type: FrameType.goAway, streamID: 0))
        append(bigEndian: lastStreamID)
        append(bigEndian: code.rawValue)
        append(debugData)
    }
}
