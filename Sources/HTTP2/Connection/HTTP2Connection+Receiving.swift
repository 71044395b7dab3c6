/// Divides the incoming bytes into frames. Bytes may come in any pieces; complete frames are read in place.
extension HTTP2Connection {
    /// Reads what the peer sent and tells `handler` what it means.
    ///
    /// - Parameter now: nanoseconds of a clock that does not go back; for budgets and `openedAt`.
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

    /// A server's first bytes are the preface; anything else is not HTTP/2 (RFC 9113 §3.4).
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

    /// Reads the frame at `offset`, or keeps what there is of it.
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

    /// Completes the kept part, first the header, then the payload.
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

    /// How many octets of a frame are read: all of them. A frame that is too large is refused before it is kept (RFC
    /// 9113 §4.2), except the head of a GOAWAY: it says which requests the peer has not looked at, so that they may be
    /// sent elsewhere.
    private func readableByteCount(of header: FrameHeader) throws(HTTP2Error) -> Int {
        if header.payloadByteCount <= announcedSettings.maximumFrameSize {
            return FrameHeader.byteCount &+ header.payloadByteCount
        }
        guard header.type == FrameType.goAway else { throw .connection(.frameSizeError, .frameTooLarge) }
        return FrameHeader.byteCount + Self.goAwayHeadByteCount
    }

    /// Applies the rules that hold for every frame, then those of its kind. An error of a stream ends here; one of the
    /// connection is thrown on.
    private func handle(
        _ header: FrameHeader, _ payload: Span<UInt8>, _ handler: some HTTP2Handler
    ) throws(HTTP2Error) {
        guard hasPeerSettings || header.type == FrameType.settings && !header.flags.contains(.ack) else {
            // A server that takes no connection at all may say why before it says anything else.
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
            // A peer that provokes resets floods as much as one that sends them (CVE-2025-8671).
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
        // Push is switched off by a client, and never goes to a server (RFC 9113 §8.4).
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

    /// Gives the connection up: GOAWAY with what was wrong, in words (RFC 9113 §5.4.1).
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

    /// A request has got its answer. Some peers send PING, WINDOW_UPDATE, RST_STREAM or frames of their own with each
    /// answer. That is not a flood, since there cannot be more of them than requests.
    func earnFrames() {
        controlFrames.earn(ConnectionLimits.controlFramesPerAnswer)
        emptyFrames.earn(2)
        resets.earn(1)
        unreadAnswerCount = max(0, unreadAnswerCount - 1)
    }

    func spendEmptyFrame() throws(HTTP2Error) {
        guard emptyFrames.spend(now: now) else { throw .connection(.enhanceYourCalm, .tooManyEmptyFrames) }
    }

    /// An answer that the peer asked for is written only while the peer reads them.
    func spendAnswer() throws(HTTP2Error) {
        unreadAnswerCount += 1
        guard unreadAnswerCount <= limits.unreadAnswerCount else {
            throw .connection(.enhanceYourCalm, .unreadAnswers)
        }
    }

    // MARK: Streams

    /// Whether the stream was never opened: the only frame allowed on it is the HEADERS that open it (RFC 9113 §5.1).
    func isIdle(_ streamID: UInt32) -> Bool {
        if streamID % 2 == 0 { return true }
        return role == .client ? streamID >= nextStreamID : streamID > lastPeerStreamID
    }

    /// The row of the stream that a part of a message came on; nil for one that is gone and whose frame is let pass.
    ///
    /// A client ignores all of it: an answer must not be lost because of what follows another one. A server says what
    /// is wrong (RFC 9113 §5.1, closed), unless the client could not know yet that it had reset the stream or was going
    /// away.
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

    /// The row of an open stream; nil for one that is gone, whose WINDOW_UPDATE and RST_STREAM are let pass (RFC 9113
    /// §5.1, closed).
    func openStream(_ streamID: UInt32) throws(HTTP2Error) -> Int? {
        if let index = streams.index(of: streamID) { return index }
        guard streamID != 0 else { throw .connection(.protocolError, .wrongStreamForFrame) }
        guard !isIdle(streamID) else { throw .connection(.protocolError, .idleStream) }
        try spendEmptyFrame()
        return nil
    }

    /// Forgets a stream and what of its body has not been sent.
    func close(at index: Int) {
        let stream = streams[index]
        if stream.flags.contains(.bodyWaiting) { bodies.remove(stream.id) }
        streams.remove(at: index)
    }
}
