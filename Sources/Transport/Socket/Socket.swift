import CLinux
import Glibc

/// The only owner of a TCP socket's descriptor. The socket is non-blocking, and is closed with the last reference.
final class Socket {
    /// An error number of a failed call.
    struct Failure: Error {
        let errno: CInt
        var reason: String { SystemCall.text(of: errno) }
        /// Whether the process, or the machine, has no descriptor left.
        var isOutOfDescriptors: Bool { SystemCall.isOutOfDescriptors(errno) }
    }

    /// Bytes that the kernel may hold unsent before the socket stops being writable. An urgent push can overtake output
    /// that has not been written yet, but not bytes in the kernel.
    private static let notSentLowWaterBytes: CInt = 64 * 1024
    /// How long sent bytes may stay unacknowledged before the kernel gives the connection up.
    private static let userTimeoutMilliseconds: CInt = 30_000

    let descriptor: CInt

    /// Takes the descriptor over.
    init(owning descriptor: CInt) {
        self.descriptor = descriptor
    }

    convenience init(family: CInt) throws(Failure) {
        let kind = CInt(SOCK_STREAM.rawValue) | CInt(SOCK_NONBLOCK.rawValue) | CInt(SOCK_CLOEXEC.rawValue)
        let descriptor = socket(family, kind, 0)
        guard descriptor >= 0 else { throw Failure(errno: errno) }
        self.init(owning: descriptor)
    }

    deinit {
        close(descriptor)
    }

    /// Sets the options of a connection. Ignores an option that the kernel does not know.
    func setConnectionOptions() {
        set(CInt(IPPROTO_TCP), TCP_NODELAY, 1)
        set(CInt(IPPROTO_TCP), TCP_NOTSENT_LOWAT, Self.notSentLowWaterBytes)
        set(CInt(IPPROTO_TCP), TCP_USER_TIMEOUT, Self.userTimeoutMilliseconds)
    }

    /// Lets the kernel send RST instead of FIN when the socket is closed: socket(7), SO_LINGER with a time of zero.
    func resetWhenClosed() {
        var value = linger(l_onoff: 1, l_linger: 0)
        unsafe setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &value, socklen_t(MemoryLayout<linger>.size))
    }

    /// Begins to connect. Once the socket is writable, ``pendingError()`` returns the result.
    func beginConnecting(to address: SocketAddress) throws(Failure) {
        let result = unsafe address.withKernelForm { unsafe connect(descriptor, $0, $1) }
        if result < 0, errno != EINPROGRESS { throw Failure(errno: errno) }
    }

    /// Returns the pending error of the socket, if any, and clears it.
    func pendingError() -> Failure? {
        var code: CInt = 0
        var byteCount = socklen_t(MemoryLayout<CInt>.size)
        let result = unsafe getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &byteCount)
        if result < 0 { return Failure(errno: errno) }
        return code == 0 ? nil : Failure(errno: code)
    }

    /// Binds and listens.
    func listen(on address: SocketAddress) throws(Failure) {
        if address.family != AF_UNIX { set(SOL_SOCKET, SO_REUSEADDR, 1) }
        let bound = unsafe address.withKernelForm { unsafe bind(descriptor, $0, $1) }
        guard bound == 0, Glibc.listen(descriptor, SOMAXCONN) == 0 else { throw Failure(errno: errno) }
    }

    /// Accepts the next waiting connection; returns nil if there is none.
    func accept() throws(Failure) -> Socket? {
        let accepted = accept4(descriptor, nil, nil, CInt(SOCK_NONBLOCK.rawValue) | CInt(SOCK_CLOEXEC.rawValue))
        if accepted >= 0 { return Socket(owning: accepted) }
        // A peer that left while it waited is not an error.
        if [EAGAIN, EINTR, ECONNABORTED].contains(errno) { return nil }
        throw Failure(errno: errno)
    }

    /// The number of bytes written that the peer's kernel has not acknowledged; tcp(7), SIOCOUTQ.
    var unacknowledgedByteCount: Int {
        var count: CInt = 0
        return unsafe ioctl(descriptor, UInt(TIOCOUTQ), &count) == 0 ? Int(count) : 0
    }

    /// The time since the last acknowledgement or answer to a probe from the peer's kernel; tcp(7), TCP_INFO. Zero if
    /// the kernel does not tell.
    var sinceHeard: Duration {
        var info = tcp_info()
        var byteCount = socklen_t(MemoryLayout<tcp_info>.size)
        guard unsafe getsockopt(descriptor, CInt(IPPROTO_TCP), TCP_INFO, &info, &byteCount) == 0 else { return .zero }
        return .milliseconds(Int64(info.tcpi_last_ack_recv))
    }

    /// Lets the kernel probe the peer's kernel once a second while nothing else is exchanged; tcp(7), TCP_KEEPIDLE.
    func setProbing(_ isProbing: Bool) {
        set(CInt(IPPROTO_TCP), TCP_KEEPIDLE, 1)
        set(CInt(IPPROTO_TCP), TCP_KEEPINTVL, 1)
        set(SOL_SOCKET, SO_KEEPALIVE, isProbing ? 1 : 0)
    }

    /// The port this side of the socket is bound to.
    var localPort: UInt16 {
        var storage = sockaddr_storage()
        var byteCount = socklen_t(MemoryLayout<sockaddr_storage>.size)
        return unsafe withUnsafeMutablePointer(to: &storage) { storage in
            unsafe storage.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                guard unsafe getsockname(descriptor, address, &byteCount) == 0 else { return 0 }
                return unsafe SocketAddress(address, byteCount: byteCount).port
            }
        }
    }

    private func set(_ level: CInt, _ option: CInt, _ value: CInt) {
        var value = value
        unsafe setsockopt(descriptor, level, option, &value, socklen_t(MemoryLayout<CInt>.size))
    }
}
