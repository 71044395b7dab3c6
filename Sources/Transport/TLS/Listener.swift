package import Cryptography
import Glibc

/// A server's listening socket. Belongs to its loop's thread.
package final class Listener {
    /// The maximum number of connections accepted in one turn.
    private static let batchCount = 64
    /// How long a client may take for its handshake.
    private static let handshakeTime = Duration.seconds(10)
    /// How long the listener accepts nothing after the process ran out of descriptors. Clients wait in the kernel
    /// meanwhile.
    private static let pauseWhenExhausted = Duration.milliseconds(100)

    /// The port it listens on: the given one, or the one that the kernel chose for 0.
    package let port: UInt16
    private let loop: EventLoop
    private let context: TLSContext
    private let socket: Socket
    private let accepted: (TLSConnection) -> Void
    private let refused: (TransportError) -> Void
    private var isOpen = true

    /// Starts listening.
    /// - Parameters:
    ///   - host: an address of this machine; `127.0.0.1` is reachable only from this machine.
    ///   - accepted: gets each connection whose handshake succeeded, and sets its handler.
    ///   - refused: gets the error of each connection whose handshake failed.
    package init(
        host: String = "127.0.0.1", port: UInt16 = 0, context: TLSContext, loop: EventLoop,
        refused: @escaping (TransportError) -> Void = { _ in }, accepted: @escaping (TLSConnection) -> Void
    ) throws(TransportError) {
        do throws(ResolverFailure) {
            let address = try SocketAddress.lookUp(host: host, port: port, isNumeric: true)[0]
            socket = try Self.open(address)
        } catch {
            throw .cannotListen(address: "\(host):\(port)", reason: error.reason)
        }
        self.port = socket.localPort
        self.context = context
        self.loop = loop
        self.refused = refused
        self.accepted = accepted
        loop.watch(socket.descriptor, for: .readable, handler: self)
    }

    /// Accepts no more connections; open ones stay open.
    package func close() {
        guard isOpen else { return }
        isOpen = false
        loop.unwatch(socket.descriptor)
        shutdown(socket.descriptor, CInt(SHUT_RDWR))
    }

    private static func open(_ address: SocketAddress) throws(ResolverFailure) -> Socket {
        do {
            let socket = try Socket(family: address.family)
            try socket.listen(on: address)
            return socket
        } catch {
            throw ResolverFailure(reason: error.reason)
        }
    }

    private func shakeHands(with socket: Socket) {
        socket.setConnectionOptions()
        do {
            let connection = try TLSConnection(
                socket: socket, context: context, host: nil, peer: "a client of port \(port)", loop: loop)
            // The handshake refuses a client that offers only other protocols. A client that offers none is accepted:
            // some speak HTTP/2 with prior knowledge (aioapns with its own context), and APNs accepts that.
            connection.handshake(until: loop.now + Self.handshakeTime) { [accepted, refused] error in
                if let error {
                    refused(error)
                } else {
                    accepted(connection)
                }
            }
        } catch {
            refused(.tls(peer: "a client of port \(port)", error))
        }
    }
}

extension Listener: ReadinessHandler {
    package func ready(_ readiness: Interest) {
        do {
            for _ in 0..<Self.batchCount {
                guard isOpen, let socket = try socket.accept() else { return }
                shakeHands(with: socket)
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
