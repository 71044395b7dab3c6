/// DATA and both directions of flow control (RFC 9113 §5.2, §6.1, §6.9).
extension HTTP2Connection {
    func receiveData(
        _ header: FrameHeader, _ payload: Span<UInt8>, _ handler: some HTTP2Handler
    ) throws(HTTP2Error) {
        guard header.streamID != 0 else { throw .connection(.protocolError, .wrongStreamForFrame) }
        // The whole payload counts, padding included, even if the stream is gone (§6.1, §6.9).
        try spendReceiveWindow(payload.count)
        let range = try Self.contentRange(of: payload, header.flags)
        guard let index = try streamOfMessage(header.streamID) else { return }
        let isLast = header.flags.contains(.endStream)
        try spendReceiveWindow(ofStreamAt: index, payload.count, isLast: isLast)
        try countBody(at: index, range.count, isLast: isLast)
        if range.isEmpty, !isLast { try spendEmptyFrame() }
        let reference = StreamReference(streams[index])
        if isLast { endRemote(at: index) }
        handler.received(payload.extracting(range), on: reference, isLast: isLast)
    }

    /// Checks a part of a body against the order of frames (§5.1, §8.1) and against `content-length` (§8.1.1).
    private func countBody(at index: Int, _ count: Int, isLast: Bool) throws(HTTP2Error) {
        let stream = streams[index]
        guard !stream.flags.contains(.remoteEnded) else { throw .stream(stream.id, .streamClosed, .closedStream) }
        guard stream.flags.contains(.headReceived) else {
            throw .stream(stream.id, .protocolError, .malformedMessage)
        }
        guard stream.bodyBytesExpected >= 0 else { return }
        let rest = stream.bodyBytesExpected - count
        guard rest >= 0, !isLast || rest == 0 else {
            throw .stream(stream.id, .protocolError, .contentLengthMismatch)
        }
        streams[index].bodyBytesExpected = rest
    }

    // MARK: Receive windows

    /// Subtracts DATA from the connection's window. Gives the used octets back once they are half of the window, so
    /// that the peer neither stalls nor gets a WINDOW_UPDATE for each frame.
    private func spendReceiveWindow(_ count: Int) throws(HTTP2Error) {
        receiveWindow -= count
        guard receiveWindow >= 0 else { throw .connection(.flowControlError, .windowExceeded) }
        receivedSinceUpdate += count
        guard receivedSinceUpdate >= limits.connectionWindowSize / 2 else { return }
        outbox.bytes.appendWindowUpdate(receivedSinceUpdate, of: 0)
        receiveWindow += receivedSinceUpdate
        receivedSinceUpdate = 0
    }

    private func spendReceiveWindow(ofStreamAt index: Int, _ count: Int, isLast: Bool) throws(HTTP2Error) {
        let initial = settingsInForce.initialWindowSize
        let credit = streams[index].receiveCredit - count
        guard initial + credit >= 0 else {
            throw .stream(streams[index].id, .flowControlError, .windowExceeded)
        }
        let isDue = !isLast && -credit >= max(1, initial / 2)
        if isDue { outbox.bytes.appendWindowUpdate(-credit, of: streams[index].id) }
        streams[index].receiveCredit = isDue ? 0 : credit
    }

    // MARK: Send windows

    func receiveWindowUpdate(_ header: FrameHeader, _ payload: Span<UInt8>) throws(HTTP2Error) {
        guard payload.count == 4 else { throw .connection(.frameSizeError, .wrongFrameLength) }
        guard windowUpdates.spend(now: now) else { throw .connection(.enhanceYourCalm, .tooManyWindowUpdates) }
        let increment = Int(payload.bigEndian(at: 0, as: UInt32.self) & FrameHeader.maximumStreamID)
        if header.streamID == 0 {
            guard increment > 0 else { throw .connection(.protocolError, .zeroWindowUpdate) }
            sendWindow += increment
            guard sendWindow <= Settings.maximumWindowSize else {
                throw .connection(.flowControlError, .windowOverflow)
            }
        } else {
            guard let index = try openStream(header.streamID) else { return }
            guard increment > 0 else { throw .stream(header.streamID, .protocolError, .zeroWindowUpdate) }
            streams[index].sendCredit += increment
            guard sendWindow(ofStreamAt: index) <= Settings.maximumWindowSize else {
                throw .stream(header.streamID, .flowControlError, .windowOverflow)
            }
            bodies.recall(header.streamID)
        }
        sendWaitingBodies()
    }

    /// Returns how many octets the peer's window of that stream allows now; negative after the setting was lowered
    /// (§6.9.2).
    func sendWindow(ofStreamAt index: Int) -> Int {
        peerSettings.initialWindowSize + streams[index].sendCredit
    }

    /// Checks the windows of all streams against the maximum after the initial size has grown (§6.9.2).
    func checkSendWindows() throws(HTTP2Error) {
        for stream in streams.rows where stream.id != 0 {
            guard peerSettings.initialWindowSize + stream.sendCredit <= Settings.maximumWindowSize else {
                throw .connection(.flowControlError, .windowOverflow)
            }
        }
    }
}
