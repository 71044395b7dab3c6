package import Cryptography
import Glibc

/// A TCP connection with TLS, of a client or a server. Its handler receives bytes, and ``write(_:)`` sends them.
/// Belongs to its loop's thread.
///
/// The loop keeps an open connection alive, and the connection keeps its handler alive, until either side closes.
package final class TLSConnection {
    private enum Phase {
        /// `completion` is called once at the end of the handshake, with nil if it succeeded.
        case handshaking(deadline: Timer, completion: (TransportError?) -> Void)
        case open
        case closed
    }

    /// After this many bytes a connection gives way to the others of its loop.
    private static let burstBytes = 1024 * 1024
    /// What a record counts as at least in a burst: one without data costs almost as much as one with so many bytes.
    private static let recordCost = 256
    /// The maximum size of a record. If the buffer has less room, the burst is handed over first.
    private static let recordBytes = 16 * 1024

    /// Receives bytes and events. Without a handler nothing is read: bytes that have arrived wait in TLS and in the
    /// kernel, and the peer has to wait once those are full. A server may write before the caller of `connect` has set
    /// a handler.
    package var handler: (any ByteStreamHandler)? {
        didSet { if (handler == nil) != (oldValue == nil) { readingChanged() } }
    }
    /// The peer's name for messages: `host:port`, or where a client came from.
    package let peer: String
    /// The address that the client connected to; nil on the server's side.
    package let address: IPAddress?
    package let loop: EventLoop

    private let socket: Socket
    private let session: TLSSession
    /// The connection keeps its context alive.
    private let context: TLSContext
    private var phase: Phase = .closed
    private var isReadingPaused = false
    private var isWriteBlocked = false
    private var messageRate = MessageRate()
    /// Whether the loop watches for room for what TLS sends by itself: its answers to key updates.
    private var isOutputWatched = false

    init(
        socket: Socket, address: IPAddress? = nil, context: TLSContext, host: String?, peer: String, loop: EventLoop,
        resuming sessions: ResumableSessions? = nil
    ) throws(CryptographyError) {
        self.socket = socket
        self.address = address
        self.peer = peer
        self.loop = loop
        self.context = context
        session = try TLSSession(context: context, descriptor: socket.descriptor, host: host, resuming: sessions)
    }

    /// Whether bytes can be exchanged.
    package var isOpen: Bool {
        if case .open = phase { true } else { false }
    }

    /// The protocol that ALPN chose.
    package var negotiatedProtocol: String? { session.negotiatedProtocol }

    /// The name that the client has sent (SNI); nil if it sent none.
    package var serverName: String? { session.serverName }

    /// Whether the handshake resumed an earlier session.
    package var isResumed: Bool { session.isResumed }

    /// The verified certificate of the peer. On the server's side, the client's certificate if the server asked for
    /// one.
    package var peerCertificate: Certificate? {
        get throws(CryptographyError) { try session.peerCertificate }
    }

    // MARK: Handshake

    /// Performs the handshake and calls `completion` once. With an error the connection is already closed.
    func handshake(until deadline: ContinuousClock.Instant, completion: @escaping (TransportError?) -> Void) {
        let timer = loop.schedule(after: loop.now.duration(to: deadline)) { [self] in
            endHandshake(.timedOut(peer: peer, during: .handshaking))
        }
        phase = .handshaking(deadline: timer, completion: completion)
        loop.watch(socket.descriptor, for: .readable, handler: self)
        continueHandshake()
    }

    private func continueHandshake() {
        do throws(CryptographyError) {
            let progress = try session.handshake()
            guard noteMessages() else { return endHandshake(flood) }
            switch progress {
            case .done: endHandshake(nil)
            case .wantWrite: loop.update(socket.descriptor, interest: .writable)
            case .wantRead, .closed: loop.update(socket.descriptor, interest: .readable)
            }
        } catch {
            endHandshake(describe(error, isOpen: false))
        }
    }

    private func endHandshake(_ error: TransportError?) {
        guard case .handshaking(let deadline, let completion) = phase else { return }
        deadline.cancel()
        phase = .open
        if error == nil { watchForWhatIsNeeded() } else { close() }
        completion(error)
    }

    // MARK: Reading

    /// Stops reading. The peer has to stop sending once the kernel's buffers are full.
    package func pauseReading() {
        isReadingPaused = true
        readingChanged()
    }

    /// Resumes reading, from the next turn on.
    package func resumeReading() {
        isReadingPaused = false
        readingChanged()
    }

    private var isReading: Bool { handler != nil && !isReadingPaused }

    private func readingChanged() {
        watchForWhatIsNeeded()
        // TLS may hold bytes that came with the end of the handshake or before a pause.
        if isOpen, isReading, session.hasPending { readOn() }
    }

    /// Reads what has arrived at once, without waiting for the next turn. A handler calls this before it acts on
    /// silence.
    package func readNow() { readBursts() }

    /// Continues reading in the next turn. The socket does not announce bytes that are already in TLS.
    private func readOn() {
        loop.schedule(after: .zero) { [self] in readBursts() }
    }

    private func readBursts() {
        var cost = 0
        while isOpen, isReading {
            let burst = readBurst(atCost: &cost)
            if burst.byteCount > 0 { handOver(burst.byteCount) }
            switch burst.end {
            case .dry: return
            case .full: if cost >= Self.burstBytes { return readOn() }
            case .closed(let error): return close(telling: error)
            }
        }
    }

    private enum BurstEnd {
        /// There are no more bytes within TLS or in the socket. If there are some in the socket, it will become ready.
        case dry
        /// There may be more.
        case full
        case closed(TransportError?)
    }

    /// Fills the loop's buffer with the records that have arrived, until their cost is that of a burst.
    private func readBurst(atCost cost: inout Int) -> (byteCount: Int, end: BurstEnd) {
        let buffer = unsafe loop.readBuffer
        var byteCount = 0
        defer { if session.hasOutput, !isOutputWatched { watchForWhatIsNeeded() } }
        do throws(CryptographyError) {
            while byteCount + Self.recordBytes <= buffer.count, cost < Self.burstBytes {
                let rest = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[byteCount...])
                let progress = unsafe try session.read(into: rest)
                guard noteMessages() else { return (byteCount, .closed(flood)) }
                switch progress {
                case .done(let count):
                    byteCount += count
                    cost += max(count, Self.recordCost)
                case .wantRead, .wantWrite: return (byteCount, .dry)
                case .closed: return (byteCount, .closed(nil))
                }
                // Another read would only learn from the kernel that there is nothing more. The loop learns that at
                // less cost.
                guard session.hasPending else { return (byteCount, .dry) }
            }
            return (byteCount, .full)
        } catch {
            return (byteCount, .closed(describe(error, isOpen: true)))
        }
    }

    /// Counts the messages of TLS itself that have come. Returns false if they come in a flood.
    private func noteMessages() -> Bool {
        !messageRate.isExceeded(by: session.messageCount, now: loop.nowNanoseconds)
    }

    private var flood: TransportError {
        .tls(peer: peer, .tls("more than \(MessageRate.limit) messages came in a second, such as key updates"))
    }

    private func handOver(_ byteCount: Int) {
        guard let handler else { return }
        let bytes = unsafe UnsafeBufferPointer(
            start: loop.readBuffer.baseAddress!.assumingMemoryBound(to: UInt8.self), count: byteCount)
        unsafe handler.received(bytes.span)
    }

    // MARK: Writing

    /// Encrypts and sends as many bytes as the kernel takes, and returns their number. The caller keeps the rest, waits
    /// for `writable()`, and then passes the same bytes again, followed by further ones if it has any. On a lost
    /// connection it takes nothing; `closed(_:)` reports the loss.
    package func write(_ bytes: Span<UInt8>) -> Int {
        guard isOpen, !bytes.isEmpty else { return 0 }
        // Bytes that went out before a failure count as sent: otherwise the caller would send them twice.
        var byteCount = 0
        do {
            try unsafe bytes.withUnsafeBufferPointer { bytes throws(CryptographyError) in
                unsafe try write(UnsafeRawBufferPointer(bytes), counting: &byteCount)
            }
        } catch {
            closeLater(because: error)
        }
        return byteCount
    }

    /// Closes in the next turn, because a caller may be in the middle of a change.
    private func closeLater(because error: CryptographyError) {
        let error = describe(error, isOpen: true)
        loop.schedule(after: .zero) { [self] in
            // Bytes that the peer sent before it went away may still be unread, and may say why.
            readBursts()
            close(telling: error)
        }
    }

    private func write(_ bytes: UnsafeRawBufferPointer, counting byteCount: inout Int) throws(CryptographyError) {
        var isBlocked = false
        while byteCount < bytes.count, !isBlocked {
            switch unsafe try session.write(UnsafeRawBufferPointer(rebasing: bytes[byteCount...])) {
            case .done(let count): byteCount += count
            case .wantRead, .wantWrite, .closed: isBlocked = true
            }
        }
        if isBlocked != isWriteBlocked {
            isWriteBlocked = isBlocked
            watchForWhatIsNeeded()
        }
    }

    /// The number of bytes that `write(_:)` took and the peer's machine has not acknowledged, including the overhead of
    /// TLS.
    package var unacknowledgedByteCount: Int { socket.unacknowledgedByteCount }

    /// Time since the peer's machine last gave a sign of life.
    package var sinceHeard: Duration { socket.sinceHeard }

    /// Whether the kernel probes the peer's machine once a second while nothing else is exchanged.
    package var isProbing = false {
        didSet { if isProbing != oldValue { socket.setProbing(isProbing) } }
    }

    // MARK: Closing

    /// Sends close_notify if the kernel takes it, and closes. The handler is not called any more.
    package func close() {
        if case .closed = phase { return }
        session.shutDown()
        loop.unwatch(socket.descriptor)
        shutdown(socket.descriptor, CInt(SHUT_WR))
        phase = .closed
        handler = nil
    }

    /// Closes without close_notify, as if this side had crashed: the peer gets a reset, and what it has not read is
    /// lost. The reset is sent when the last reference to the connection goes away. The handler is not called any more.
    package func abort() {
        if case .closed = phase { return }
        socket.resetWhenClosed()
        loop.unwatch(socket.descriptor)
        phase = .closed
        handler = nil
    }

    private func close(telling error: TransportError?) {
        guard isOpen else { return }
        let handler = handler
        close()
        handler?.closed(error)
    }

    private func watchForWhatIsNeeded() {
        guard isOpen else { return }
        var interest: Interest = isReading ? .readable : []
        isOutputWatched = session.hasOutput
        if isWriteBlocked || isOutputWatched { interest.insert(.writable) }
        loop.update(socket.descriptor, interest: interest)
    }

    private func describe(_ error: CryptographyError, isOpen: Bool) -> TransportError {
        guard case .system(let code) = error else { return .tls(peer: peer, error) }
        if isOpen {
            return .lost(peer: peer, reason: code == 0 ? "it was closed by the peer" : SystemCall.text(of: code))
        }
        let reason = code == 0 ? "the peer closed the connection" : SystemCall.text(of: code)
        return .unreachable(peer: peer, reason: "\(reason) during the TLS handshake")
    }
}

extension TLSConnection: ReadinessHandler {
    package func ready(_ readiness: Interest) {
        guard isOpen else { return continueHandshake() }
        if readiness.contains(.writable) { becameWritable() }
        if readiness.contains(.readable) { readBursts() }
    }

    private func becameWritable() {
        do throws(CryptographyError) { try session.sendOutput() } catch { return closeLater(because: error) }
        if isWriteBlocked {
            isWriteBlocked = false
            handler?.writable()
        }
        watchForWhatIsNeeded()
    }
}
