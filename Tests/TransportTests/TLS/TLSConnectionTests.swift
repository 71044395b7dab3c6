import Cryptography
import FoundationEssentials
import Testing

@testable import Transport

@Suite(.timeLimit(.minutes(10))) struct `A TLS connection` {
    @Test(arguments: ["localhost", "127.0.0.1"]) func `carries bytes both ways`(host: String) async throws {
        let client = try TestTrust.client()
        let received = try await EventLoop.withEchoServer(TestTrust.server()) { actor, listener in
            let peer = Peer(try await actor.loop.connect(to: host, port: listener.port, context: client))
            #expect(peer.connection.negotiatedProtocol == "h2")
            peer.send(Array("hello".utf8))
            await peer.until { peer.received.count == 5 }
            peer.connection.close()
            return peer.received
        }
        #expect(received == Array("hello".utf8))
    }

    /// A server with several names chooses its certificate by the name. An address must not be sent (RFC 6066 §3).
    @Test(arguments: [("localhost", "localhost"), ("127.0.0.1", "no name")])
    func `tells the server for which name it has come`(host: String, name: String) async throws {
        let (client, server) = (try TestTrust.client(), try TestTrust.server())
        let loop = EventLoop(name: "test")
        defer { loop.shutDown() }
        let received = try await loop.run { actor in
            let listener = try TLSListener(context: server, loop: actor.loop) {
                Peer($0).send(Array(($0.serverName ?? "no name").utf8))
            }
            defer { listener.close() }
            let peer = Peer(try await actor.loop.connect(to: host, port: listener.port, context: client))
            await peer.until { peer.received.count >= name.utf8.count }
            peer.connection.close()
            return String(decoding: peer.received, as: UTF8.self)
        }
        #expect(received == name)
    }

    @Test func `carries megabytes both ways while either side blocks`() async throws {
        let client = try TestTrust.client()
        let sent = (0..<12_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) }
        let isIntact = try await EventLoop.withEchoServer(TestTrust.server()) { actor, listener in
            let peer = Peer(try await actor.loop.connect(port: listener.port, context: client))
            peer.send(sent)
            await peer.until { peer.received.count >= sent.count }
            return peer.received == sent
        }
        #expect(isIntact)
    }

    @Test func `makes the writer wait for a reader that pauses`() async throws {
        let client = try TestTrust.client()
        let counts = try await EventLoop.withEchoServer(TestTrust.server()) { actor, listener in
            let peer = Peer(try await actor.loop.connect(port: listener.port, context: client))
            peer.connection.pauseReading()
            let sent = [UInt8](repeating: 7, count: 40_000_000)
            peer.send(sent)
            // The server stops reading as soon as it cannot write, so the client's output does not become empty by
            // itself.
            await peer.until { peer.unsentByteCount < sent.count }
            let readWhilePaused = peer.received.count
            peer.connection.resumeReading()
            await peer.until { peer.received.count == sent.count }
            return (readWhilePaused, peer.received.count)
        }
        #expect(counts == (0, 40_000_000))
    }

    /// This happens if a middlebox takes over the connections of one address family.
    @Test(.withIPv6Loopback)
    func `goes to the other family where another server stands behind the first`() async throws {
        let client = try TestTrust.client()
        let stranger = try TestTrust.server(authority: CertificateAuthority.make(commonName: "Stranger"))
        let received = try await EventLoop.withEchoServer(TestTrust.server()) { actor, listener in
            let wrong = try TLSListener(host: "::1", context: stranger, loop: actor.loop) { $0.close() }
            defer { wrong.close() }
            // The second address is not tried, because it would show the same certificate.
            let addresses = try [("::1", wrong.port), ("::1", wrong.port), ("127.0.0.1", listener.port)].map {
                try SocketAddress.lookUp(host: $0.0, port: $0.1, isNumeric: true)[0]
            }
            let connect = { (addresses: [SocketAddress]) async throws(TransportError) in
                try await TLSConnection.connect(
                    to: addresses, of: "localhost", peer: "localhost", context: client, loop: actor.loop,
                    deadline: .now + .seconds(60))
            }
            let peer = Peer(try await connect(addresses))
            peer.send(Array("hello".utf8))
            await peer.until { peer.received.count == 5 }
            peer.connection.close()
            // If the other family fails too, the error is about the certificate.
            let error = await #expect(throws: TransportError.self) { _ = try await connect(Array(addresses[..<2])) }
            #expect(error.map { "\($0)".contains("certificate") } == true)
            return peer.received
        }
        #expect(received == Array("hello".utf8))
    }

    /// As where a middlebox takes the connections of one family and lets nothing through.
    @Test(.withIPv6Loopback, arguments: [true, false])
    func `goes to the other family where nothing shakes hands behind the first`(isCut: Bool) async throws {
        let client = try TestTrust.client()
        let (count, isOpen, error) = try await EventLoop.withEchoServer(TestTrust.server()) { actor, listener in
            var silent: [PlainConnection] = []
            let stalling = try PlainListener(at: .tcp(host: "::1", port: 0), loop: actor.loop) { connection in
                silent.append(connection)
                if isCut { connection.close() }
            }
            defer { stalling.close() }
            guard case .tcp(_, let port) = stalling.address else { preconditionFailure("it listens on TCP") }
            let places = Array(repeating: ("::1", port), count: 8) + [("127.0.0.1", listener.port)]
            let addresses = try places.map { try SocketAddress.lookUp(host: $0.0, port: $0.1, isNumeric: true)[0] }
            let connect = { (addresses: [SocketAddress]) async throws(TransportError) in
                try await TLSConnection.connect(
                    to: addresses, of: "localhost", peer: "localhost:443", context: client, loop: actor.loop,
                    deadline: .now + .seconds(8))
            }
            let connection = try await connect(addresses)
            defer { connection.close() }
            let (count, isOpen) = (silent.count, connection.isOpen)
            let error = await #expect(throws: TransportError.self) { _ = try await connect([addresses[0]]) }
            return (count, isOpen, error)
        }
        #expect(count == 1)
        #expect(isOpen)
        #expect(
            error
                == (isCut
                    ? .unreachable(
                        peer: "localhost:443 (::1)", reason: "the peer closed the connection during the TLS handshake")
                    : .timedOut(peer: "localhost:443 (::1)", during: .handshaking)))
    }

    @Test func `ends in order when the other side closes`() async throws {
        let client = try TestTrust.client()
        let end = try await EventLoop.withEchoServer(TestTrust.server()) { actor, listener in
            let silent = try TLSListener(context: TestTrust.server(), loop: actor.loop) { $0.close() }
            defer { silent.close() }
            return await Peer(try await actor.loop.connect(port: silent.port, context: client)).ending()
        }
        #expect(end == nil)
    }

    @Test func `shows the server its client's certificate`() async throws {
        let authority = try TestTrust.authority.get()
        let identity = try authority.issueClient(.init(userID: "com.example.App"))
        let context = try TestTrust.server(clientCertificates: .asked(issuedBy: authority.certificate))
        let client = try TestTrust.client(identity: identity)
        let loop = EventLoop(name: "test")
        defer { loop.shutDown() }
        let seen = try await loop.run { actor in
            var seen: String?
            let listener = try TLSListener(context: context, loop: actor.loop) { connection in
                seen = try? connection.peerCertificate?.subject.userID
                connection.close()
            }
            defer { listener.close() }
            _ = await Peer(try await actor.loop.connect(port: listener.port, context: client)).ending()
            return seen
        }
        #expect(seen == "com.example.App")
    }
}

@Suite(.timeLimit(.minutes(10))) struct `A TLS connection is refused` {
    /// Connects to a server with the context `server`, and returns the error.
    private func refusal(
        server: TLSContext, client: TLSContext, host: String = "localhost"
    ) async throws -> TransportError? {
        try await EventLoop.withEchoServer(server) { actor, listener in
            do {
                let peer = Peer(try await actor.loop.connect(to: host, port: listener.port, context: client))
                peer.send([1])
                return await peer.ending()
            } catch let error as TransportError {
                return error
            }
        }
    }

    private func verification(_ error: TransportError?) -> VerificationFailure? {
        if case .tls(_, .untrusted(let failure)) = error { failure } else { nil }
    }

    @Test func `by a client that does not know the authority, which is named`() async throws {
        let stranger = try CertificateAuthority.make(commonName: "Stranger")
        let error = try await refusal(server: TestTrust.server(), client: TestTrust.client(trusting: stranger))
        let failure = try #require(verification(error))
        #expect(failure.isAboutIssuer)
        #expect(failure.issuer == "CN=Test CA")
        let text = try #require(error).description
        #expect(text.hasPrefix("TLS with localhost:"))
        #expect(text.contains("CN=Test CA") && text.contains("--ca FILE") && !text.contains("\n"))
    }

    @Test(arguments: ["localhost", "127.0.0.1"])
    func `by a client that wanted another name`(host: String) async throws {
        let server = try TestTrust.server(names: ["api.push.apple.com", "192.0.2.1"])
        let error = try await refusal(server: server, client: TestTrust.client(), host: host)
        #expect(verification(error)?.isAboutName == true)
    }

    /// RFC 9525 §2.
    @Test func `by a client to which the certificate names its host only as the common name`() async throws {
        let identity = try TestTrust.authority.get().issueServer(names: [], commonName: "localhost")
        let error = try await refusal(server: .server(identity: identity), client: TestTrust.client())
        #expect(verification(error)?.isAboutName == true)
    }

    @Test func `by a client when the server's certificate has expired`() async throws {
        let validity = Date(timeIntervalSinceNow: -86_400)..<Date(timeIntervalSinceNow: -3600)
        let identity = try TestTrust.authority.get().issueServer(names: ["localhost"], validity: validity)
        let error = try await refusal(server: .server(identity: identity), client: TestTrust.client())
        #expect(verification(error)?.isAboutTime == true)
    }

    @Test func `by a server that wants a client certificate, with its reason`() async throws {
        let authority = try TestTrust.authority.get()
        let server = try TestTrust.server(clientCertificates: .required(issuedBy: authority.certificate))
        // In TLS 1.3 the client has finished its handshake by then, and gets the error with its first read.
        let error = try await refusal(server: server, client: TestTrust.client())
        #expect(try #require(error).description.contains("certificate required"))
        guard case .tls(_, .alert) = error else {
            Issue.record("not reported as an alert: \(String(describing: error))")
            return
        }
    }

    @Test func `by a server that does not know the client's authority`() async throws {
        let authority = try TestTrust.authority.get()
        let server = try TestTrust.server(clientCertificates: .asked(issuedBy: authority.certificate))
        let stranger = try CertificateAuthority.make(commonName: "Stranger").issueClient(.init(userID: "x"))
        let error = try await refusal(server: server, client: TestTrust.client(identity: stranger))
        #expect(try #require(error).description.contains("unknown ca"))
    }

    @Test func `when the server does not agree to the protocol`() async throws {
        let server = try TestTrust.server(applicationProtocol: nil)
        let error = try await refusal(server: server, client: TestTrust.client())
        guard case .wrongProtocol(_, "h2", nil) = error else {
            Issue.record("not told: \(String(describing: error))")
            return
        }
    }
}
