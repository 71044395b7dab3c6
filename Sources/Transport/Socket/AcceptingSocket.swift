import Glibc

/// A listening socket that hands over each connection that a client opens. Belongs to its loop's thread.
final class AcceptingSocket {
    /// How long nothing is accepted after the process ran out of descriptors. Clients wait in the kernel meanwhile.
    private static let pauseWhenExhausted = Duration.milliseconds(100)

    /// The port it listens on: the given one, or the one that the kernel chose for 0. Not for a Unix socket.
    var port: UInt16 { socket.localPort }

    private let socket: Socket
    private let loop: EventLoop
    /// The maximum number of connections accepted in one turn.
    private let batchCount: Int
    private let accepted: (Socket) -> Void
    private(set) var isOpen = true

    /// Binds, listens, and accepts from now on.
    init(
        on address: SocketAddress, loop: EventLoop, batchCount: Int, accepted: @escaping (Socket) -> Void
    ) throws(ListenFailure) {
        do {
            socket = try Socket(family: address.family)
            try socket.listen(on: address)
        } catch {
            throw ListenFailure(reason: error.reason)
        }
        self.loop = loop
        self.batchCount = batchCount
        self.accepted = accepted
        loop.watch(socket.descriptor, for: .readable, handler: self)
    }

    /// Accepts no more connections; those that were accepted stay open.
    func close() {
        guard isOpen else { return }
        isOpen = false
        loop.unwatch(socket.descriptor)
        shutdown(socket.descriptor, CInt(SHUT_RDWR))
    }
}

/// Why nobody can listen at an address.
struct ListenFailure: Error {
    let reason: String
}

extension SocketAddress {
    /// The first address of a host, to listen at.
    static func toListen(host: String, port: UInt16) throws(ListenFailure) -> SocketAddress {
        do {
            return try lookUp(host: host, port: port, isNumeric: false)[0]
        } catch {
            throw ListenFailure(reason: error.reason)
        }
    }
}

extension AcceptingSocket: ReadinessHandler {
    func ready(_ readiness: Interest) {
        do {
            for _ in 0..<batchCount {
                guard isOpen, let client = try socket.accept() else { return }
                accepted(client)
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
