/// SETTINGS, PING, GOAWAY, RST_STREAM and PRIORITY.
extension HTTP2Connection {
    // MARK: SETTINGS (RFC 9113 §6.5)

    func receiveSettings(
        _ header: FrameHeader, _ payload: Span<UInt8>, _ handler: some HTTP2Handler
    ) throws(HTTP2Error) {
        guard header.streamID == 0 else { throw .connection(.protocolError, .wrongStreamForFrame) }
        guard !header.flags.contains(.ack) else {
            guard payload.isEmpty else { throw .connection(.frameSizeError, .wrongFrameLength) }
            return try receiveSettingsAck(handler)
        }
        guard payload.count % 6 == 0 else { throw .connection(.frameSizeError, .wrongFrameLength) }
        if hasPeerSettings { try spendControlFrame() }
        try applySettings(payload)
        hasPeerSettings = true
        try spendAnswer()
        outbox.bytes.appendSettingsAck()
        sendWaitingBodies()
        handler.peerSettingsChanged()
    }

    /// Applies the entries in their order (§6.5.3). The encoder must see each table size, not only the last, because it
    /// has to announce the smallest (RFC 7541 §4.2).
    private func applySettings(_ payload: Span<UInt8>) throws(HTTP2Error) {
        let initialWindowSize = peerSettings.initialWindowSize
        for offset in stride(from: 0, to: payload.count, by: 6) {
            let identifier = payload.bigEndian(at: offset, as: UInt16.self)
            let value = payload.bigEndian(at: offset + 2, as: UInt32.self)
            try peerSettings.apply(identifier: identifier, value: value, fromServer: role == .client)
            outbox.setTableCapacityLimit(peerSettings.headerTableSize)
        }
        guard peerSettings.initialWindowSize > initialWindowSize else { return }
        try checkSendWindows()
        bodies.recallAll()
    }

    private func receiveSettingsAck(_ handler: some HTTP2Handler) throws(HTTP2Error) {
        guard !unacknowledgedSettings.isEmpty else { throw .connection(.protocolError, .unexpectedSettingsAck) }
        settingsInForce = unacknowledgedSettings.removeFirst()
        decoder.setCapacityLimit(settingsInForce.headerTableSize)
        handler.settingsAcknowledged()
    }

    /// Announces new settings. The peer obeys them once it has acknowledged them.
    package func announce(_ settings: Settings) {
        var settings = settings
        if role == .client { settings.enablePush = false }
        outbox.bytes.appendSettings(settings.entries(changedFrom: announcedSettings))
        announcedSettings = settings
        unacknowledgedSettings.append(settings)
    }

    // MARK: PING (RFC 9113 §6.7)

    /// The maximum number of PINGs without an answer, which is more than an owner needs. Beyond it the oldest is
    /// forgotten.
    private static let maximumPingsInFlight = 16

    /// Asks the peer for a sign of life; `pingAnswered` returns `payload`.
    package func ping(_ payload: UInt64) {
        if pingsInFlight.count == Self.maximumPingsInFlight { pingsInFlight.removeFirst() }
        pingsInFlight.append(payload)
        outbox.bytes.appendPing(payload)
    }

    func receivePing(
        _ header: FrameHeader, _ payload: Span<UInt8>, _ handler: some HTTP2Handler
    ) throws(HTTP2Error) {
        guard header.streamID == 0 else { throw .connection(.protocolError, .wrongStreamForFrame) }
        guard payload.count == 8 else { throw .connection(.frameSizeError, .wrongFrameLength) }
        let data = payload.bigEndian(at: 0, as: UInt64.self)
        try spendControlFrame()
        if header.flags.contains(.ack) {
            // An answer to a PING that was not sent is ignored, and must not be answered (§6.7).
            guard let index = pingsInFlight.firstIndex(of: data) else { return }
            pingsInFlight.remove(at: index)
            return handler.pingAnswered(data)
        }
        try spendAnswer()
        outbox.bytes.appendPing(data, flags: .ack)
    }

    // MARK: GOAWAY (RFC 9113 §6.8)

    /// The last stream identifier and the error code, in front of the debug data.
    static let goAwayHeadByteCount = 8

    func receiveGoAway(
        _ header: FrameHeader, _ payload: Span<UInt8>, _ handler: some HTTP2Handler
    ) throws(HTTP2Error) {
        guard header.streamID == 0 else { throw .connection(.protocolError, .wrongStreamForFrame) }
        guard payload.count >= Self.goAwayHeadByteCount else { throw .connection(.frameSizeError, .wrongFrameLength) }
        try spendControlFrame()
        let lastStreamID = payload.bigEndian(at: 0, as: UInt32.self) & FrameHeader.maximumStreamID
        let code = ErrorCode(rawValue: payload.bigEndian(at: 4, as: UInt32.self))
        if let earlier = goAwayReceived, lastStreamID > earlier {
            throw .connection(.protocolError, .goAwayRose)
        }
        goAwayReceived = lastStreamID
        if role == .client { endStreams(above: lastStreamID, handler) }
        let debugData = payload.extracting(droppingFirst: Self.goAwayHeadByteCount)
        handler.receivedGoAway(
            lastStreamID: lastStreamID, code: code,
            debugData: debugData.extracting(first: min(debugData.count, limits.goAwayDebugByteCount)))
        guard payload.count == header.payloadByteCount else { throw .connection(.frameSizeError, .frameTooLarge) }
    }

    /// Ends the streams above GOAWAY's last stream. The peer has not processed them, so they may be sent elsewhere at
    /// once (§6.8, §8.7).
    private func endStreams(above lastStreamID: UInt32, _ handler: some HTTP2Handler) {
        for id in streams.ids where id > lastStreamID {
            guard let index = streams.index(of: id) else { continue }
            let reference = StreamReference(streams[index])
            close(at: index)
            handler.ended(reference, by: .aboveGoAway)
        }
    }

    /// Announces that this side accepts no new streams, and the last stream that it processes. A server that wants to
    /// lose nothing first names 2^31-1, and the true last stream a round trip later (§6.8).
    ///
    /// - Parameter lastStreamID: nil for the highest stream the peer has opened.
    package func goAway(_ code: ErrorCode = .noError, lastStreamID: UInt32? = nil, debugData: [UInt8] = []) {
        let last = min(lastStreamID ?? lastPeerStreamID, goAwaySent ?? FrameHeader.maximumStreamID)
        goAwaySent = last
        outbox.bytes.appendGoAway(lastStreamID: last, code: code, debugData: debugData.span)
    }

    // MARK: RST_STREAM (RFC 9113 §6.4)

    func receiveReset(
        _ header: FrameHeader, _ payload: Span<UInt8>, _ handler: some HTTP2Handler
    ) throws(HTTP2Error) {
        guard payload.count == 4 else { throw .connection(.frameSizeError, .wrongFrameLength) }
        guard resets.spend(now: now) else { throw .connection(.enhanceYourCalm, .tooManyResets) }
        guard let index = try openStream(header.streamID) else { return }
        let reference = StreamReference(streams[index])
        close(at: index)
        handler.ended(reference, by: .reset(ErrorCode(rawValue: payload.bigEndian(at: 0, as: UInt32.self))))
    }

    /// Gives a stream up; no more events are reported for it. Does nothing if it is closed already.
    package func reset(_ streamID: UInt32, _ code: ErrorCode = .cancel) {
        guard let index = streams.index(of: streamID) else { return }
        sendReset(code, of: streamID)
        close(at: index)
    }

    // MARK: PRIORITY (RFC 9113 §6.3): deprecated, checked for its form and ignored

    func receivePriority(_ header: FrameHeader, _ payload: Span<UInt8>) throws(HTTP2Error) {
        guard header.streamID != 0 else { throw .connection(.protocolError, .wrongStreamForFrame) }
        guard payload.count == 5 else { throw .stream(header.streamID, .frameSizeError, .wrongFrameLength) }
        try spendControlFrame()
    }
}
