/// Sends messages: a header block, written in place, and a body, as far as the windows allow.
extension HTTP2Connection {
    /// Adds a field to the message being written. The value is sent in full, and the peer does not keep it. The peer
    /// keeps the name after the first time.
    ///
    /// - Parameter name: one of the numbered names, not `.other`.
    package func add(_ name: FieldName, _ value: Span<UInt8>) {
        outbox.add(name, value)
    }

    /// The same, for a UUID, given as its two halves.
    package func add(_ name: FieldName, uuid: (high: UInt64, low: UInt64)) {
        outbox.add(name, uuid: uuid)
    }

    /// The same, for a value in an array.
    package func add(_ name: FieldName, _ value: [UInt8]) {
        outbox.add(name, value.span)
    }

    /// Ends the message being written with its body. Octets that the peer's windows do not allow now are kept, and sent
    /// when the windows open.
    ///
    /// - Returns: the identifier of the stream.
    @discardableResult
    package func finish(body: [UInt8] = []) -> UInt32 {
        let streamID = outbox.blockStreamID
        guard let index = streams.index(of: streamID) else { Swift.fatalError("No message was begun.") }
        outbox.endBlock(isLast: body.isEmpty, maximumFrameSize: peerSettings.maximumFrameSize)
        if body.isEmpty {
            endLocal(at: index)
        } else {
            send(BodyQueue.Body(streamID: streamID, bytes: body, offset: 0), ofStreamAt: index)
        }
        return streamID
    }

    // MARK: Bodies

    /// Sends a body, or queues it behind waiting bodies (RFC 9113 §5.2).
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

    /// Sends a frame of a body. Returns whether more of the body may be sent at once.
    private func sendPart(of body: inout BodyQueue.Body, ofStreamAt index: Int) -> Bool {
        let window = min(sendWindow, sendWindow(ofStreamAt: index))
        let count = min(body.byteCount, window, peerSettings.maximumFrameSize)
        guard count > 0 else { return false }
        let isLast = count == body.byteCount
        outbox.appendData(body, count: count, isLast: isLast)
        body.offset &+= count
        sendWindow &-= count
        streams[index].sendCredit &-= count
        if isLast { endLocal(at: index) }
        return !isLast
    }

    /// Sends the waiting bodies, one frame each in turn, until the connection's window is used up.
    func sendWaitingBodies() {
        while sendWindow > 0, var body = bodies.popFirst() {
            // A closed stream's body was removed with it.
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

    /// Notes that this side of a stream has ended.
    private func endLocal(at index: Int) {
        // Writes the row only once, because each access from outside is checked for overlap with another.
        var stream = streams[index]
        stream.flags.insert(.localEnded)
        stream.flags.remove(.bodyWaiting)
        stream.endPosition = outbox.bytes.endPosition
        streams[index] = stream
        if stream.flags.contains(.remoteEnded) {
            // Credits only a complete request: opening streams and resetting them is also a flood.
            if role == .server { earnFrames() }
            return close(at: index)
        }
        guard role == .server else { return }
        // The answer is complete, so the client need not send the rest of the request (RFC 9113 §8.1).
        sendReset(.noError, of: stream.id)
        close(at: index)
    }
}
