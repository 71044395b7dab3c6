import Glibc

/// A listening socket for connections without TLS, on TCP or on a Unix socket. It is for traffic within this machine or
/// its network, such as metrics. Belongs to its loop's thread.
package final class PlainListener {
    /// The maximum number of connections accepted in one turn.
    private static let batchCount = 16
    /// How long the listener accepts nothing after the process ran out of descriptors. Clients wait in the kernel
    /// meanwhile.
    private static let pauseWhenExhausted = Duration.milliseconds(100)

    /// The address that it listens on. If the port was 0, this has the port that the kernel chose.
    package let address: ListenAddress
    private let loop: EventLoop
    private let socket: Socket
    private let accepted: (PlainConnection) -> Void
    private var isOpen = true

    /// Starts listening. Replaces a Unix socket that a process left behind when it ended. A host name is looked up on
    /// the caller's thread.
    package init(
        at address: ListenAddress, loop: EventLoop, accepted: @escaping (PlainConnection) -> Void
    ) throws(TransportError) {
        do {
            socket = try Self.open(address)
        } catch {
            throw .cannotListen(address: "\(address)", reason: error.reason)
        }
        self.address =
            if case .tcp(let host, _) = address { .tcp(host: host, port: socket.localPort) } else { address }
        self.loop = loop
        self.accepted = accepted
        loop.watch(socket.descriptor, for: .readable, handler: self)
    }

    /// Accepts no more connections; open ones stay open. Removes the Unix socket.
    package func close() {
        guard isOpen else { return }
        isOpen = false
        loop.unwatch(socket.descriptor)
        shutdown(socket.descriptor, CInt(SHUT_RDWR))
        if case .unix(let path) = address, Self.kind(at: path) == .socket { _ = unsafe unlink(path) }
    }

    private static func open(_ address: ListenAddress) throws(ResolverFailure) -> Socket {
        do {
            switch address {
            case .tcp(let host, let port):
                let found = try SocketAddress.lookUp(host: host, port: port, isNumeric: false)[0]
                let socket = try Socket(family: found.family)
                try socket.listen(on: found)
                return socket
            case .unix(let path):
                guard let place = SocketAddress(unixPath: path) else {
                    throw ResolverFailure(reason: "the path is longer than \(SocketAddress.maximumPathBytes) bytes")
                }
                switch kind(at: path) {
                case .nothing: break
                case .socket: removeIfNobodyListens(path, place)
                case .other: throw ResolverFailure(reason: "something that is not a socket has this path")
                }
                let socket = try Socket(family: place.family)
                try socket.listen(on: place)
                return socket
            }
        } catch let error as Socket.Failure {
            throw ResolverFailure(reason: error.reason)
        } catch let error as ResolverFailure {
            throw error
        } catch {
            throw ResolverFailure(reason: "\(error)")
        }
    }

    /// What is at a path. A link is not followed.
    private enum Kind {
        case nothing, socket, other
    }

    private static func kind(at path: String) -> Kind {
        var status = stat()
        guard unsafe lstat(path, &status) == 0 else { return .nothing }
        return status.st_mode & S_IFMT == S_IFSOCK ? .socket : .other
    }

    /// Removes the socket of a process that has ended: it stays in its folder, and no process can bind there (unix(7)).
    /// A socket on which a process listens accepts connections, and stays. The caller has made sure that the path is a
    /// socket, since connecting to an ordinary file is refused with the same error.
    private static func removeIfNobodyListens(_ path: String, _ place: SocketAddress) {
        guard let probe = try? Socket(family: place.family) else { return }
        do throws(Socket.Failure) {
            try probe.beginConnecting(to: place)
        } catch {
            if error.errno == ECONNREFUSED { _ = unsafe unlink(path) }
        }
    }
}

extension PlainListener: ReadinessHandler {
    package func ready(_ readiness: Interest) {
        do {
            for _ in 0..<Self.batchCount {
                guard isOpen, let client = try socket.accept() else { return }
                accepted(PlainConnection(client, loop: loop))
            }
        } catch {
            pause()
        }
    }

    private func pause() {
        loop.update(socket.descriptor, interest: [])
        loop.schedule(after: Self.pauseWhenExhausted) { [self] in
            if isOpen { loop.update(socket.descriptor, interest: .readable) }
        }
    }
}
