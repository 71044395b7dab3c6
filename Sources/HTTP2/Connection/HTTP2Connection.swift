/// One HTTP/2 connection as a state machine: bytes in, events out; requests in, bytes out (RFC 9113). It has no socket
/// and no clock: its owner carries the output to the peer, passes incoming bytes to `receive`, and says what time it
/// is.
///
/// It plays the client's role for the APNs gateway and the server's for the simulator. What the roles share is spread
/// over files by concern: `+Receiving` takes frames apart, `+Headers`, `+Data` and `+Control` hold the rules for them,
/// `+Sending` writes messages, `+Client` and `+Server` what only one of them does.
///
/// The owner handles time-outs (first SETTINGS, SETTINGS ACK, PING, responses), since they need a timer.
///
/// Not `Sendable`: it lives on its owner's executor.
package final class HTTP2Connection {
    package enum Role: Sendable {
        case client
        case server
    }

    package let role: Role
    let limits: ConnectionLimits

    // Stored properties are internal and what the owner may read is computed: so the compiler sees every access to them
    // and can prove that they do not overlap, instead of checking it each time.

    // MARK: Settings

    var peerSettings = Settings()
    var hasPeerSettings = false
    /// What we announced last, and what of it the peer has acknowledged.
    var announcedSettings: Settings
    var settingsInForce = Settings()
    var unacknowledgedSettings: [Settings] = []

    // MARK: Frames and compression

    var outbox: Outbox
    var decoder: HPACKDecoder
    /// Filled by each header block that is read.
    var section = FieldSection()

    // MARK: Streams and windows

    var streams = StreamTable()
    /// The next stream a client opens.
    var nextStreamID: UInt32
    /// The highest stream the client has opened, for a server.
    var lastPeerStreamID: UInt32 = 0
    /// What a server remembers of those that are closed.
    var closedStreams = ClosedStreams()
    /// What the peer lets us send on the connection as a whole.
    var sendWindow = 65_535
    /// What the peer may still send on the connection as a whole, and what it used since it was last given back.
    var receiveWindow = 65_535
    var receivedSinceUpdate = 0
    var bodies = BodyQueue()

    // MARK: The end

    /// The last stream of the newest GOAWAY from either side.
    var goAwayReceived: UInt32?
    var goAwaySent: UInt32?
    var fatalError: HTTP2Error?

    // MARK: Reading

    /// The part of a frame that has arrived without its end.
    var partialFrame = ByteQueue()
    /// The header block that waits for its CONTINUATION.
    var headerBlock = ByteQueue()
    var openHeaderBlock: OpenHeaderBlock?
    var isPrefaceExpected: Bool
    var now: UInt64 = 0

    struct OpenHeaderBlock {
        var streamID: UInt32
        var isLast: Bool
        var continuationCount = 0
    }

    // MARK: Budgets

    var controlFrames: FloodBudget
    var emptyFrames: FloodBudget
    var resets: FloodBudget
    var windowUpdates: FloodBudget
    var unreadAnswerCount = 0
    /// PINGs of ours without an answer.
    var pingsInFlight: [UInt64] = []

    /// Starts a connection; its first bytes (the client's preface, SETTINGS) are in the outbox.bytes.
    ///
    /// - Parameters:
    ///   - settings: what to announce. A client always switches push off.
    ///   - names: the fields that events tell by number.
    ///   - firstStreamID: a client's first stream; a test starts near 2^31.
    package init(
        role: Role, settings: Settings = Settings(), limits: ConnectionLimits = ConnectionLimits(),
        names: FieldNames = FieldNames(),
        firstStreamID: UInt32 = 1
    ) {
        precondition(firstStreamID % 2 == 1, "A client's streams have odd identifiers.")
        self.role = role
        self.limits = limits
        announcedSettings = settings
        if role == .client { announcedSettings.enablePush = false }
        outbox = Outbox(names: names)
        decoder = HPACKDecoder(names: names, limits: limits.headerList)
        nextStreamID = firstStreamID
        isPrefaceExpected = role == .server
        controlFrames = FloodBudget(limits.controlFrames)
        emptyFrames = FloodBudget(limits.emptyFrames)
        resets = FloodBudget(limits.resets)
        windowUpdates = FloodBudget(limits.windowUpdates)
        writePreface()
    }

    /// The 24 octets a client starts with (RFC 9113 §3.4).
    static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)

    private func writePreface() {
        if role == .client { outbox.bytes.append(Self.preface) }
        // Even without entries: each end starts with SETTINGS (RFC 9113 §3.4).
        var initial = Settings()
        if role == .server { initial.enablePush = announcedSettings.enablePush }
        outbox.bytes.appendSettings(announcedSettings.entries(changedFrom: initial))
        unacknowledgedSettings = [announcedSettings]
        let increment = limits.connectionWindowSize - receiveWindow
        if increment > 0 {
            outbox.bytes.appendWindowUpdate(increment, of: 0)
            receiveWindow += increment
        }
    }

    // MARK: Asked by the owner

    /// How many bytes wait to be sent to the peer.
    package var outputByteCount: Int { outbox.bytes.count }

    /// Calls `body` with the bytes to be carried to the peer. It must not call the connection; say afterwards with
    /// `consumeOutput` how many were taken.
    package func withOutput<Result>(_ body: (Span<UInt8>) -> Result) -> Result {
        outbox.bytes.withBytes(body)
    }

    /// Says that the first `count` bytes of the output have been taken by the transport.
    package func consumeOutput(_ count: Int) {
        outbox.bytes.consume(count)
        if outbox.bytes.isEmpty { unreadAnswerCount = 0 }
    }

    /// Positions in all that is ever written: the end of what has been written, and of what the transport has taken.
    /// Something written has gone out when the second has reached what the first was then.
    package var writtenPosition: UInt64 { outbox.bytes.endPosition }
    package var sentPosition: UInt64 { outbox.bytes.consumedPosition }

    /// Whether the peer's first SETTINGS frame has been read.
    package var hasSettingsOfPeer: Bool { hasPeerSettings }

    /// Why the connection cannot go on; nil while it can.
    package var failure: HTTP2Error? { fatalError }

    /// How many streams are open.
    package var openStreamCount: Int { streams.count }

    /// How many octets of bodies wait for the peer's windows.
    package var blockedBodyByteCount: Int { bodies.byteCount }

    /// Whether SETTINGS of ours wait for the peer's acknowledgement.
    package var hasUnacknowledgedSettings: Bool { !unacknowledgedSettings.isEmpty }

    /// Whether the whole of what we had to say on the stream has been taken by the transport. While it is false the
    /// peer cannot have acted on a request; once the stream is closed it is false as well.
    package func isSent(_ streamID: UInt32) -> Bool {
        guard let index = streams.index(of: streamID) else { return false }
        return streams[index].endPosition <= outbox.bytes.consumedPosition
    }

    /// Whether the whole of what we had to say on the stream is in the output or beyond: the peer will get it, unless
    /// the connection is lost before. Once the stream is closed it is false.
    package func isWritten(_ streamID: UInt32) -> Bool {
        guard let index = streams.index(of: streamID) else { return false }
        return streams[index].flags.contains(.localEnded)
    }

    /// Calls `body` with each open stream and whether all we had to say on it has been taken by the transport: what
    /// there is to settle when the connection is lost. The order is not that of the streams.
    package func forEachOpenStream(_ body: (_ stream: StreamReference, _ isSent: Bool) -> Void) {
        for stream in streams.rows where stream.id != 0 {
            body(StreamReference(stream), stream.endPosition <= outbox.bytes.consumedPosition)
        }
    }
}
