import Transport

/// One request and the beginning of its answer, on its own connection.
///
/// Belongs to its loop.
final class Exchange {
    /// The connection, with or without TLS.
    enum Stream {
        case plain(PlainConnection)
        case secure(TLSConnection)
    }

    private let stream: Stream
    private let peer: String
    private let loop: EventLoop
    private let limits: ClientLimits
    /// The bytes that TLS has not taken yet.
    private var unsent: ArraySlice<UInt8> = []
    private var parser = AnswerStatusParser()
    private var answered: Waiter<Result<Int, ClientError>>
    private var hasStatus = false
    private var ended: Waiter<Bool>
    /// The number of bytes that came after the status.
    private var droppedBytes = 0

    init(_ stream: Stream, peer: String, loop: EventLoop, limits: ClientLimits) {
        self.stream = stream
        self.peer = peer
        self.loop = loop
        self.limits = limits
        answered = Waiter(loop: loop)
        ended = Waiter(loop: loop)
    }

    /// Sends the request, and waits for the status of its answer.
    func status(of request: consuming [UInt8], until deadline: ContinuousClock.Instant) async throws(ClientError) -> Int
    {
        unsent = request[...]
        switch stream {
        case .plain(let connection):
            connection.handler = self
            connection.write(request)
        case .secure(let connection):
            connection.handler = self
            writable()
        }
        guard let result = await answered.wait(until: deadline) else {
            throw .silent(peer: peer, after: limits.total)
        }
        return try result.get()
    }

    /// Reads to the end of the answer, within the limits of time and size: a server whose answer is cut off might count
    /// that as an error.
    func linger() async {
        _ = await ended.wait(until: loop.now + limits.linger)
    }

    /// Ends the request as if the server had closed the connection.
    func stop() {
        close()
        closed(nil)
    }

    func close() {
        switch stream {
        case .plain(let connection): connection.close()
        case .secure(let connection): connection.close()
        }
    }
}

extension Exchange: ByteStreamHandler {
    func received(_ bytes: Span<UInt8>) {
        if hasStatus {
            droppedBytes += bytes.count
            if droppedBytes > limits.lingerBytes {
                close()
                ended.resume(true)
            }
            return
        }
        do throws(AnswerFault) {
            guard let status = try parser.take(bytes) else { return }
            hasStatus = true
            answered.resume(.success(status))
        } catch {
            answered.resume(.failure(.malformed(peer: peer, error)))
            close()
        }
    }

    func writable() {
        guard case .secure(let connection) = stream else { return }
        while !unsent.isEmpty {
            let count = connection.write(unsent.span)
            guard count > 0 else { return }
            unsent.removeFirst(count)
        }
        // Frees the bytes: the wait for the answer may be long.
        unsent = []
    }

    func closed(_ error: TransportError?) {
        answered.resume(.failure(.lost(peer: peer)))
        ended.resume(true)
    }
}
