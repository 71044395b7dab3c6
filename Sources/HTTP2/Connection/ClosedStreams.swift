/// What a server remembers about closed streams. It lets the server distinguish a client that sends after the end of a
/// stream from a client that could not know yet that the stream was closed (RFC 9113 §5.1, §5.1.1).
///
/// It remembers only the newest. A forgotten stream counts as ended by the client: frames on it are answered with
/// RST_STREAM, which a correct client ignores.
struct ClosedStreams {
    /// How a stream came to be closed.
    enum History {
        /// This side reset it. Frames on it may have been sent before the client knew.
        case reset
        /// It was never opened. Opening a stream with a higher identifier closed it.
        case skipped
        /// The client ended or reset it itself.
        case ended
    }

    private static let maximumResets = 256
    private static let maximumGaps = 64

    /// A ring of the newest resets; `nextReset` is the oldest, which is overwritten first.
    private var resets: [UInt32] = []
    private var nextReset = 0
    /// Identifiers that the client has skipped, the lowest first.
    private var gaps: [ClosedRange<UInt32>] = []

    /// Remembers that this side reset a stream.
    mutating func noteReset(_ streamID: UInt32) {
        guard resets.count == Self.maximumResets else { return resets.append(streamID) }
        resets[nextReset] = streamID
        nextReset = (nextReset + 1) % Self.maximumResets
    }

    /// Remembers the identifiers that the client skipped when it opened `streamID` after `last`. `last` is 0 for its
    /// first stream.
    mutating func noteOpening(of streamID: UInt32, after last: UInt32) {
        let expected = last == 0 ? 1 : last + 2
        guard streamID > expected else { return }
        if gaps.count == Self.maximumGaps { gaps.removeFirst() }
        gaps.append(expected...(streamID - 2))
    }

    /// Returns how a stream came to be closed. Its identifier must not be above the last opened one.
    func history(of streamID: UInt32) -> History {
        if resets.contains(streamID) { return .reset }
        return gaps.contains { $0.contains(streamID) } ? .skipped : .ended
    }
}
