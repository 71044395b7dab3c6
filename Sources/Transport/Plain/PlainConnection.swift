import Glibc

/// A connection without TLS, of a client or of a ``PlainListener``. Its handler receives bytes, and ``write(_:)`` sends
/// them. Belongs to its loop's thread.
///
/// The loop keeps an open connection alive, and the connection keeps its handler alive, until either side closes.
package final class PlainConnection {
    /// Receives bytes and events. Without a handler nothing is read.
    package var handler: (any ByteStreamHandler)? {
        didSet { watchForWhatIsNeeded() }
    }

    private let socket: Socket
    private let loop: EventLoop
    private var isOpen = true
    /// The bytes given to ``write(_:)``, and how many of them the kernel has taken.
    private var output: [UInt8] = []
    private var writtenCount = 0

    init(_ socket: Socket, loop: EventLoop) {
        self.socket = socket
        self.loop = loop
        loop.watch(socket.descriptor, for: [], handler: self)
    }

    /// Sends bytes, and keeps those that the kernel does not take at once; the caller bounds how many. When all are
    /// sent, the connection calls the handler's `writable()`, from within this call or later.
    package func write(_ bytes: [UInt8]) {
        guard isOpen else { return }
        output.append(contentsOf: bytes)
        flush()
    }

    /// Closes at once. The handler is not called any more.
    package func close() {
        guard isOpen else { return }
        isOpen = false
        loop.unwatch(socket.descriptor)
        shutdown(socket.descriptor, CInt(SHUT_RDWR))
        handler = nil
    }

    private func flush() {
        while isOpen, writtenCount < output.count {
            let count = unsafe output.withUnsafeBytes { bytes in
                unsafe send(
                    socket.descriptor, bytes.baseAddress! + writtenCount, bytes.count - writtenCount,
                    CInt(MSG_NOSIGNAL))
            }
            if count > 0 {
                writtenCount += count
            } else if errno == EAGAIN {
                return watchForWhatIsNeeded()
            } else if errno != EINTR {
                return end()
            }
        }
        output.removeAll(keepingCapacity: true)
        writtenCount = 0
        watchForWhatIsNeeded()
        handler?.writable()
    }

    private func watchForWhatIsNeeded() {
        guard isOpen else { return }
        var interest: Interest = handler == nil ? [] : .readable
        if writtenCount < output.count { interest.insert(.writable) }
        loop.update(socket.descriptor, interest: interest)
    }

    /// Reads once in a turn; epoll reports the remaining bytes in the next one.
    private func read() {
        let count = unsafe recv(socket.descriptor, loop.readBuffer.baseAddress, loop.readBuffer.count, 0)
        if count < 0, errno == EAGAIN || errno == EINTR { return }
        guard count > 0 else { return end() }
        let bytes = unsafe UnsafeBufferPointer(
            start: loop.readBuffer.baseAddress!.assumingMemoryBound(to: UInt8.self), count: count)
        unsafe handler?.received(bytes.span)
    }

    /// Closes the connection after the peer has gone or the line broke. A handler need not know which.
    private func end() {
        let handler = handler
        close()
        handler?.closed(nil)
    }
}

extension PlainConnection: ReadinessHandler {
    package func ready(_ readiness: Interest) {
        if readiness.contains(.writable), writtenCount < output.count { flush() }
        if isOpen, readiness.contains(.readable), handler != nil { read() }
    }
}
