import APNsSimulator
import Cryptography
import HTTP2
import Transport

/// A client of the simulator that sends what a test tells it to, valid or not. It runs on a loop.
final class PushClient {
    struct Answer: Equatable {
        var status = 0
        var fields: [String: String] = [:]
        var body = ""
        /// Not nil if the stream ended without an answer.
        var ending: StreamEnding?

        var reason: String? { body.firstMatch(of: /"reason":"([^"]*)"/).map { String($0.1) } }
    }

    let stream: TLSConnection
    let connection = HTTP2Connection(role: .client)
    private let loop: EventLoop
    private var answers: [UInt64: Answer] = [:]
    private var completed: Set<UInt64> = []
    private var waiters: [UInt64: CheckedContinuation<Answer?, Never>] = [:]
    private var conditions: [(holds: () -> Bool, continuation: CheckedContinuation<Bool, Never>)] = []
    private var nextTag: UInt64 = 1
    /// The GOAWAY frames so far, and whether the server has closed the connection.
    private(set) var goAways: [(lastStreamID: UInt32, debugData: String)] = []
    private(set) var isClosed = false

    /// The time after which an awaited event counts as missing.
    private static let patience = Duration.seconds(10)

    private init(_ stream: TLSConnection) {
        self.stream = stream
        loop = stream.loop
        stream.handler = self
        flush()
    }

    /// Connects to the simulator, by default to its API port. Runs `body` with a client that has read the server's
    /// SETTINGS.
    static func with<Success: Sendable>(
        _ simulator: Simulator, port: UInt16? = nil, identity: TLSIdentity? = nil,
        _ body: @Sendable (PushClient) async throws -> Success
    ) async throws -> Success {
        let loop = EventLoop(name: "push-client")
        defer { loop.shutDown() }
        return try await loop.run { _ in
            let context = try TLSContext.client(
                trusting: TrustStore(adding: [simulator.authority.certificate]), identity: identity)
            let stream = try await TLSConnection.connect(
                host: simulator.host, port: port ?? simulator.port, context: context, loop: loop,
                deadline: .now + patience)
            let client = PushClient(stream)
            defer { stream.close() }
            _ = await client.when { client.connection.hasSettingsOfPeer || client.isClosed }
            return try await body(client)
        }
    }

    // MARK: Sending

    static let token = String(repeating: "0123456789abcdef", count: 4)

    /// Sends a push. `fields` replace a valid push's fields by name; nil omits a field.
    func send(
        token: String = PushClient.token, path: String? = nil, method: String = "POST",
        fields: [(String, String?)] = [], body: String = #"{"aps":{"alert":"Hello"}}"#
    ) -> UInt64 {
        var all = [("apns-topic", "com.example.App"), ("apns-push-type", "alert")]
        for (name, value) in fields {
            if value == nil || all.contains(where: { $0.0 == name }) { all.removeAll { $0.0 == name } }
            if let value { all.append((name, value)) }
        }
        return write(method: method, path: path ?? "/3/device/" + token, all, body: body)
    }

    /// Sends a request with exactly these fields, and returns its tag.
    func write(method: String = "POST", path: String, _ fields: [(String, String)], body: String) -> UInt64 {
        let tag = nextTag
        nextTag += 1
        let headers = PreparedHeaders(
            [.init(":method", method), .init(":scheme", "https"), .init(":authority", "127.0.0.1")]
                + fields.map { .init($0.0, $0.1) })
        connection.openRequest(headers, path: Array(path.utf8).span, tag: tag, now: 0)
        connection.finish(body: Array(body.utf8))
        flush()
        return tag
    }

    /// Sends a push and waits for its answer. Returns nil if none comes in time.
    func push(
        token: String = PushClient.token, path: String? = nil, method: String = "POST",
        fields: [(String, String?)] = [], body: String = #"{"aps":{"alert":"Hello"}}"#
    ) async -> Answer? {
        await answer(to: send(token: token, path: path, method: method, fields: fields, body: body))
    }

    // MARK: Waiting

    func answer(to tag: UInt64) async -> Answer? {
        if completed.contains(tag) { return answers[tag] }
        return await withCheckedContinuation { continuation in
            waiters[tag] = continuation
            loop.schedule(after: Self.patience) { [self] in waiters.removeValue(forKey: tag)?.resume(returning: nil) }
        }
    }

    /// Waits until events of the connection make a condition true. Returns false if that takes too long.
    func when(_ holds: @escaping () -> Bool) async -> Bool {
        if holds() { return true }
        return await withCheckedContinuation { continuation in
            conditions.append((holds, continuation))
            loop.schedule(after: Self.patience) { [self] in checkConditions(isLate: true) }
        }
    }

    private func checkConditions(isLate: Bool = false) {
        let due = conditions.filter { isLate || $0.holds() }
        conditions.removeAll { isLate || $0.holds() }
        for condition in due { condition.continuation.resume(returning: condition.holds()) }
    }

    private func complete(_ tag: UInt64) {
        completed.insert(tag)
        waiters.removeValue(forKey: tag)?.resume(returning: answers[tag])
    }

    private func flush() {
        connection.consumeOutput(connection.withOutput { stream.write($0) })
    }
}

extension PushClient: ByteStreamHandler {
    func received(_ bytes: Span<UInt8>) {
        connection.receive(bytes, now: 0, handler: self)
        flush()
        checkConditions()
    }

    func writable() { flush() }

    func closed(_ error: TransportError?) {
        isClosed = true
        checkConditions()
    }
}

extension PushClient: HTTP2Handler {
    func received(_ section: borrowing FieldSection, on reference: StreamReference, isLast: Bool) {
        var answer = Answer(status: section.status)
        for field in section.fields {
            let name = section.withName(of: field) { String(decoding: Array($0), as: UTF8.self) }
            answer.fields[name] = section.withValue(of: field) { String(decoding: Array($0), as: UTF8.self) }
        }
        answers[reference.tag] = answer
        if isLast { complete(reference.tag) }
    }

    func received(_ body: Span<UInt8>, on reference: StreamReference, isLast: Bool) {
        answers[reference.tag]?.body += String(decoding: Array(body), as: UTF8.self)
        if isLast { complete(reference.tag) }
    }

    func ended(_ reference: StreamReference, by ending: StreamEnding) {
        answers[reference.tag, default: Answer()].ending = ending
        complete(reference.tag)
    }

    func receivedGoAway(lastStreamID: UInt32, code: ErrorCode, debugData: Span<UInt8>) {
        goAways.append((lastStreamID, String(decoding: Array(debugData), as: UTF8.self)))
    }

    func peerSettingsChanged() {}
    func settingsAcknowledged() {}
    func pingAnswered(_ payload: UInt64) {}
    func failed(_ error: HTTP2Error) {}
}
