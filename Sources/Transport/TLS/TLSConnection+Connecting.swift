package import Cryptography

extension TLSConnection {
    /// Connects to a server: looks up the name, tries its addresses one after the other, shakes hands, verifies the server's
    /// certificate for `host`, and insists on the context's application protocol. To be called on `loop`.
    ///
    /// The time until `deadline` is shared out among the addresses that are left, so that a dead one does not stall the rest.
    package static func connect(
        host: String, port: UInt16, context: TLSContext, loop: EventLoop, deadline: ContinuousClock.Instant
    ) async throws(TransportError) -> TLSConnection {
        let addresses = try await loop.resolver.addresses(of: host, port: port, on: loop, until: deadline)
        let peer = host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
        var failure = TransportError.unresolved(peer: peer, reason: "it has no address")
        for (index, address) in addresses.enumerated() {
            let share = loop.now.duration(to: deadline) / (addresses.count - index)
            do throws(TransportError) {
                let socket = try await openSocket(to: address, peer: peer, loop: loop, deadline: loop.now + share)
                return try await secure(
                    socket, host: host, peer: peer, context: context, loop: loop, deadline: deadline)
            } catch {
                // Another address of the same name would show the same certificate.
                guard error.isAboutOneAddress else { throw error }
                failure = error
            }
        }
        throw failure
    }

    private static func openSocket(
        to address: SocketAddress, peer: String, loop: EventLoop, deadline: ContinuousClock.Instant
    ) async throws(TransportError) -> Socket {
        let socket: Socket
        do throws(Socket.Failure) {
            socket = try Socket(family: address.family)
            socket.setConnectionOptions()
            try socket.beginConnecting(to: address)
        } catch {
            throw .unreachable(peer: peer, reason: error.reason)
        }
        let attempt = ConnectionAttempt(loop: loop)
        loop.watch(socket.descriptor, for: .writable, handler: attempt)
        let hasEnded = await attempt.waiter.wait(until: deadline) != nil
        loop.unwatch(socket.descriptor)
        guard hasEnded else { throw .timedOut(peer: peer, during: .connecting) }
        if let failure = socket.pendingError() { throw .unreachable(peer: peer, reason: failure.reason) }
        return socket
    }

    private static func secure(
        _ socket: Socket, host: String, peer: String, context: TLSContext, loop: EventLoop,
        deadline: ContinuousClock.Instant
    ) async throws(TransportError) -> TLSConnection {
        let connection: TLSConnection
        do {
            connection = try TLSConnection(socket: socket, context: context, host: host, peer: peer, loop: loop)
        } catch {
            throw .tls(peer: peer, error)
        }
        let waiter = Waiter<TransportError?>(loop: loop)
        connection.handshake(until: deadline) { waiter.resume(.some($0)) }
        // The handshake has the same deadline and always tells.
        if let error = await waiter.wait(until: .now + .seconds(86_400)) ?? nil { throw error }
        guard context.applicationProtocol == nil || connection.negotiatedProtocol == context.applicationProtocol else {
            connection.close()
            throw .wrongProtocol(
                peer: peer, wanted: context.applicationProtocol ?? "", got: connection.negotiatedProtocol)
        }
        return connection
    }
}

/// Waits until a connection attempt has ended, one way or the other.
private final class ConnectionAttempt: ReadinessHandler {
    let waiter: Waiter<Bool>

    init(loop: EventLoop) {
        waiter = Waiter(loop: loop)
    }

    func ready(_ readiness: Interest) {
        waiter.resume(true)
    }
}

extension TransportError {
    /// Whether another address of the same name may do better.
    fileprivate var isAboutOneAddress: Bool {
        switch self {
        case .unreachable, .timedOut, .lost: true
        default: false
        }
    }
}
