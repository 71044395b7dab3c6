/// What a server remembers about closed streams. With it, the server can tell a client that goes on after the end of a
/// stream from one that could not know yet that the stream was closed (RFC 9113 §5.1, §5.1.1).
///
/// Only the newest are remembered. A stream that has been forgotten counts as ended by the client: frames on it are
/// answered with RST_STREAM, which a correct client ignores.
struct ClosedStreams {
    /// How a stream came to be closed.
    enum History {
        /// Reset from here: what comes on it may have been sent before the client knew.
        case reset
        /// Never opened: one with a higher identifier was, and that closed it.
        case skipped
        /// The client ended or reset it itself.
        case ended
    }

    private static let maximumResets = 256
    private static let maximumGaps = 64

    /// The newest are at the end, behind those that `nextReset` overwrites first.
    private var resets: [UInt32] = []
    private var nextReset = 0
    /// Identifiers that the client has skipped, the lowest first.
    private var gaps: [ClosedRange<UInt32>] = []

    /// Remembers that a stream was reset from here.
    mutating func noteReset(_ streamID: UInt32) {
        guard resets.count == Self.maximumResets else { return resets.append(streamID) }
        resets[nextReset] = streamID
        nextReset = (nextReset + 1) % Self.maximumResets
    }

    /// Remembers which identifiers were skipped when the client opened `streamID` after `last`, which is 0 for its
    /// first.
    mutating func noteOpening(of streamID: UInt32, after last: UInt32) {
        let expected = last == 0 ? 1 : last + 2
        guard streamID > expected else { return }
        if gaps.count == Self.maximumGaps { gaps.removeFirst() }
        gaps.append(expected...(streamID - 2))
    }

    /// How a stream with an identifier that is not above the last one opened came to be closed.
    func history(of streamID: UInt32) -> History {
        if resets.contains(streamID) { return .reset }
        return gaps.contains { $0.contains(streamID) } ? .skipped : .ended
    }
}
