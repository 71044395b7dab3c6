package import Transport

/// A small HTTP/1.1 server (RFC 9112) for scrapes, probes and an operator's page. It knows GET and HEAD, and POST if
/// its limits allow a body. It limits its clients: the size of a head and of a body, the time for both, the time to
/// read an answer, and the number of connections.
///
/// Belongs to its loop's thread.
package final class Server {
    /// A connection that has been idle for less than this may have a request on the way.
    private static let newTime = Duration.seconds(1)

    private let loop: EventLoop
    private let limits: ServerLimits
    private let answer: Answering
    private var listener: PlainListener?
    private var connections: [ObjectIdentifier: ServedConnection] = [:]

    /// Starts serving.
    package init(
        at address: ListenAddress, loop: EventLoop, limits: ServerLimits = ServerLimits(), answer: @escaping Answering
    ) throws(TransportError) {
        self.loop = loop
        self.limits = limits
        self.answer = answer
        listener = try PlainListener(at: address, loop: loop) { [unowned self] in accept($0) }
    }

    /// The address that it listens on. If the port was 0, this has the port that the system chose.
    package var address: ListenAddress? { listener?.address }

    /// Closes all connections, and accepts no more.
    package func close() {
        listener?.close()
        listener = nil
        for connection in connections.values { connection.close() }
        connections = [:]
    }

    private func accept(_ connection: PlainConnection) {
        if connections.count >= limits.connections {
            // Connections that clients keep open and do not use must not keep probes out.
            let now = ContinuousClock.now
            let idle = connections.values.filter { $0.idleSince.map { $0 + Self.newTime < now } ?? false }
            guard let oldest = idle.min(by: { $0.idleSince! < $1.idleSince! }) else { return connection.close() }
            oldest.close()
        }
        let served = ServedConnection(connection, loop: loop, limits: limits, answer: answer) { [unowned self] in
            connections[ObjectIdentifier($0)] = nil
        }
        connections[ObjectIdentifier(served)] = served
        connection.handler = served
    }
}
