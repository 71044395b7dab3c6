/// The part that only a client has: it opens streams.
extension HTTP2Connection {
    /// How many streams may be opened now. It is 0 until the server's SETTINGS are read, since APNs at first allows a
    /// token connection only one stream. It is also 0 after GOAWAY, and when the identifiers are used up (RFC 9113
    /// §5.1.1, §5.1.2).
    package var availableStreamCount: Int {
        guard hasPeerSettings, goAwayReceived == nil, goAwaySent == nil, fatalError == nil else { return 0 }
        let limit = min(peerSettings.maximumConcurrentStreams ?? .max, limits.openStreamCount)
        return max(0, min(limit - streams.count, remainingStreamIDCount))
    }

    /// How many streams the connection can still open in its lifetime: 2^30 at first. A client that keeps a connection
    /// for days replaces it before they run out.
    package var remainingStreamIDCount: Int {
        max(0, (Int(FrameHeader.maximumStreamID) - Int(nextStreamID)) / 2 + 1)
    }

    /// The stream that the next request opens.
    package var nextStream: UInt32 { nextStreamID }

    /// Begins a request on a new stream. `add` its other fields, then `finish` it, before anything else is sent.
    ///
    /// - Parameters:
    ///   - headers: the fields that repeat, with `:method`, `:scheme` and `:authority` first.
    ///   - path: the `:path`. It differs each time, and the server does not keep it.
    ///   - tag: each event of the stream carries it.
    ///   - now: nanoseconds of the clock of `receive`; events carry it as `openedAt`.
    /// - Precondition: `availableStreamCount` is not 0.
    package func openRequest(_ headers: PreparedHeaders, path: Span<UInt8>, tag: UInt64, now: UInt64) {
        outbox.beginBlock(on: openStream(tag, now: now), path: path, headers)
    }

    /// The same for a path of two parts, the second of which is written in hexadecimal digits.
    package func openRequest(
        _ headers: PreparedHeaders, path: Span<UInt8>, hexadecimal suffix: Span<UInt8>, tag: UInt64, now: UInt64
    ) {
        outbox.beginBlock(on: openStream(tag, now: now), path: path, hexadecimal: suffix, headers)
    }

    private func openStream(_ tag: UInt64, now: UInt64) -> UInt32 {
        precondition(role == .client && availableStreamCount > 0, "The server allows no stream to be opened now.")
        let streamID = nextStreamID
        nextStreamID += 2
        _ = streams.insert(Stream(id: streamID, flags: .headSent, tag: tag, openedAt: now))
        return streamID
    }
}
