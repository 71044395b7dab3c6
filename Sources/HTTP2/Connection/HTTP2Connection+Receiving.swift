/// Divides the incoming bytes into frames. The bytes may come in any pieces. Complete frames are read in place.
extension HTTP2Connection {
    /// Reads bytes from the peer and reports events to `handler`.
    ///
    /// - Parameter now: nanoseconds of a monotonic clock; for budgets and `openedAt`.
    package func receive(_ bytes: Span<UInt8>, now: UInt64, handler: some HTTP2Handler) {
        self.now = now
        var offset = 0
        do throws(HTTP2Error) {
            if isPrefaceExpected { try receivePreface(bytes, at: &offset) }
            while offset < bytes.count, fatalError == nil {
                if partialFrame.isEmpty {
                    try receiveFrame(bytes, at: &offset, handler)
                } else {
                    try completePartialFrame(bytes, at: &offset, handler)
                }
            }
        } catch {
            fail(error, handler)
        }
    }

    /// Reads the preface, which a client sends first; anything else is not HTTP/2 (RFC 9113 §3.4).
    private func receivePreface(_ bytes: Span<UInt8>, at offset: inout Int) throws(HTTP2Error) {
        let count = min(bytes.count, Self.preface.count - partialFrame.count)
        for index in 0..<count where bytes[index] != Self.preface[partialFrame.count + index] {
            throw .connection(.protocolError, .badPreface)
        }
        partialFrame.append(bytes.extracting(first: count))
        offset = count
        guard partialFrame.count == Self.preface.count else { return }
        partialFrame.removeAll()
        isPrefaceExpected = false
    }

    /// Reads the frame at `offset`, or keeps its beginning if it is not complete.
    private func receiveFrame(
        _ bytes: Span<UInt8>, at offset: inout Int, _ handler: some HTTP2Handler
    ) throws(HTTP2Error) {
        let rest = bytes.extracting(droppingFirst: offset)
        guard rest.count >= FrameHeader.byteCount else { return keep(rest, &offset) }
        let header = FrameHeader(rest)
        let frameByteCount = try readableByteCount(of: header)
        guard rest.count >= frameByteCount else { return keep(rest, &offset) }
        offset &+= frameByteCount
        try handle(header, rest.extracting(FrameHeader.byteCount..<frameByteCount), handler)
    }

    private func keep(_ rest: Span<UInt8>, _ offset: inout Int) {
        partialFrame.append(rest)
        offset &+= rest.count
    }

    /// Completes the kept frame, first its header, then its payload.
    private func completePartialFrame(
        _ bytes: Span<UInt8>, at offset: inout Int, _ handler: some HTTP2Handler
    ) throws(HTTP2Error) {
        fillPartialFrame(upTo: FrameHeader.byteCount, from: bytes, at: &offset)
        guard partialFrame.count >= FrameHeader.byteCount else { return }
        let header = partialFrame.withBytes { FrameHeader($0) }
        let frameByteCount = try readableByteCount(of: header)
        fillPartialFrame(upTo: frameByteCount, from: bytes, at: &offset)
        guard partialFrame.count == frameByteCount else { return }
        try partialFrame.withBytes { frame throws(HTTP2Error) in
            try handle(header, frame.extracting(droppingFirst: FrameHeader.byteCount), handler)
        }
        partialFrame.removeAll()
    }

    private func fillPartialFrame(upTo count: Int, from bytes: Span<UInt8>, at offset: inout Int) {
        let missing = max(0, min(count - partialFrame.count, bytes.count - offset))
        partialFrame.append(bytes.extracting(offset..<(offset + missing)))
        offset += missing
    }

    /// Returns how many octets of a frame to read: all of them. A frame that is too large is refused before it is kept
    /// (RFC 9113 §4.2). Of a GOAWAY that is too large, the head is read: it says which requests the peer has not
    /// processed, so that they may be sent elsewhere.
    private func readableByteCount(of header: FrameHeader) throws(HTTP2Error) -> Int {
        if header.payloadByteCount <= announcedSettings.maximumFrameSize {
            return FrameHeader.byteCount &+ header.payloadByteCount
        }
        guard header.type == FrameType.goAway else { throw .connection(.frameSizeError, .frameTooLarge) }
        return FrameHeader.byteCount + Self.goAwayHeadByteCount
    }

    /// Applies the rules for every frame, then those of its kind. Handles a stream error here, and throws a connection
    /// error.
    private func handle(
        _ header: FrameHeader, _ payload: Span<UInt8>, _ handler: some HTTP2Handler
    ) throws(HTTP2Error) {
        guard hasPeerSettings || header.type == FrameType.settings && !header.flags.contains(.ack) else {
            // A server that accepts no connection may say why before it sends anything else.
            if role == .client, header.type == FrameType.goAway { try receiveGoAway(header, payload, handler) }
            throw .connection(.protocolError, .settingsExpected)  // RFC 9113 §3.4
        }
        if let open = openHeaderBlock {  // RFC 9113 §4.3, §6.10
            guard header.type == FrameType.continuation, header.streamID == open.streamID else {
                throw .connection(.protocolError, .headerBlockInterrupted)
            }
        }
        do throws(HTTP2Error) {
            try dispatch(header, payload, handler)
        } catch {
            guard case .stream(let id, let code, let violation) = error else { throw error }
            // A stream that was never opened cannot be reset (RFC 9113 §6.4).
            guard !isIdle(id) else { throw .connection(code, violation) }
            // A peer that provokes resets can flood like a peer that sends them (CVE-2025-8671).
            guard resets.spend(now: now) else { throw .connection(.enhanceYourCalm, .tooManyResets) }
            resetAfterViolation(id, code, error, handler)
        }
    }

    private func dispatch(
        _ header: FrameHeader, _ payload: Span<UInt8>, _ handler: some HTTP2Handler
    ) throws(HTTP2Error) {
        switch header.type {
        case FrameType.data: try receiveData(header, payload, handler)
        case FrameType.headers: try receiveHeaders(header, payload, handler)
        case FrameType.continuation: try receiveContinuation(header, payload, handler)
        case FrameType.windowUpdate: try receiveWindowUpdate(header, payload)
        case FrameType.rstStream: try receiveReset(header, payload, handler)
        case FrameType.settings: try receiveSettings(header, payload, handler)
        case FrameType.ping: try receivePing(header, payload, handler)
        case FrameType.goAway: try receiveGoAway(header, payload, handler)
        case FrameType.priority: try receivePriority(header, payload)
        // A client switches push off, and a server never receives it (RFC 9113 §8.4).
        case FrameType.pushPromise: throw .connection(.protocolError, .pushRefused)
        default: try spendControlFrame()  // RFC 9113 §5.5: unknown kinds are ignored.
        }
    }

    private func resetAfterViolation(
        _ id: UInt32, _ code: ErrorCode, _ error: HTTP2Error, _ handler: some HTTP2Handler
    ) {
        sendReset(code, of: id)
        guard let index = streams.index(of: id) else { return }
        let reference = StreamReference(streams[index])
        close(at: index)
        handler.ended(reference, by: .violation(error))
    }

    /// Gives the connection up: writes GOAWAY with the violation as debug data (RFC 9113 §5.4.1).
    func fail(_ error: HTTP2Error, _ handler: some HTTP2Handler) {
        guard fatalError == nil else { return }
        fatalError = error
        let debugData = Array(error.violation.rawValue.utf8)
        outbox.bytes.appendGoAway(lastStreamID: lastPeerStreamID, code: error.code, debugData: debugData.span)
        handler.failed(error)
    }

    // MARK: Budgets

    func spendControlFrame() throws(HTTP2Error) {
        guard controlFrames.spend(now: now) else { throw .connection(.enhanceYourCalm, .tooManyControlFrames) }
    }

    /// Credits the budgets for a request that got its answer. Some peers send PING, WINDOW_UPDATE, RST_STREAM or frames
    /// of unknown kinds with each answer. That is not a flood, since their number is bounded by that of the requests.
    func earnFrames() {
        controlFrames.earn(ConnectionLimits.controlFramesPerAnswer)
        emptyFrames.earn(2)
        resets.earn(1)
        unreadAnswerCount = max(0, unreadAnswerCount - 1)
    }

    func spendEmptyFrame() throws(HTTP2Error) {
        guard emptyFrames.spend(now: now) else { throw .connection(.enhanceYourCalm, .tooManyEmptyFrames) }
    }

    /// Counts an answer to a PING or SETTINGS. Fails if the peer does not read these answers.
    func spendAnswer() throws(HTTP2Error) {
        unreadAnswerCount += 1
        guard unreadAnswerCount <= limits.unreadAnswerCount else {
            throw .connection(.enhanceYourCalm, .unreadAnswers)
        }
    }

    // MARK: Streams

    /// Whether the stream was never opened. The only frame allowed on it is the HEADERS that open it (RFC 9113 §5.1).
    func isIdle(_ streamID: UInt32) -> Bool {
        if streamID % 2 == 0 { return true }
        return role == .client ? streamID >= nextStreamID : streamID > lastPeerStreamID
    }

    /// Returns the row of the stream on which a part of a message came; nil if the stream is gone and the frame is
    /// ignored.
    ///
    /// A client ignores every such frame: an answer must not be lost because of a frame after another answer. A server
    /// reports the violation (RFC 9113 §5.1, closed), unless the client could not know yet that the server had reset
    /// the stream or was going away.
    func streamOfMessage(_ streamID: UInt32) throws(HTTP2Error) -> Int? {
        if let index = try openStream(streamID) { return index }
        guard role == .server, streamID <= goAwaySent ?? .max else { return nil }
        switch closedStreams.history(of: streamID) {
        case .reset: return nil
        case .skipped: throw .connection(.protocolError, .skippedStream)  // RFC 9113 §5.1.1
        case .ended: throw .stream(streamID, .streamClosed, .closedStream)
        }
    }

    /// Writes RST_STREAM.
    func sendReset(_ code: ErrorCode, of streamID: UInt32) {
        outbox.bytes.appendReset(code, of: streamID)
        if role == .server { closedStreams.noteReset(streamID) }
    }

    /// Returns the row of an open stream; nil for one that is gone, whose WINDOW_UPDATE and RST_STREAM are ignored (RFC
    /// 9113 §5.1, closed).
    func openStream(_ streamID: UInt32) throws(HTTP2Error) -> Int? {
        if let index = streams.index(of: streamID) { return index }
        guard streamID != 0 else { throw .connection(.protocolError, .wrongStreamForFrame) }
        guard !isIdle(streamID) else { throw .connection(.protocolError, .idleStream) }
        try spendEmptyFrame()
        return nil
    }

    /// Removes a stream and the unsent part of its body.
    func close(at index: Int) {
        let stream = streams[index]
        if stream.flags.contains(.bodyWaiting) { bodies.remove(stream.id) }
        streams.remove(at: index)
    }
}
