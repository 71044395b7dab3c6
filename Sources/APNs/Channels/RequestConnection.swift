import Cryptography
import HTTP2
import QueueCore
import Transport

/// A connection for the occasional requests of an operator, one at a time. Pushes go through a gateway.
///
/// Belongs to its loop.
final class RequestConnection {
    /// A complete answer.
    struct Response: Sendable {
        let status: Int
        /// The value of the field `apns-channel-id`.
        let channelID: String?
        var body: [UInt8] = []
    }

    /// The maximum length of a body; the rest of a longer one is dropped. 10,000 channels take 300 KB.
    private static let maximumBodyByteCount = 4 * 1024 * 1024

    private let stream: TLSConnection
    private let http = HTTP2Connection(role: .client, names: APNsFields.names)
    private var isReady: Waiter<Bool>?
    private var partial: Response?
    private var answered: Waiter<Result<Response, ChannelError>>?
    /// The reason that the server's GOAWAY gave for ending the connection.
    private var farewell: String?
    private var hasEnded = false
    /// How the request's stream ended without an answer. The connection acts on it after it has read the burst: a
    /// GOAWAY ends streams before `receivedGoAway` reports it.
    private var ending: StreamEnding?

    /// Connects, and waits for the server's first SETTINGS.
    static func open(
        to endpoint: Endpoint, identity: TLSIdentity?, loop: EventLoop, until deadline: ContinuousClock.Instant
    ) async throws(ChannelError) -> RequestConnection {
        let stream: TLSConnection
        do {
            let context = try TLSContext.client(trusting: endpoint.authorities, identity: identity)
            stream = try await TLSConnection.connect(
                host: endpoint.host, port: endpoint.port, context: context, loop: loop, deadline: deadline)
        } catch let error as TransportError {
            throw .unreachable(error.description)
        } catch {
            throw .unreachable("\(error)")
        }
        let connection = RequestConnection(stream)
        guard await connection.becomesReady(until: deadline) else {
            connection.close()
            throw connection.hasEnded ? connection.lost : .noAnswer(stream.peer)
        }
        return connection
    }

    private init(_ stream: TLSConnection) {
        self.stream = stream
        stream.handler = self
        flush()
    }

    private func becomesReady(until deadline: ContinuousClock.Instant) async -> Bool {
        if http.hasSettingsOfPeer { return true }
        let waiter = Waiter<Bool>(loop: stream.loop)
        isReady = waiter
        return await waiter.wait(until: deadline) ?? false
    }

    /// Whether another request may be made.
    var isUsable: Bool { stream.isOpen && http.availableStreamCount > 0 }

    /// Sends a request and waits for its answer. Only one request may be in flight.
    func response(
        to headers: PreparedHeaders, path: [UInt8], channelID: String?, body: [UInt8],
        until deadline: ContinuousClock.Instant
    ) async throws(ChannelError) -> Response {
        precondition(answered == nil, "one request at a time")
        guard stream.isOpen else { throw .lost(stream.peer, why: farewell, isUntouched: true) }
        guard http.availableStreamCount > 0 else { throw .noRoom(stream.peer) }
        let waiter = Waiter<Result<Response, ChannelError>>(loop: stream.loop)
        answered = waiter
        http.openRequest(headers, path: path.span, tag: 0, now: stream.loop.nowNanoseconds)
        if let channelID { http.add(APNsFields.channelID, Array(channelID.utf8)) }
        http.finish(body: body)
        flush()
        let result = await waiter.wait(until: deadline)
        (answered, partial) = (nil, nil)
        guard let result else {
            // A late answer must not be taken for the answer to the next request.
            close()
            throw .noAnswer(stream.peer)
        }
        return try result.get()
    }

    /// Sends GOAWAY and closes the connection.
    func close() {
        if http.failure == nil { http.goAway() }
        flush()
        stream.close()
    }

    private func flush() {
        http.consumeOutput(http.withOutput { stream.write($0) })
    }

    private func end() {
        hasEnded = true
        isReady?.resume(false)
        answered?.resume(.failure(lost))
    }

    private var lost: ChannelError { .lost(stream.peer, why: farewell, isUntouched: false) }

    private func endRequest(_ ending: StreamEnding) {
        let error: ChannelError =
            switch ending {
            case .aboveGoAway: .lost(stream.peer, why: farewell, isUntouched: true)
            case .reset(.refusedStream): .turnedAway(stream.peer)
            case .reset(let code): .reset(stream.peer, code: "RST_STREAM, \(code)")
            case .violation(let error): .reset(stream.peer, code: "\(error)")
            }
        answered?.resume(.failure(error))
    }
}

extension RequestConnection: ByteStreamHandler {
    func received(_ bytes: Span<UInt8>) {
        http.receive(bytes, now: stream.loop.nowNanoseconds, handler: self)
        flush()
        if let ending { endRequest(ending) }
        ending = nil
        if http.failure != nil { end() }
    }

    func writable() { flush() }

    func closed(_ error: TransportError?) { end() }
}

extension RequestConnection: HTTP2Handler {
    func received(_ section: borrowing FieldSection, on stream: StreamReference, isLast: Bool) {
        let channelID = section.text(of: APNsFields.channelID)
        let response = Response(status: section.status, channelID: channelID)
        if isLast { answered?.resume(.success(response)) } else { partial = response }
    }

    func received(_ body: Span<UInt8>, on stream: StreamReference, isLast: Bool) {
        let room = Self.maximumBodyByteCount - (partial?.body.count ?? 0)
        partial?.body.append(body.extracting(first: min(room, body.count)))
        if isLast, let partial { answered?.resume(.success(partial)) }
    }

    func ended(_ stream: StreamReference, by ending: StreamEnding) { self.ending = ending }

    func receivedGoAway(lastStreamID: UInt32, code: ErrorCode, debugData: Span<UInt8>) {
        let reason = RefusalBody(Array(debugData)).reason
        farewell =
            reason.map { Reason(status: 0, text: $0).broadcastMeaning ?? $0 } ?? (code == .noError ? nil : "\(code)")
    }

    func peerSettingsChanged() { isReady?.resume(true) }

    func settingsAcknowledged() {}
    func pingAnswered(_ payload: UInt64) {}
    func failed(_ error: HTTP2Error) {}
}
