/// One HTTP/2 connection as a state machine: bytes in, events out; requests in, bytes out (RFC 9113). It has no socket
/// and no clock: its owner sends the output to the peer, and passes incoming bytes and the time to `receive`.
///
/// It is the client for the APNs gateway and the server for the simulator. The files of both roles: `+Receiving` parses
/// frames, `+Headers`, `+Data` and `+Control` apply the rules for them, `+Sending` writes messages. `+Client` and
/// `+Server` have what only one role does.
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

    // Stored properties are internal, and the owner reads computed ones. So the compiler sees every access to the
    // stored ones and can prove that they do not overlap, instead of checking it each time.

    // MARK: Settings

    var peerSettings = Settings()
    var hasPeerSettings = false
    /// The settings that this side announced last, and those that the peer has acknowledged.
    var announcedSettings: Settings
    var settingsInForce = Settings()
    var unacknowledgedSettings: [Settings] = []

    // MARK: Frames and compression

    var outbox: Outbox
    var decoder: HPACKDecoder
    /// Each header block that is read fills it.
    var section = FieldSection()

    // MARK: Streams and windows

    var streams = StreamTable()
    /// The next stream a client opens.
    var nextStreamID: UInt32
    /// The highest stream the client has opened, for a server.
    var lastPeerStreamID: UInt32 = 0
    /// How many streams the client has opened beyond the limit, for a server.
    var excessStreams = 0
    /// What a server remembers about closed streams.
    var closedStreams = ClosedStreams()
    /// The octets that the peer still accepts on the connection as a whole.
    var sendWindow = 65_535
    /// The octets that the peer may still send on the connection as a whole, and those that it has sent since the last
    /// WINDOW_UPDATE.
    var receiveWindow = 65_535
    var receivedSinceUpdate = 0
    var bodies = BodyQueue()

    // MARK: The end

    /// The last stream of the newest GOAWAY from either side.
    var goAwayReceived: UInt32?
    var goAwaySent: UInt32?
    var fatalError: HTTP2Error?

    // MARK: Reading

    /// The beginning of a frame that has not arrived completely.
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
    /// This side's PINGs that have no answer yet.
    var pingsInFlight: [UInt64] = []

    /// Starts a connection. Its first bytes (the client's preface, SETTINGS) are in the output.
    ///
    /// - Parameters:
    ///   - settings: the settings to announce. A client always switches push off.
    ///   - names: the fields that events identify by number.
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
        // Each end starts with SETTINGS, even without entries (RFC 9113 §3.4).
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

    /// Calls `body` with the bytes to send to the peer. `body` must not call the connection. Call `consumeOutput`
    /// afterwards with the number of bytes taken.
    package func withOutput<Result>(_ body: (Span<UInt8>) -> Result) -> Result {
        outbox.bytes.withBytes(body)
    }

    /// Notes that the transport has taken the first `count` bytes of the output.
    package func consumeOutput(_ count: Int) {
        outbox.bytes.consume(count)
        if outbox.bytes.isEmpty { unreadAnswerCount = 0 }
    }

    /// Positions in the whole output: the end of what has been written, and the end of what the transport has taken. A
    /// message has gone out once `sentPosition` has reached the `writtenPosition` after it.
    package var writtenPosition: UInt64 { outbox.bytes.endPosition }
    package var sentPosition: UInt64 { outbox.bytes.consumedPosition }

    /// Whether the peer's first SETTINGS frame has been read.
    package var hasSettingsOfPeer: Bool { hasPeerSettings }

    /// Why the connection cannot go on; nil while it can.
    package var failure: HTTP2Error? { fatalError }

    /// How many streams are open.
    package var openStreamCount: Int { streams.count }

    /// How many streams the peer has opened beyond the limit of this side. Each was refused.
    package var excessStreamCount: Int { excessStreams }

    /// How many octets of bodies wait for the peer's windows.
    package var blockedBodyByteCount: Int { bodies.byteCount }

    /// Whether SETTINGS of this side wait for the peer's acknowledgement.
    package var hasUnacknowledgedSettings: Bool { !unacknowledgedSettings.isEmpty }

    /// Whether the transport has taken the whole message of this side on the stream. While this is false, the peer
    /// cannot have acted on a request. It is also false once the stream is closed.
    package func isSent(_ streamID: UInt32) -> Bool {
        guard let index = streams.index(of: streamID) else { return false }
        return streams[index].endPosition <= outbox.bytes.consumedPosition
    }

    /// Whether the whole message of this side on the stream is in the output or has left it. The peer will get it
    /// unless the connection is lost first. It is false once the stream is closed.
    package func isWritten(_ streamID: UInt32) -> Bool {
        guard let index = streams.index(of: streamID) else { return false }
        return streams[index].flags.contains(.localEnded)
    }

    /// Calls `body` with each open stream, and whether the transport has taken the whole message of this side on it.
    /// The owner settles these streams when the connection is lost. The order is arbitrary.
    package func forEachOpenStream(_ body: (_ stream: StreamReference, _ isSent: Bool) -> Void) {
        for stream in streams.rows where stream.id != 0 {
            body(StreamReference(stream), stream.endPosition <= outbox.bytes.consumedPosition)
        }
    }
}
