import Cryptography
import Transport

@testable import APNs
@testable import APNsSimulator

/// A server of the binary interface that handles each notification as a test says. It runs on the test's loop.
final class MockBinaryServer {
    /// The reaction of the server to a notification that it has read.
    enum Reaction {
        /// It stays silent: the push was accepted.
        case silence
        /// It sends an error packet and closes the connection.
        case error(status: UInt8, identifier: UInt32)
        /// It closes the connection without an error packet.
        case close
        /// It sends an error packet, and resets the connection without reading what the client has sent meanwhile.
        case errorAndReset(status: UInt8, identifier: UInt32)
        /// It sends the beginning of an error packet and closes the connection.
        case halfError
        /// It sends the beginning of an error packet and nothing more.
        case beginningOfError
        /// It sends an error packet byte by byte, each after an interval, and then closes the connection.
        case slowError(status: UInt8, identifier: UInt32, interval: Duration)
        /// It sends two error packets at once.
        case errors(identifiers: [UInt32])
        /// It reads nothing more.
        case hold
    }

    struct Arrival {
        let connection: Int
        let notification: BinaryNotification

        /// The sender's ticket, which the sender puts into the token.
        var ticket: UInt64 { (notification.token ?? []).prefix(8).reduce(0) { $0 << 8 | UInt64($1) } }
    }

    private(set) var arrivals: [Arrival] = []
    private(set) var connections: [Connection] = []
    private let respond: (Arrival) -> Reaction
    /// Called at the end of the loop turn in which a connection was reset.
    var hasReset: () -> Void = {}
    private var connectionCount = 0
    private var listener: TLSListener?

    init(
        on loop: EventLoop, clientsOf authority: CertificateAuthority, respond: @escaping (Arrival) -> Reaction
    ) throws {
        self.respond = respond
        let identity = try authority.issueServer(names: ["localhost", "127.0.0.1"])
        let context = try TLSContext.server(
            identity: identity, clientCertificates: .required(issuedBy: authority.certificate),
            applicationProtocol: nil)
        listener = try TLSListener(context: context, loop: loop) { [self] stream in
            connections.append(Connection(stream, server: self, number: connectionCount))
            connectionCount += 1
        }
    }

    var port: UInt16 { listener?.port ?? 0 }

    /// Accepts no more connections and cuts the open ones.
    func close() {
        listener?.close()
        for connection in connections { connection.stream.close() }
    }

    /// The tickets that arrived over a connection, in order.
    func tickets(over connection: Int) -> [UInt64] {
        arrivals.filter { $0.connection == connection }.map(\.ticket)
    }

    fileprivate func arrived(_ notification: BinaryNotification, over connection: Connection) -> Bool {
        let arrival = Arrival(connection: connection.number, notification: notification)
        arrivals.append(arrival)
        return connection.react(respond(arrival))
    }

    final class Connection: ByteStreamHandler {
        let stream: TLSConnection
        let number: Int
        private unowned let server: MockBinaryServer
        private var parser = BinaryNotification.Parser()

        init(_ stream: TLSConnection, server: MockBinaryServer, number: Int) {
            self.stream = stream
            self.server = server
            self.number = number
            stream.handler = self
        }

        /// Returns whether the server continues to read.
        func react(_ reaction: Reaction) -> Bool {
            switch reaction {
            case .silence: return true
            case .error(let status, let identifier):
                writeError(status, identifier)
                stream.close()
            case .errorAndReset(let status, let identifier):
                writeError(status, identifier)
                stream.abort()
                // Releasing the last reference sends the reset.
                server.connections.removeAll { $0 === self }
                stream.loop.atEndOfTurn { [server] in server.hasReset() }
            case .halfError:
                _ = stream.write([8, 8, 0].span)
                stream.close()
            case .beginningOfError: _ = stream.write([8, 8, 0].span)
            case .slowError(let status, let identifier, let interval):
                writeSlowly(Self.errorPacket(status, identifier)[...], interval)
                return true
            case .errors(let identifiers):
                for identifier in identifiers { writeError(8, identifier) }
                stream.close()
            case .close: stream.close()
            case .hold: stream.pauseReading()
            }
            return false
        }

        func writeError(_ status: UInt8, _ identifier: UInt32) {
            _ = stream.write(Self.errorPacket(status, identifier).span)
        }

        private static func errorPacket(_ status: UInt8, _ identifier: UInt32) -> [UInt8] {
            [8, status] + (0..<4).map { UInt8(truncatingIfNeeded: identifier >> (24 - 8 * UInt32($0))) }
        }

        private func writeSlowly(_ bytes: ArraySlice<UInt8>, _ interval: Duration) {
            guard let first = bytes.first else { return stream.close() }
            _ = stream.write([first].span)
            stream.loop.schedule(after: interval) { [self] in writeSlowly(bytes.dropFirst(), interval) }
        }

        func received(_ bytes: Span<UInt8>) {
            guard stream.isOpen else { return }
            try? parser.take(bytes) { server.arrived($0, over: self) }
        }

        func writable() {}
        func closed(_ error: TransportError?) {}
    }
}
