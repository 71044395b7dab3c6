import FoundationEssentials
import Transport

/// One client's connection to a ``Server``. It reads and answers requests one after the other.
final class ServedConnection {
    private enum Phase {
        /// No byte of a request has come.
        case idle
        /// A part of a head has come.
        case reading
        /// The answer is being made.
        case answering
        /// The answer is being sent.
        case writing
        case closed
    }

    private let connection: PlainConnection
    private let loop: EventLoop
    private let limits: ServerLimits
    private let answer: Answering
    private let ended: (ServedConnection) -> Void
    private var phase = Phase.idle
    /// Since when the connection has been idle; nil while a request is read or answered.
    var idleSince: ContinuousClock.Instant? { phase == .idle ? lastIdle : nil }
    private var lastIdle = ContinuousClock.now
    private var input: [UInt8] = []
    private var closesAfterAnswer = false
    private var timer: Timer?

    init(
        _ connection: PlainConnection, loop: EventLoop, limits: ServerLimits, answer: @escaping Answering,
        ended: @escaping (ServedConnection) -> Void
    ) {
        self.connection = connection
        self.loop = loop
        self.limits = limits
        self.answer = answer
        self.ended = ended
        allow(limits.requestTime)
    }

    /// Closes at once.
    func close() {
        guard phase != .closed else { return }
        phase = .closed
        timer?.cancel()
        connection.close()
        ended(self)
    }

    /// Closes if nothing has happened after `limit`.
    private func allow(_ limit: Duration) {
        timer?.cancel()
        timer = loop.schedule(after: limit) { [weak self] in self?.close() }
    }

    private func readOn() {
        guard phase == .idle || phase == .reading, !input.isEmpty else { return }
        do throws(RequestFault) {
            guard let (head, byteCount) = try RequestHead.parse(input, maximumBody: limits.bodyBytes),
                input.count >= byteCount + head.bodyByteCount
            else {
                if phase == .idle { allow(limits.requestTime) }
                phase = .reading
                return
            }
            let body = Array(input[byteCount..<(byteCount + head.bodyByteCount)])
            input.removeFirst(byteCount + head.bodyByteCount)
            take(Request(head: head, body: body))
        } catch {
            input = []
            closesAfterAnswer = true
            send(Response(status: error.status, text: error.text), hasBody: true)
        }
    }

    private func take(_ request: Request) {
        phase = .answering
        let head = request.head
        closesAfterAnswer = !head.keepsConnection
        let isHead = head.method == "HEAD"
        guard isHead || limits.methods.contains(head.method) else {
            return send(.methodNotAllowed(limits.methods), hasBody: true)
        }
        allow(limits.answerTime)
        answer(request) { [weak self] response in
            guard let self, phase == .answering else { return }
            send(response, hasBody: !isHead)
        }
    }

    private func send(_ response: Response, hasBody: Bool) {
        phase = .writing
        allow(limits.answerTime)
        connection.write(
            response.encoded(closes: closesAfterAnswer, hasBody: hasBody, at: Int(Date.now.timeIntervalSince1970)))
    }
}

extension ServedConnection: ByteStreamHandler {
    func received(_ bytes: Span<UInt8>) {
        // A client may send further requests while it is answered, up to this size.
        guard input.count <= 2 * RequestHead.maximumBytes + limits.bodyBytes else { return close() }
        for index in bytes.indices { input.append(bytes[index]) }
        readOn()
    }

    func writable() {
        guard phase == .writing else { return }
        if closesAfterAnswer { return close() }
        phase = .idle
        lastIdle = .now
        allow(limits.idleTime)
        // The next request may have come with the last one.
        if !input.isEmpty { loop.atEndOfTurn { [weak self] in self?.readOn() } }
    }

    func closed(_ error: TransportError?) { close() }
}
