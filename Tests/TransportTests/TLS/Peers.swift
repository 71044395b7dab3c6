import Cryptography
import Transport

/// An authority, created once for all tests of this target.
enum TestTrust {
    static let authority = Result { () throws(CryptographyError) in try CertificateAuthority.make(commonName: "Test CA")
    }

    static func client(
        trusting authority: CertificateAuthority? = nil, identity: TLSIdentity? = nil,
        applicationProtocol: String? = "h2"
    ) throws -> TLSContext {
        let authority = try authority ?? Self.authority.get()
        return try .client(
            trusting: TrustStore(adding: [authority.certificate]), identity: identity,
            applicationProtocol: applicationProtocol)
    }

    static func server(
        authority: CertificateAuthority? = nil, names: [String] = ["localhost", "127.0.0.1"],
        clientCertificates: TLSContext.ClientCertificates = .notAsked, applicationProtocol: String? = "h2",
        newestVersion: TLSVersion = .tls13
    ) throws -> TLSContext {
        let identity = try (authority ?? Self.authority.get()).issueServer(names: names)
        return try .server(
            identity: identity, clientCertificates: clientCertificates, applicationProtocol: applicationProtocol,
            newestVersion: newestVersion)
    }
}

/// Collects what arrives and writes what it is given, as fast as the connection accepts it. Its waits end with events.
final class Peer: ByteStreamHandler {
    let connection: TLSConnection
    private(set) var received: [UInt8] = []
    private(set) var end: TransportError??
    private var outgoing: [UInt8] = []
    private var offset = 0
    private var wakeUp: (isDue: () -> Bool, continuation: CheckedContinuation<Void, Never>)?
    /// Whether it sends back everything it receives.
    var isEcho = false

    init(_ connection: TLSConnection) {
        self.connection = connection
        connection.handler = self
    }

    func send(_ bytes: [UInt8]) {
        outgoing += bytes
        writable()
    }

    var unsentByteCount: Int { outgoing.count - offset }

    func received(_ bytes: Span<UInt8>) {
        var chunk: [UInt8] = []
        for index in bytes.indices { chunk.append(bytes[index]) }
        if isEcho { send(chunk) } else { received += chunk }
        wake()
    }

    func writable() {
        while offset < outgoing.count {
            let count = connection.write(outgoing.span.extracting(offset...))
            offset += count
            if count == 0 { break }
        }
        if offset == outgoing.count { (outgoing, offset) = ([], 0) }
        wake()
    }

    func closed(_ error: TransportError?) {
        end = .some(error)
        wake()
    }

    func until(_ isDue: @escaping () -> Bool) async {
        await withCheckedContinuation { continuation in
            if isDue() { continuation.resume() } else { wakeUp = (isDue, continuation) }
        }
    }

    /// The error with which the connection ended; nil if it was closed properly.
    func ending() async -> TransportError? {
        await until { self.end != nil }
        return end ?? nil
    }

    private func wake() {
        guard let waiting = wakeUp, waiting.isDue() else { return }
        wakeUp = nil
        waiting.continuation.resume()
    }
}

extension EventLoop {
    /// Runs `body` with a server whose connections echo, and then shuts the loop down.
    static func withEchoServer<Success: Sendable>(
        _ context: TLSContext,
        _ body: @Sendable (isolated LoopActor, TLSListener) async throws -> Success
    ) async throws -> Success {
        let loop = EventLoop(name: "test")
        defer { loop.shutDown() }
        return try await loop.run { actor in
            let listener = try TLSListener(context: context, loop: loop) { Peer($0).isEcho = true }
            defer { listener.close() }
            return try await body(actor, listener)
        }
    }

    /// Connects to a server on this machine.
    func connect(
        to host: String = "localhost", port: UInt16, context: TLSContext, within time: Duration = .seconds(10)
    ) async throws(TransportError) -> TLSConnection {
        try await TLSConnection.connect(host: host, port: port, context: context, loop: self, deadline: .now + time)
    }

    /// Waits for a time, measured by the loop's clock.
    func pause(_ time: Duration) async {
        await withCheckedContinuation { continuation in
            schedule(after: time) { continuation.resume() }
        }
    }
}
