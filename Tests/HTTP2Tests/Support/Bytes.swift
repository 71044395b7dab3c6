@testable import HTTP2

/// Reads octets in hexadecimal. Spaces are ignored.
func hex(_ text: String) -> [UInt8] {
    let digits = text.filter { !$0.isWhitespace }.map { UInt8($0.hexDigitValue!) }
    return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
}

extension ByteQueue {
    /// A copy of the queue's content.
    var copy: [UInt8] { withBytes { Array($0) } }
}

/// The octets of one frame.
func frame(_ type: UInt8, _ flags: FrameFlags = [], on streamID: UInt32 = 0, _ payload: [UInt8] = []) -> [UInt8] {
    var queue = ByteQueue()
    queue.append(FrameHeader(payloadByteCount: payload.count, type: type, flags: flags, streamID: streamID))
    queue.append(payload)
    return queue.copy
}

func bigEndian(_ value: UInt32) -> [UInt8] {
    var queue = ByteQueue()
    queue.append(bigEndian: value)
    return queue.copy
}

func settingsFrame(_ entries: [(UInt16, UInt32)] = []) -> [UInt8] {
    var queue = ByteQueue()
    queue.appendSettings(entries.map { (identifier: $0.0, value: $0.1) })
    return queue.copy
}

func windowUpdate(_ increment: UInt32, on streamID: UInt32 = 0) -> [UInt8] {
    frame(FrameType.windowUpdate, on: streamID, bigEndian(increment))
}

func goAwayFrame(_ lastStreamID: UInt32, _ code: ErrorCode = .noError, _ debugData: String = "") -> [UInt8] {
    frame(FrameType.goAway, on: 0, bigEndian(lastStreamID) + bigEndian(code.rawValue) + Array(debugData.utf8))
}

/// A header block of literals that do not change the tables.
func block(_ fields: [(String, String)]) -> [UInt8] {
    var queue = ByteQueue()
    for (name, value) in fields {
        queue.append(0)
        queue.appendString(Array(name.utf8).span)
        queue.appendString(Array(value.utf8).span)
    }
    return queue.copy
}

/// A whole response: HEADERS, and DATA if there is a body.
func response(_ status: String = "200", on streamID: UInt32, _ fields: [(String, String)] = [], body: String = "")
    -> [UInt8]
{
    let flags: FrameFlags = body.isEmpty ? [.endHeaders, .endStream] : .endHeaders
    let head = frame(FrameType.headers, flags, on: streamID, block([(":status", status)] + fields))
    return body.isEmpty ? head : head + frame(FrameType.data, .endStream, on: streamID, Array(body.utf8))
}
