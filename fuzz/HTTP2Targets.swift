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

/// A connection with an owner that does what a gateway or a simulator does: opens requests while it may, answers those that are
/// whole, and hands the output on, at times only a part of it.
private final class FuzzedConnection {
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

    init(_ connection: HTTP2Connection) {
        self.connection = connection
        takeOutput(all: true)
    }

    /// The first byte says in which pieces the rest arrives.
    func feed(_ input: [UInt8]) {
        var reader = InputReader(input)
        let pieceBytes = Int(reader.byte()) * 16 + 1
        while !reader.isAtEnd, connection.failure == nil {
            receive(reader.bytes(pieceBytes))
            openRequests()
            takeOutput(all: connection.outputByteCount % 2 == 0)
        }
        takeOutput(all: true)
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
        }
        if isLast { answer(stream) }
    }

    func received(_ body: Span<UInt8>, on stream: StreamReference, isLast: Bool) {
        if isLast { answer(stream) }
    }

    func ended(_ stream: StreamReference, by ending: StreamEnding) {
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
