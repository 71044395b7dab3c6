/// The output of a connection: its frames, and the header compression that they share.
///
/// It is one value, so that a request costs a few accesses to it instead of one for each part of a frame.
struct Outbox: ~Copyable {
    var bytes = ByteQueue()
    private var encoder: HPACKEncoder
    /// The header block being written: where its frame starts, and its stream; 0 for none.
    private var blockStart: UInt64 = 0
    private(set) var blockStreamID: UInt32 = 0

    init(names: FieldNames) { encoder = HPACKEncoder(names: names) }

    /// Applies a SETTINGS_HEADER_TABLE_SIZE of the peer.
    mutating func setTableCapacityLimit(_ limit: Int) { encoder.setCapacityLimit(limit) }

    // MARK: Header blocks

    /// Starts a HEADERS frame with the fields that repeat. In a request, `:path` comes first, which never repeats.
    mutating func beginBlock(on streamID: UInt32, path: Span<UInt8>? = nil, _ headers: PreparedHeaders) {
        beginBlock(on: streamID)
        // Pseudo fields come first, and the prepared fields end with regular ones (RFC 9113 §8.3).
        if let path { encoder.append(.path, path, into: &bytes) }
        encoder.append(headers, into: &bytes)
    }

    /// The same for a path of two parts, the second of which is written in hexadecimal digits.
    mutating func beginBlock(
        on streamID: UInt32, path: Span<UInt8>, hexadecimal suffix: Span<UInt8>, _ headers: PreparedHeaders
    ) {
        beginBlock(on: streamID)
        encoder.append(path: path, hexadecimal: suffix, into: &bytes)
        encoder.append(headers, into: &bytes)
    }

    private mutating func beginBlock(on streamID: UInt32) {
        precondition(blockStreamID == 0, "A message must be finished before the next one is begun.")
        blockStreamID = streamID
        blockStart = bytes.endPosition
        bytes.append(FrameHeader(payloadByteCount: 0, type: FrameType.headers, streamID: streamID))
        encoder.beginBlock(into: &bytes)
    }

    /// Adds a field whose value is not kept.
    mutating func add(_ name: FieldName, _ value: Span<UInt8>) {
        precondition(blockStreamID != 0 && name != .other, "Fields with a numbered name are added to a message begun.")
        encoder.append(name, value, into: &bytes)
    }

    /// The same for a UUID, given as its two halves.
    mutating func add(_ name: FieldName, uuid: (high: UInt64, low: UInt64)) {
        precondition(blockStreamID != 0 && name != .other, "Fields with a numbered name are added to a message begun.")
        encoder.append(name, uuid: uuid, into: &bytes)
    }

    /// Completes the header block, in as many frames as the peer's maximum frame size requires.
    mutating func endBlock(isLast: Bool, maximumFrameSize: Int) {
        let payloadByteCount = Int(bytes.endPosition - blockStart) - FrameHeader.byteCount
        let flags: FrameFlags = isLast ? [.endHeaders, .endStream] : .endHeaders
        if payloadByteCount <= maximumFrameSize {
            bytes.completeFrame(at: blockStart, type: FrameType.headers, flags: flags)
        } else {
            splitBlock(payloadByteCount, flags: flags, maximumFrameSize)
        }
        blockStreamID = 0
    }

    /// Writes a block that is too large for one frame as HEADERS and CONTINUATION (RFC 9113 §4.3).
    private mutating func splitBlock(_ byteCount: Int, flags: FrameFlags, _ maximumFrameSize: Int) {
        let block = bytes.withBytes(at: blockStart + UInt64(FrameHeader.byteCount), count: byteCount) { Array($0) }
        bytes.truncate(to: blockStart)
        for start in stride(from: 0, to: byteCount, by: maximumFrameSize) {
            let end = min(start + maximumFrameSize, byteCount)
            var frameFlags = start == 0 ? flags.subtracting(.endHeaders) : []
            if end == byteCount { frameFlags.insert(.endHeaders) }
            let type = start == 0 ? FrameType.headers : FrameType.continuation
            bytes.append(
                FrameHeader(payloadByteCount: end - start, type: type, flags: frameFlags, streamID: blockStreamID))
            bytes.append(block.span.extracting(start..<end))
        }
    }

    // MARK: DATA

    /// Writes `count` octets of a body, from its offset on, as one frame (RFC 9113 §6.1).
    mutating func appendData(_ body: BodyQueue.Body, count: Int, isLast: Bool) {
        bytes.append(
            FrameHeader(
                payloadByteCount: count, type: FrameType.data, flags: isLast ? .endStream : [],
                streamID: body.streamID))
        bytes.append(body.bytes.span.extracting(body.offset..<(body.offset &+ count)))
    }
}
