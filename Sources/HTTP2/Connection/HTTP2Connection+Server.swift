/// The part that only a server has: it answers requests.
extension HTTP2Connection {
    /// Stores a number of the caller with a stream. Each event of the stream carries it. Does nothing if the stream is
    /// closed.
    package func setTag(_ tag: UInt64, of streamID: UInt32) {
        if let index = streams.index(of: streamID) { streams[index].tag = tag }
    }

    /// Begins the response on a stream that is still open. `add` its other fields, then `finish` it, before anything
    /// else is sent. If the request is not complete by then, RST_STREAM(NO_ERROR) cuts it off.
    ///
    /// - Parameter headers: the fields that repeat, with `:status` first.
    /// - Returns: false if the stream is gone; then nothing was begun.
    package func openResponse(on streamID: UInt32, _ headers: PreparedHeaders) -> Bool {
        precondition(role == .server, "Only a server answers.")
        guard fatalError == nil, let index = streams.index(of: streamID) else { return false }
        precondition(!streams[index].flags.contains(.headSent), "A request is answered once.")
        streams[index].flags.insert(.headSent)
        outbox.beginBlock(on: streamID, headers)
        return true
    }
}
