@testable import HTTP2

/// Makes frames of an input: each byte chooses a kind, flags, a stream or a number, so that nearly every input is a
/// sequence of frames of the right form, on streams that exist, with numbers at and around the ends of their ranges.
struct FrameBuilder {
    private var blocks: FieldBlocks
    private let isFromServer: Bool
    /// What an input of 4 KB may grow to.
    private static let maximumByteCount = 256 * 1024

    init(_ limits: HPACKDecoder.Limits, isFromServer: Bool) {
        blocks = FieldBlocks(limits)
        self.isFromServer = isFromServer
    }

    /// All frames of the rest of the input.
    mutating func all(_ reader: inout InputReader) -> [UInt8] {
        var bytes: [UInt8] = []
        while !reader.isAtEnd, bytes.count < Self.maximumByteCount { bytes += next(&reader) }
        return bytes
    }

    private mutating func next(_ reader: inout InputReader) -> [UInt8] {
        let (choice, flags, stream) = (reader.byte(), reader.byte(), reader.byte())
        // DATA and HEADERS more often than the rest.
        let type = choice & 15 < 11 ? choice & 15 : choice & 1
        var payload = payload(of: type, flags, &reader)
        // One in eight has another length than it should.
        if choice & 0x70 == 0x70 { payload = Array(payload.prefix(Int(reader.byte()) * payload.count / 255)) }
        let streamID = Self.streamID(stream, type)
        var frame = ByteQueue()
        frame.append(
            FrameHeader(
                payloadByteCount: payload.count, type: type, flags: FrameFlags(rawValue: flags), streamID: streamID))
        frame.append(payload)
        return frame.withBytes { Array($0) }
    }

    private static func streamID(_ byte: UInt8, _ type: UInt8) -> UInt32 {
        let isOfConnection = [FrameType.settings, FrameType.ping, FrameType.goAway].contains(type)
        switch byte {
        case 0..<192: return isOfConnection ? 0 : UInt32(byte % 32) * 2 + 1
        case 192..<250: return UInt32(byte - 192)
        default: return 0x7fff_ffff - UInt32(byte - 250)
        }
    }

    private mutating func payload(of type: UInt8, _ flags: UInt8, _ reader: inout InputReader) -> [UInt8] {
        let flags = FrameFlags(rawValue: flags)
        switch type {
        case FrameType.data:
            let body = [UInt8](repeating: 0x20, count: FieldBlocks.length(reader.byte(), room: 16_384))
            return padded(body, flags, &reader)
        case FrameType.headers:
            let priority: [UInt8] = flags.contains(.priority) ? [0, 0, 0, reader.byte(), 15] : []
            return padded(priority + head(&reader), flags, &reader)
        case FrameType.continuation, FrameType.pushPromise: return blocks.next(&reader)
        case FrameType.priority: return number(reader.byte()) + [reader.byte()]
        case FrameType.rstStream, FrameType.windowUpdate: return number(reader.byte())
        case FrameType.settings:
            guard !flags.contains(.ack) else { return [] }
            return (0..<(reader.byte() & 7)).flatMap { _ in [0, reader.byte() & 7] + number(reader.byte()) }
        case FrameType.ping: return Array(repeating: reader.byte(), count: 8)
        case FrameType.goAway:
            let debugData = [UInt8](repeating: 0x78, count: FieldBlocks.length(reader.byte(), room: 16_376))
            return number(reader.byte()) + number(reader.byte()) + debugData
        default: return reader.bytes(Int(reader.byte() & 31))
        }
    }

    /// A header block that begins as that of a message does, or with what the input says.
    private mutating func head(_ reader: inout InputReader) -> [UInt8] {
        let choice = reader.byte()
        let rest = blocks.next(&reader)
        guard choice & 1 == 0 else { return rest }
        // :status 200, or :method POST, :scheme https and :path /.
        let start: [UInt8] = isFromServer ? [0x88] : [0x83, 0x87, 0x84]
        guard choice & 2 == 0 else { return start + rest }
        return start + [0x0f, 0x0d, 0x01, UInt8(ascii: "0") + (choice >> 2) % 10] + rest  // content-length
    }

    private func padded(_ content: [UInt8], _ flags: FrameFlags, _ reader: inout InputReader) -> [UInt8] {
        guard flags.contains(.padded) else { return content }
        let (said, real) = (reader.byte(), reader.byte())
        return [said] + content + [UInt8](repeating: 0, count: Int(real & 1 == 0 ? said : real))
    }

    /// A number of 32 bits: small, or at an end of a range that a number of HTTP/2 has.
    private func number(_ byte: UInt8) -> [UInt8] {
        let ends: [UInt32] = [0, 100, 4096, 16_384, 65_535, 0xff_ffff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff]
        let value =
            byte < 128 ? UInt32(byte) : ends[Int(byte & 0x7f) % ends.count] &+ UInt32((byte & 0x7f) / 43) &- 1
        return [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: value >> $0) }
    }
}
