/// HEADERS and CONTINUATION, and the messages they begin and end (RFC 9113 §6.2, §6.10, §8.1).
extension HTTP2Connection {
    func receiveHeaders(
        _ header: FrameHeader, _ payload: Span<UInt8>, _ handler: some HTTP2Handler
    ) throws(HTTP2Error) {
        guard header.streamID % 2 == 1 else { throw .connection(.protocolError, .wrongStreamForFrame) }
        let prefixByteCount = header.flags.contains(.priority) ? 5 : 0  // RFC 9113 §6.2; the content is ignored.
        let range = try Self.contentRange(of: payload, header.flags, prefixByteCount: prefixByteCount)
        let fragment = payload.extracting(range)
        let isLast = header.flags.contains(.endStream)
        if header.flags.contains(.endHeaders) {
            return try receiveBlock(fragment, on: header.streamID, isLast: isLast, handler)
        }
        headerBlock.append(fragment)
        openHeaderBlock = OpenHeaderBlock(streamID: header.streamID, isLast: isLast)
    }

    func receiveContinuation(
        _ header: FrameHeader, _ payload: Span<UInt8>, _ handler: some HTTP2Handler
    ) throws(HTTP2Error) {
        guard var open = openHeaderBlock else { throw .connection(.protocolError, .continuationUnexpected) }
        open.continuationCount += 1
        guard open.continuationCount <= limits.continuationCount else {
            throw .connection(.enhanceYourCalm, .tooManyContinuations)
        }
        guard headerBlock.count + payload.count <= limits.headerBlockByteCount else {
            throw .connection(.enhanceYourCalm, .headerListTooLarge)
        }
        headerBlock.append(payload)
        openHeaderBlock = open
        guard header.flags.contains(.endHeaders) else { return }
        openHeaderBlock = nil
        defer { headerBlock.removeAll() }
        try headerBlock.withBytes { block throws(HTTP2Error) in
            try receiveBlock(block, on: open.streamID, isLast: open.isLast, handler)
        }
    }

    /// Returns the range of a frame's content, without the fields that its flags put in front and the padding behind
    /// (RFC 9113 §6.1, §6.2).
    static func contentRange(
        of payload: Span<UInt8>, _ flags: FrameFlags, prefixByteCount: Int = 0
    ) throws(HTTP2Error) -> Range<Int> {
        var start = prefixByteCount
        var paddingByteCount = 0
        if flags.contains(.padded) {
            guard !payload.isEmpty else { throw .connection(.frameSizeError, .wrongFrameLength) }
            paddingByteCount = Int(payload[0])
            start += 1
        }
        guard start <= payload.count else { throw .connection(.frameSizeError, .wrongFrameLength) }
        let end = payload.count &- paddingByteCount
        guard start <= end else { throw .connection(.protocolError, .invalidPadding) }
        return start..<end
    }

    /// Reads a whole header block. Decodes it even if its stream is gone: otherwise the tables of the two ends would
    /// differ from then on (RFC 9113 §4.3).
    private func receiveBlock(
        _ block: Span<UInt8>, on streamID: UInt32, isLast: Bool, _ handler: some HTTP2Handler
    ) throws(HTTP2Error) {
        do throws(Violation) {
            try decoder.decode(block, into: &section)
        } catch {
            throw HTTP2Error(inHeaderBlock: error)
        }
        if role == .server, streamID > lastPeerStreamID {
            return try receiveRequest(on: streamID, isLast: isLast, handler)
        }
        guard let index = try streamOfMessage(streamID) else { return }
        guard !streams[index].flags.contains(.remoteEnded) else {
            throw .stream(streamID, .streamClosed, .closedStream)
        }
        if streams[index].flags.contains(.headReceived) {
            try receiveTrailers(at: index, isLast: isLast, handler)
        } else {
            try receiveResponse(at: index, isLast: isLast, handler)
        }
    }

    // MARK: Messages

    /// Receives a request, which opens its stream (RFC 9113 §5.1.1, §5.1.2, §8.3.1).
    private func receiveRequest(
        on streamID: UInt32, isLast: Bool, _ handler: some HTTP2Handler
    ) throws(HTTP2Error) {
        closedStreams.noteOpening(of: streamID, after: lastPeerStreamID)
        lastPeerStreamID = streamID
        // The client sent this request before it read the GOAWAY, so the request is ignored (RFC 9113 §6.8).
        if let goAwaySent, streamID > goAwaySent { return }
        // A lower limit applies once the client has acknowledged it, and the limits after it too: the client may have
        // used a higher one in between. It may also use a higher one before its ACK arrives.
        var limit = settingsInForce.maximumConcurrentStreams ?? .max
        for settings in unacknowledgedSettings { limit = max(limit, settings.maximumConcurrentStreams ?? .max) }
        guard streams.count < limit else {
            excessStreams += 1
            throw .stream(streamID, .refusedStream, .tooManyStreams)
        }
        guard let summary = FieldRules.check(section, as: .request) else {
            throw .stream(streamID, .protocolError, .malformedMessage)
        }
        // This check comes before the stream is opened: the handler must not be told the end of a stream that it does
        // not know.
        try Self.checkLength(summary.contentLength, isLast: isLast, on: streamID)
        let index = streams.insert(Stream(id: streamID, flags: .headReceived, openedAt: now))
        beginMessage(at: index, isLast: isLast, contentLength: summary.contentLength, handler)
    }

    /// Receives the final header section of a response, or an interim one, which is ignored (RFC 9113 §8.1, §8.3.2).
    private func receiveResponse(
        at index: Int, isLast: Bool, _ handler: some HTTP2Handler
    ) throws(HTTP2Error) {
        let streamID = streams[index].id
        guard let summary = FieldRules.check(section, as: .response) else {
            streams[index].status = FieldRules.readableStatus(of: section)
            throw .stream(streamID, .protocolError, .malformedMessage)
        }
        if summary.status < 200 {
            // An interim response does not end the stream, and HTTP/2 has no 101 (RFC 9113 §8.1, §8.6).
            guard !isLast, summary.status != 101 else { throw .stream(streamID, .protocolError, .malformedMessage) }
            return try spendInterimResponse(at: index)
        }
        streams[index].flags.insert(.headReceived)
        streams[index].status = summary.status
        // A 304 may have the length of a body that it does not carry (RFC 9110 §8.6).
        let contentLength = summary.status == 304 ? nil : summary.contentLength
        try Self.checkLength(contentLength, isLast: isLast, on: streamID)
        beginMessage(at: index, isLast: isLast, contentLength: contentLength, handler)
    }

    /// Counts an interim response. The first few of a request do not count as a flood: a server may send one for each
    /// of thousands of requests before it answers any.
    private func spendInterimResponse(at index: Int) throws(HTTP2Error) {
        guard streams[index].interimCount >= limits.interimResponseCount else {
            streams[index].interimCount += 1
            return
        }
        try spendControlFrame()
    }

    /// Checks that a message without a body does not announce one (RFC 9113 §8.1.1).
    private static func checkLength(_ contentLength: Int?, isLast: Bool, on streamID: UInt32) throws(HTTP2Error) {
        guard isLast, let contentLength, contentLength > 0 else { return }
        throw .stream(streamID, .protocolError, .contentLengthMismatch)
    }

    private func beginMessage(at index: Int, isLast: Bool, contentLength: Int?, _ handler: some HTTP2Handler) {
        streams[index].bodyBytesExpected = contentLength ?? -1
        let reference = StreamReference(streams[index])
        if isLast { endRemote(at: index) }
        handler.received(section, on: reference, isLast: isLast)
    }

    /// Receives trailers. They end the message; their fields are ignored (RFC 9113 §8.1).
    private func receiveTrailers(
        at index: Int, isLast: Bool, _ handler: some HTTP2Handler
    ) throws(HTTP2Error) {
        let streamID = streams[index].id
        guard isLast, FieldRules.check(section, as: .trailers) != nil else {
            throw .stream(streamID, .protocolError, .malformedMessage)
        }
        guard streams[index].bodyBytesExpected <= 0 else {
            throw .stream(streamID, .protocolError, .contentLengthMismatch)
        }
        let reference = StreamReference(streams[index])
        endRemote(at: index)
        handler.received(Span(), on: reference, isLast: true)
    }

    /// Notes that the peer has ended its side of a stream. A client's stream ends with its response: if part of the
    /// request still waits for a window, the server does not need that part (RFC 9113 §8.1).
    func endRemote(at index: Int) {
        streams[index].flags.insert(.remoteEnded)
        if role == .client { earnFrames() }
        if streams[index].flags.contains(.localEnded) { return close(at: index) }
        guard role == .client else { return }
        sendReset(.cancel, of: streams[index].id)
        close(at: index)
    }
}
