/// Why a stream ended without a complete message from the peer.
package enum StreamEnding: Equatable, Sendable {
    /// The peer sent RST_STREAM. With `.refusedStream` it has not processed the request (RFC 9113 §8.7).
    case reset(ErrorCode)
    /// The stream is above GOAWAY's last stream: the peer has not processed it and will not (RFC 9113 §6.8).
    case aboveGoAway
    /// The peer broke a rule on this stream, and this side reset it.
    case violation(HTTP2Error)
}

/// Receives the events of a connection. It is called during `receive`, on the caller's thread.
///
/// A handler may send, reset and answer from within a call; it must not call `receive`. Spans and sections are valid
/// during the call only.
package protocol HTTP2Handler: AnyObject {
    /// A complete and well-formed header section of a request or a final response arrived (interim ones are ignored).
    /// If `isLast`, there is no body; a client's stream is then closed already, and its slot free.
    func received(_ section: borrowing FieldSection, on stream: StreamReference, isLast: Bool)

    /// A part of the body arrived, possibly empty when `isLast` (also when trailers end the message).
    func received(_ body: Span<UInt8>, on stream: StreamReference, isLast: Bool)

    /// A stream ended before its message was complete. It is closed.
    func ended(_ stream: StreamReference, by ending: StreamEnding)

    /// The peer announced settings; `availableStreamCount` may have risen or fallen.
    func peerSettingsChanged()

    /// The peer acknowledged the oldest SETTINGS frame that was not acknowledged yet.
    func settingsAcknowledged()

    /// The peer accepts no new streams. Streams above `lastStreamID` are reported as ended before this call.
    func receivedGoAway(lastStreamID: UInt32, code: ErrorCode, debugData: Span<UInt8>)

    /// The peer answered a PING.
    func pingAnswered(_ payload: UInt64)

    /// The connection cannot go on. GOAWAY is in the output: send that and close. Open streams are not reported one by
    /// one; `forEachOpenStream` lists them.
    func failed(_ error: HTTP2Error)
}
