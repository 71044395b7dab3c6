import Cryptography
import FoundationEssentials
import Testing
import Transport

@Suite(.timeLimit(.minutes(10))) struct `A TLS session` {
    @Test(arguments: [TLSVersion.tls12, .tls13])
    func `is resumed by the next connections, also after one broke`(version: TLSVersion) async throws {
        let seen = try await Line(newestVersion: version).run { line in
            [
                try await line.connect(), try await line.connect(isCut: true), try await line.connect(),
                try await line.connect(),
            ]
        }
        #expect(seen.map(\.client) == [false, true, true, true])
        #expect(seen.map(\.server) == [false, true, true, true], "the server sees the same")
        #expect(
            seen.map(\.userID) == Array(repeating: "com.example.App", count: 4), "the server still knows its client")
    }

    @Test(arguments: [TLSVersion.tls12, .tls13])
    func `is not resumed by a server with new keys, which takes the connection all the same`(
        version: TLSVersion
    ) async throws {
        let seen = try await Line(newestVersion: version).run { line in
            let first = try await line.connect()
            try line.restart()
            return [first, try await line.connect(), try await line.connect()]
        }
        #expect(seen.map(\.client) == [false, false, true])
        #expect(seen.map(\.server) == [false, false, true])
    }

    @Test func `belongs to those who keep it`() async throws {
        let seen = try await Line().run { line in
            let other = ResumableSessions(with: "localhost")
            return [
                try await line.connect(), try await line.connect(with: other), try await line.connect(with: nil),
                try await line.connect(), try await line.connect(with: other),
            ]
        }
        #expect(seen.map(\.server) == [false, false, false, true, true])
    }

    @Test func `is offered once in TLS 1.3`() async throws {
        let left = try await Line().run { line in
            _ = try await line.connect()
            let tickets = line.sessions.count
            // These connections do not read, so they get no new sessions.
            var resumed = 0
            for _ in 0...tickets where try await line.isResumedWithoutReading() { resumed += 1 }
            return (tickets, resumed, line.sessions.count)
        }
        #expect(left.0 >= 1)
        #expect(left.1 == left.0)
        #expect(left.2 == 0)
    }

    @Test func `is not offered a day after the certificates were verified, however often it was renewed`() async throws
    {
        let seen = try await Line().run { line in
            var seen = [try await line.connect()]
            for hours in [12, 11, 2, 1] {
                line.wait(seconds: hours * 3600)
                seen.append(try await line.connect())
            }
            return seen
        }
        // The fourth connection is the first one after 24 hours. Its session is valid for another day.
        #expect(seen.map(\.server) == [false, true, true, false, true])
    }

    @Test(arguments: [TLSVersion.tls12, .tls13])
    func `is not offered once a certificate of the server has ended`(version: TLSVersion) async throws {
        let seen = try await Line(newestVersion: version, certificateLasts: 3600).run { line in
            var seen = [try await line.connect()]
            for minutes in [50, 20] {
                line.wait(seconds: minutes * 60)
                seen.append(try await line.connect())
            }
            return seen
        }
        #expect(seen.map(\.server) == [false, true, false])
    }

    @Test func `is forgotten when a handshake that offers it fails`() async throws {
        let (kept, left) = try await Line().run { line in
            _ = try await line.connect()
            let kept = line.sessions.count
            // The restarted server does not know the session, and its certificate is for another name.
            try line.restart(as: "elsewhere")
            await #expect(throws: TransportError.self) { _ = try await line.connect() }
            return (kept, line.sessions.count)
        }
        #expect(kept >= 1)
        #expect(left == 0)
    }

    @Test func `is one of few that are kept, of one server and of all`() async throws {
        let counts = try await Line().run { line in
            let limit = TLSSessionLimit(6)
            let (one, other) = (
                ResumableSessions(with: "localhost", within: limit), ResumableSessions(with: "localhost", within: limit)
            )
            // A server that does not know the offered session issues two new ones, so the last six come from three
            // connections.
            for _ in 0..<4 {
                try line.restart()
                _ = try await line.connect(with: one)
            }
            let alone = one.count
            _ = try await line.connect(with: other)
            return [alone, one.count, other.count]
        }
        #expect(counts == [4, 3, 2])
    }
}

/// A server that sends one byte to each client, and a client that resumes sessions.
private struct Line {
    var newestVersion = TLSVersion.tls13
    var certificateLasts = 30 * 86_400.0

    func run<Success: Sendable>(_ body: @Sendable (Ends) async throws -> Success) async throws -> Success {
        let loop = EventLoop(name: "test")
        defer { loop.shutDown() }
        return try await loop.run { _ in
            let ends = try Ends(of: self, on: loop)
            defer { ends.close() }
            return try await body(ends)
        }
    }

    struct Seen: Sendable {
        /// Whether the handshake was resumed, as each side saw it.
        let client: Bool
        let server: Bool
        /// The user ID of the client's certificate, as the server sees it.
        let userID: String?
    }

    /// Both ends of the line, on one loop.
    final class Ends {
        private let line: Line
        private let loop: EventLoop
        private let client: TLSContext
        private var listener: TLSListener?
        private var accepted: Peer?
        private let clock = Clock()
        let sessions: ResumableSessions

        /// The time in seconds since 1970, for the client's sessions.
        private final class Clock {
            var time = Int(Date().timeIntervalSince1970)
        }

        init(of line: Line, on loop: EventLoop) throws {
            self.line = line
            self.loop = loop
            let identity = try TestTrust.authority.get().issueClient(.init(userID: "com.example.App"))
            client = try TestTrust.client(identity: identity)
            sessions = ResumableSessions(with: "localhost") { [clock] in clock.time }
            try restart()
        }

        func close() { listener?.close() }

        /// Lets time pass for the client's sessions.
        func wait(seconds: Int) { clock.time += seconds }

        /// Replaces the server by another one, with a certificate and ticket keys of its own.
        func restart(as name: String = "localhost") throws {
            let authority = try TestTrust.authority.get()
            let validity = Date(timeIntervalSinceNow: -60)..<Date(timeIntervalSinceNow: line.certificateLasts)
            let context = try TLSContext.server(
                identity: authority.issueServer(names: [name], validity: validity),
                clientCertificates: .asked(issuedBy: authority.certificate), newestVersion: line.newestVersion)
            listener?.close()
            listener = try TLSListener(context: context, loop: loop) { [weak self] connection in
                let peer = Peer(connection)
                self?.accepted = peer
                peer.send([1])
            }
        }

        /// Makes one connection, from its beginning to its end.
        /// - Parameter isCut: whether the server ends it with a reset.
        func connect(isCut: Bool = false) async throws -> Seen { try await connect(with: sessions, isCut: isCut) }

        func connect(with sessions: ResumableSessions?, isCut: Bool = false) async throws -> Seen {
            let peer = Peer(try await stream(with: sessions))
            // The messages from which sessions are made come before this byte.
            await peer.until { peer.received == [1] }
            let seen = Seen(
                client: peer.connection.isResumed, server: try #require(accepted).connection.isResumed,
                userID: try accepted?.connection.peerCertificate?.subject.userID)
            guard isCut else {
                peer.connection.close()
                return seen
            }
            accepted?.connection.abort()
            // Releasing the last reference sends the reset.
            accepted = nil
            _ = await peer.ending()
            return seen
        }

        /// Whether a connection is resumed if it ends before anything was read from it.
        func isResumedWithoutReading() async throws -> Bool {
            let stream = try await stream(with: sessions)
            stream.close()
            return stream.isResumed
        }

        private func stream(with sessions: ResumableSessions?) async throws -> TLSConnection {
            try await TLSConnection.connect(
                host: "localhost", port: listener?.port ?? 0, context: client, loop: loop,
                deadline: .now + .seconds(10),
                resuming: sessions)
        }
    }
}
