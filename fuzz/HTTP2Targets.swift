import HTTP2

/// What a server may send to the gateway's connection.
enum HTTP2ClientTarget: FuzzTarget {
    static let name = "http2-client"

    static func read(_ input: [UInt8]) {
        let peer = FuzzedConnection(HTTP2Connection(role: .client, names: FuzzedConnection.names))
        peer.feed(input)
    }
}

/// What a client may send to the simulator's connection, after a proper start.
enum HTTP2ServerTarget: FuzzTarget {
    static let name = "http2-server"

    static func read(_ input: [UInt8]) {
        let peer = FuzzedConnection(HTTP2Connection(role: .server, names: FuzzedConnection.names))
        peer.receive(Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + [0, 0, 0, 4, 0, 0, 0, 0, 0])
        peer.feed(input)
    }
}

/// Frames that are built of the input, for either end, with limits and settings of the input's choice.
enum HTTP2FramesTarget: FuzzTarget {
    static let name = "http2-frames"

    static func read(_ input: [UInt8]) {
        var reader = InputReader(input)
        let habits = reader.bytes(2)
        let choices = reader.byte()
        var limits = ConnectionLimits()
        limits.headerList = HPACKDecoder.Limits(drawnFrom: &reader)
        limits.headerBlockByteCount = limits.headerList.listByteCount * 2
        if choices & 2 != 0 { limits.connectionWindowSize = 65_535 + Int(reader.byte()) * 256 }
        var settings = Settings()
        settings.headerTableSize = Int(reader.byte()) * 32
        settings.maximumConcurrentStreams = Int(reader.byte() & 31)
        settings.initialWindowSize = [65_535, 0, 1, 100, 16_384, 0x7fff_ffff][Int(reader.byte() % 6)]
        let role: HTTP2Connection.Role = choices & 1 == 0 ? .client : .server
        var frames = FrameBuilder(limits.headerList, isFromServer: role == .client)
        let peer = FuzzedConnection(
            HTTP2Connection(role: role, settings: settings, limits: limits, names: FuzzedConnection.names))
        var start: [UInt8] = role == .server ? Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) : []
        start += [0, 0, 0, 4, 0, 0, 0, 0, 0]
        // From then on the settings are in force.
        if choices & 4 == 0 { start += [0, 0, 0, 4, 1, 0, 0, 0, 0] }
        peer.receive(start)
        peer.feed(habits + frames.all(&reader))
    }
}

/// A connection with an owner that does what a gateway or a simulator does: opens requests while it may, answers those
/// that are whole, and hands the output on, at times only a part of it.
final class FuzzedConnection {
    static let names = FieldNames(application: ["apns-id", "apns-topic"])
    private static let apnsID = FieldName(application: 0)
    private static let requestHeaders = PreparedHeaders([
        .init(":method", "POST"), .init(":scheme", "https"), .init(":authority", "127.0.0.1"),
        .init("apns-topic", "com.example.App"),
    ])
    private static let responseHeaders = PreparedHeaders([.init(":status", "200")])
    private static let path = Array("/3/device/00".utf8)
    private static let body = [UInt8](repeating: 0x20, count: 20_000)
    /// More than an owner opens at once, fewer than an input can end.
    private static let maximumRequestCount = 64
    /// Far more than inputs of a corpus can make a connection say.
    private static let maximumOutputBytes = 16 * 1024 * 1024

    private let connection: HTTP2Connection
    private var now: UInt64 = 1
    private var requestCount = 0
    private var failureCount = 0
    /// What has become of each request, by its tag: of every one of them its owner wants to hear once.
    private var fates: [UInt64: Fate] = [:]

    private enum Fate {
        case open
        /// The head of an answer has come, its end has not.
        case answering
        case over
    }

    init(_ connection: HTTP2Connection) {
        self.connection = connection
        takeOutput(all: true)
    }

    /// The first byte says in which pieces the rest arrives, the second what the owner does between them.
    func feed(_ input: [UInt8]) {
        var reader = InputReader(input)
        let pieceBytes = Int(reader.byte()) * 16 + 1
        let habits = reader.byte()
        while !reader.isAtEnd, connection.failure == nil {
            receive(reader.bytes(pieceBytes))
            openRequests()
            if habits & 1 != 0 { giveUpOldest() }
            if habits & 2 != 0 { connection.ping(now) }
            if habits & 4 == 0 { takeOutput(all: connection.outputByteCount % 2 == 0) }
        }
        settleAll()
    }

    /// An answer is late: nothing more is to be heard of its stream.
    private func giveUpOldest() {
        var oldest: StreamReference?
        connection.forEachOpenStream { stream, _ in
            if stream.id < oldest?.id ?? .max { oldest = stream }
        }
        guard connection.role == .client, let oldest else { return }
        // The peer can have acted on what has gone out; that is also in the output.
        precondition(!connection.isSent(oldest.id) || connection.isWritten(oldest.id))
        connection.reset(oldest.id, .cancel)
        end(oldest, at: .open, .answering)
    }

    /// The connection is lost or closed: those that are open are told by it, and no others are left.
    private func settleAll() {
        takeOutput(all: true)
        guard connection.role == .client else { return }
        connection.forEachOpenStream { stream, _ in end(stream, at: .open, .answering) }
        precondition(fates.values.allSatisfy { $0 == .over }, "a request is in flight for ever")
        precondition(fates.count == requestCount)
    }

    private func end(_ stream: StreamReference, at expected: Fate...) {
        guard connection.role == .client else { return }
        guard let fate = fates[stream.tag] else { preconditionFailure("a stream that nobody has opened") }
        precondition(expected.contains(fate), "what became of a request is told twice")
        fates[stream.tag] = .over
    }

    func receive(_ bytes: [UInt8]) {
        now += 1_000_000
        connection.receive(bytes.span, now: now, handler: self)
        checkAccounts()
    }

    private func openRequests() {
        guard connection.role == .client else { return }
        while connection.availableStreamCount > 0, requestCount < Self.maximumRequestCount {
            requestCount += 1
            fates[UInt64(requestCount)] = .open
            connection.openRequest(Self.requestHeaders, path: Self.path.span, tag: UInt64(requestCount), now: now)
            connection.add(Self.apnsID, Array("id \(requestCount)".utf8))
            connection.finish(body: requestCount % 4 == 0 ? Self.body : [0x7B, 0x7D])
        }
    }

    private func answer(_ stream: StreamReference) {
        guard connection.role == .server, connection.openResponse(on: stream.id, Self.responseHeaders) else { return }
        connection.finish(body: stream.id % 8 == 1 ? Self.body : [])
    }

    private func takeOutput(all: Bool) {
        let count = connection.outputByteCount
        connection.consumeOutput(all ? count : count / 2)
    }

    private func checkAccounts() {
        var openCount = 0
        connection.forEachOpenStream { _, _ in openCount += 1 }
        precondition(openCount == connection.openStreamCount, "streams are miscounted")
        precondition(connection.availableStreamCount >= 0 && connection.blockedBodyByteCount >= 0)
        precondition(connection.outputByteCount < Self.maximumOutputBytes, "a peer makes the output grow")
        precondition(failureCount == (connection.failure == nil ? 0 : 1), "a failure is told once")
    }
}

extension FuzzedConnection: HTTP2Handler {
    func received(_ section: borrowing FieldSection, on stream: StreamReference, isLast: Bool) {
        for field in section.fields {
            section.withName(of: field) { precondition(!$0.isEmpty, "a field without a name is malformed") }
            section.withValue(of: field) { _ = $0.count }
        }
        if connection.role == .client {
            // RFC 9113 §8.3.2: a response has a status. Interim ones are passed over.
            precondition((200...999).contains(section.status) || section.status == 0)
            precondition(fates[stream.tag] == .open, "a request is answered once, while it is open")
            fates[stream.tag] = .answering
        }
        if isLast { complete(stream) }
    }

    func received(_ body: Span<UInt8>, on stream: StreamReference, isLast: Bool) {
        if connection.role == .client { precondition(fates[stream.tag] == .answering, "a body without a head") }
        if isLast { complete(stream) }
    }

    private func complete(_ stream: StreamReference) {
        end(stream, at: .answering)
        answer(stream)
    }

    func ended(_ stream: StreamReference, by ending: StreamEnding) {
        end(stream, at: .open, .answering)
        precondition(!connection.isSent(stream.id), "a stream that has ended is closed")
    }

    func peerSettingsChanged() {}
    func settingsAcknowledged() {}
    func pingAnswered(_ payload: UInt64) {}

    func receivedGoAway(lastStreamID: UInt32, code: ErrorCode, debugData: Span<UInt8>) {
        precondition(connection.availableStreamCount == 0, "nothing is opened after GOAWAY")
    }

    func failed(_ error: HTTP2Error) { failureCount += 1 }
}
