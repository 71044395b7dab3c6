/// What only a server does: it answers.
extension HTTP2Connection {
    /// Keeps a number of the caller with a stream; it comes back in each event of the stream. Does nothing when the
    /// stream is closed.
    package func setTag(_ tag: UInt64, of streamID: UInt32) {
        if let index = streams.index(of: streamID) { streams[index].tag = tag }
    }

    /// Begins the response on a stream, if that is still open. `add` its other fields, then `finish` it, before
    /// anything else is sent. A request that has not come to its end is cut off with RST_STREAM(NO_ERROR).
    ///
    /// - Parameter headers: what repeats, with `:status` first.
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
