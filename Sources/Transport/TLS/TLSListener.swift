package import Cryptography

/// A server's listening socket for connections with TLS. Belongs to its loop's thread.
package final class TLSListener {
    /// The maximum number of connections accepted in one turn.
    private static let batchCount = 64
    /// How long a client may take for its handshake.
    private static let handshakeTime = Duration.seconds(10)

    /// The port it listens on: the given one, or the one that the kernel chose for 0.
    package var port: UInt16 { socket.port }

    private let socket: AcceptingSocket

    /// Starts listening.
    /// - Parameters:
    ///   - host: an address of this machine, or a name of it; `127.0.0.1` is reachable only from this machine.
    ///   - accepted: gets each connection whose handshake succeeded, and sets its handler.
    ///   - refused: gets the error of each connection whose handshake failed.
    package init(
        host: String = "127.0.0.1", port: UInt16 = 0, context: TLSContext, loop: EventLoop,
        refused: @escaping (TransportError) -> Void = { _ in }, accepted: @escaping (TLSConnection) -> Void
    ) throws(TransportError) {
        do throws(ListenFailure) {
            let address = try SocketAddress.toListen(host: host, port: port)
            socket = try AcceptingSocket(on: address, loop: loop, batchCount: Self.batchCount) { client in
                Self.shakeHands(with: client, context, loop, refused: refused, accepted: accepted)
            }
        } catch {
            throw .cannotListen(address: "\(ListenAddress.tcp(host: host, port: port))", reason: error.reason)
        }
    }

    /// Accepts no more connections; open ones stay open.
    package func close() { socket.close() }

    private static func shakeHands(
        with socket: Socket, _ context: TLSContext, _ loop: EventLoop,
        refused: @escaping (TransportError) -> Void, accepted: @escaping (TLSConnection) -> Void
    ) {
        socket.setConnectionOptions()
        let peer = "a client of port \(socket.localPort)"
        do {
            let connection = try TLSConnection(
                socket: socket, context: context, host: nil, peer: peer, loop: loop)
            // The handshake refuses a client that offers only other protocols. A client that offers none is accepted:
            // some speak HTTP/2 with prior knowledge (aioapns with its own context), and APNs accepts that.
            connection.handshake(until: loop.now + handshakeTime) { error in
                if let error {
                    refused(error)
                } else {
                    accepted(connection)
                }
            }
        } catch {
            refused(.tls(peer: peer, error))
        }
    }
}
