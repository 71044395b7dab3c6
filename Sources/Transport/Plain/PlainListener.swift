import Glibc

/// A listening socket for connections without TLS, on TCP or on a Unix socket. It is for traffic within this machine or
/// its network, such as metrics. Belongs to its loop's thread.
package final class PlainListener {
    /// The maximum number of connections accepted in one turn.
    private static let batchCount = 16

    /// The address that it listens on. If the port was 0, this has the port that the kernel chose.
    package let address: ListenAddress
    private let socket: AcceptingSocket

    /// Starts listening. Replaces a Unix socket that a process left behind when it ended. A host name is looked up on
    /// the caller's thread.
    package init(
        at address: ListenAddress, loop: EventLoop, accepted: @escaping (PlainConnection) -> Void
    ) throws(TransportError) {
        do throws(ListenFailure) {
            socket = try AcceptingSocket(
                on: try Self.place(of: address), loop: loop, batchCount: Self.batchCount
            ) { accepted(PlainConnection($0, loop: loop)) }
        } catch {
            throw .cannotListen(address: "\(address)", reason: error.reason)
        }
        self.address =
            if case .tcp(let host, _) = address { .tcp(host: host, port: socket.port) } else { address }
    }

    /// Accepts no more connections; open ones stay open. Removes the Unix socket.
    package func close() {
        guard socket.isOpen else { return }
        socket.close()
        if case .unix(let path) = address, Self.kind(at: path) == .socket { _ = unsafe unlink(path) }
    }

    /// The kernel's form of an address. Makes room for a Unix socket at a path.
    private static func place(of address: ListenAddress) throws(ListenFailure) -> SocketAddress {
        switch address {
        case .tcp(let host, let port): return try .toListen(host: host, port: port)
        case .unix(let path):
            guard let place = SocketAddress(unixPath: path) else {
                throw ListenFailure(reason: "the path is longer than \(SocketAddress.maximumPathBytes) bytes")
            }
            switch kind(at: path) {
            case .nothing: break
            case .socket: removeIfNobodyListens(path, place)
            case .other: throw ListenFailure(reason: "something that is not a socket has this path")
            }
            return place
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
