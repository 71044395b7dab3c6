/// Messages going out: a header block, written in place, and a body, as far as the windows let it.
extension HTTP2Connection {
    /// Starts a HEADERS frame.
    func beginBlock(on streamID: UInt32) {
        precondition(blockStreamID == 0, "A message must be finished before the next one is begun.")
        blockStreamID = streamID
        blockStart = output.endPosition
        output.append(FrameHeader(payloadByteCount: 0, type: FrameType.headers, streamID: streamID))
        encoder.beginBlock(into: &output)
    }

    /// Adds a field to the message being written. Its value is sent as it is and not kept by the peer; its name is, the
    /// first time.
    ///
    /// - Parameter name: one of the numbered names, not `.other`.
    package func add(_ name: FieldName, _ value: Span<UInt8>) {
        precondition(blockStreamID != 0 && name != .other, "Fields with a numbered name are added to a message begun.")
        encoder.append(name, value, into: &output)
    }

    /// Ends the message being written with its body. What the peer's windows do not let out now is kept and follows
    /// when they open.
    ///
    /// - Returns: the identifier of the stream.
    @discardableResult
    package func finish(body: [UInt8] = []) -> UInt32 {
        let streamID = blockStreamID
        guard let index = streams.index(of: streamID) else { preconditionFailure("No message was begun.") }
        blockStreamID = 0
        completeBlock(flags: body.isEmpty ? [.endHeaders, .endStream] : .endHeaders, streamID)
        streams[index].flags.insert(.headSent)
        if body.isEmpty {
            endLocal(at: index)
        } else {
            send(BodyQueue.Body(streamID: streamID, bytes: body, offset: 0), ofStreamAt: index)
        }
        return streamID
    }

    private func completeBlock(flags: FrameFlags, _ streamID: UInt32) {
        let payloadByteCount = Int(output.endPosition - blockStart) - FrameHeader.byteCount
        if payloadByteCount <= peerSettings.maximumFrameSize {
            output.completeFrame(at: blockStart, type: FrameType.headers, flags: flags)
        } else {
            splitBlock(payloadByteCount, flags: flags, streamID)
        }
    }

    /// Writes a block that is too large for one frame as HEADERS and CONTINUATION (RFC 9113 §4.3).
    private func splitBlock(_ byteCount: Int, flags: FrameFlags, _ streamID: UInt32) {
        let block = output.withBytes(at: blockStart + UInt64(FrameHeader.byteCount), count: byteCount) { Array($0) }
        output.truncate(to: blockStart)
        var offset = 0
        while offset < byteCount {
            let end = min(offset + peerSettings.maximumFrameSize, byteCount)
            var frameFlags = offset == 0 ? flags.subtracting(.endHeaders) : []
            if end == byteCount { frameFlags.insert(.endHeaders) }
            output.append(
                FrameHeader(
                    payloadByteCount: end - offset, type: offset == 0 ? FrameType.headers : FrameType.continuation,
                    flags: frameFlags, streamID: streamID))
            output.append(block.span.extracting(offset..<end))
            offset = end
        }
    }

    // MARK: Bodies

    /// Sends a body, or lines it up behind those that wait already (RFC 9113 §5.2).
    private func send(_ body: BodyQueue.Body, ofStreamAt index: Int) {
        var body = body
        if bodies.isEmpty {
            while sendPart(of: &body, ofStreamAt: index) {}
        }
        guard body.byteCount > 0 else { return }
        streams[index].flags.insert(.bodyWaiting)
        bodies.append(body)
        sendWaitingBodies()
    }

    /// Sends a frame of a body; whether more of it could be sent at once.
    private func sendPart(of body: inout BodyQueue.Body, ofStreamAt index: Int) -> Bool {
        let window = min(sendWindow, sendWindow(ofStreamAt: index))
        let count = min(body.byteCount, window, peerSettings.maximumFrameSize)
        guard count > 0 else { return false }
        let isLast = count == body.byteCount
        output.append(
            FrameHeader(
                payloadByteCount: count, type: FrameType.data, flags: isLast ? .endStream : [],
                streamID: body.streamID))
        output.append(body.bytes.span.extracting(body.offset..<(body.offset &+ count)))
        body.offset &+= count
        sendWindow &-= count
        streams[index].sendCredit &-= count
        if isLast { endLocal(at: index) }
        return !isLast
    }

    /// Lets the waiting bodies out, a frame each in turn, until the connection's window is used up.
    func sendWaitingBodies() {
        while sendWindow > 0, var body = bodies.popFirst() {
            // The stream may have been reset since, from either end.
            guard let index = streams.index(of: body.streamID) else { continue }
            _ = sendPart(of: &body, ofStreamAt: index)
            guard body.byteCount > 0 else { continue }
            if sendWindow(ofStreamAt: index) > 0 {
                bodies.append(body)
            } else {
                bodies.setAside(body)
            }
        }
    }

    /// We have said all on a stream.
    private func endLocal(at index: Int) {
        streams[index].flags.insert(.localEnded)
        streams[index].flags.remove(.bodyWaiting)
        streams[index].endPosition = output.endPosition
        if streams[index].flags.contains(.remoteEnded) { return close(at: index) }
        guard role == .server else { return }
        // The answer is complete and the rest of the request is of no use: the client need not send it (RFC 9113 §8.1).
        output.appendReset(.noError, of: streams[index].id)
        close(at: index)
    }
}
