import COpenSSL
import Glibc
import Testing
import Transport

@testable import Cryptography

/// A server may write at once, with the end of the handshake or before it. Examples are HTTP/2's SETTINGS and the list
/// of the feedback service.
@Suite(.timeLimit(.minutes(10))) struct `What a server writes at once` {
    @Test(arguments: [TLSVersion.tls12, .tls13]) func `is kept until somebody takes it`(version: TLSVersion)
        async throws
    {
        let server = try TestTrust.server(newestVersion: version)
        let sent = Array("the server's first word".utf8)
        let words = try await talk(to: server, pause: .zero) { connection in
            #expect(connection.write(sent.span) == sent.count)
        }
        #expect(words.allSatisfy { $0 == sent }, "lost: \(words.count { $0 != sent }) of \(words.count)")
    }

    /// The caller that asked for the connection sets its handler late, when the server has already closed.
    @Test(arguments: [TLSVersion.tls12, .tls13]) func `is kept when it ends the connection`(version: TLSVersion)
        async throws
    {
        let server = try TestTrust.server(newestVersion: version)
        let sent = (0..<100_000).map { UInt8(truncatingIfNeeded: $0) }
        let words = try await talk(to: server, pause: .milliseconds(100)) { connection in
            #expect(connection.write(sent.span) == sent.count)
            connection.close()
        }
        #expect(words.allSatisfy { $0 == sent }, "lost: \(words.count { $0 != sent }) of \(words.count)")
    }

    /// The rest stays with the server. The buffers of TLS and of both kernels limit what is received without a handler.
    @Test func `is taken no further while there is nobody`() async throws {
        let server = try TestTrust.server()
        let client = try TestTrust.client()
        let loop = EventLoop(name: "test")
        defer { loop.shutDown() }
        let sent = [UInt8](repeating: 7, count: 40_000_000)
        let (unsentMeanwhile, receivedCount) = try await loop.run { actor in
            var writers: [Peer] = []
            let listener = try TLSListener(context: server, loop: actor.loop) { connection in
                writers.append(Peer(connection))
                writers[0].send(sent)
            }
            defer { listener.close() }
            let connection = try await actor.loop.connect(port: listener.port, context: client)
            await actor.loop.pause(.milliseconds(300))
            let unsentMeanwhile = writers.first?.unsentByteCount
            let reader = Peer(connection)
            await reader.until { reader.received.count == sent.count }
            return (unsentMeanwhile, reader.received.count)
        }
        #expect(unsentMeanwhile.map { $0 > 0 } == true)
        #expect(receivedCount == sent.count)
    }

    /// TLS 1.3 lets a server write after its own Finished, before the client has sent anything ("0.5-RTT data", RFC
    /// 8446 §4.2.10). This data arrives together with the server's half of the handshake.
    @Test func `is kept when it comes before the handshake is over`() async throws {
        let sent = Array("before you have finished".utf8)
        let server = unsafe try BareServer(context: TestTrust.server()) { unsafe speakEarly($0, $1, sent) }
        let client = try TestTrust.client()
        let loop = EventLoop(name: "test")
        defer { loop.shutDown() }
        let words = try await loop.run { actor in
            var words: [[UInt8]] = []
            for _ in 0..<5 {
                let peer = Peer(try await actor.loop.connect(to: "127.0.0.1", port: server.port, context: client))
                await peer.until { peer.received.count >= sent.count || peer.end != nil }
                words.append(peer.received)
                peer.connection.close()
            }
            return words
        }
        #expect(words == Array(repeating: sent, count: 5))
    }

    /// Returns what each of ten connections received from a server that calls `greet` for it, until the server closes
    /// or sends nothing more.
    private func talk(
        to server: TLSContext, pause: Duration, greet: @escaping @Sendable (TLSConnection) -> Void
    ) async throws -> [[UInt8]] {
        let client = try TestTrust.client()
        let loop = EventLoop(name: "test")
        defer { loop.shutDown() }
        return try await loop.run { actor in
            var greeted: [TLSConnection] = []
            let listener = try TLSListener(context: server, loop: actor.loop) { connection in
                greeted.append(connection)
                greet(connection)
            }
            defer { listener.close() }
            var words: [[UInt8]] = []
            for number in 1...10 {
                let connection = try await actor.loop.connect(port: listener.port, context: client)
                while greeted.count < number { await actor.loop.pause(.milliseconds(1)) }
                if pause > .zero { await actor.loop.pause(pause) }
                let peer = Peer(connection)
                // Closes the connection if the server has not. By then, everything on its way has arrived.
                let end = actor.loop.schedule(after: .seconds(1)) { greeted[number - 1].close() }
                await peer.until { peer.end != nil }
                end.cancel()
                words.append(peer.received)
            }
            return words
        }
    }
}

/// Writes the first data together with the server's half of the handshake, and ends when the client closes.
private func speakEarly(
    _ session: OpaquePointer, _ client: CInt, _ words: [UInt8]
) {
    // One segment for the handshake and the first data.
    cork(client, true)
    var count = 0
    var buffer = [UInt8](repeating: 0, count: 256)
    // The client sends no early data. When this call finds that out, it has sent the server's flight
    // (SSL_read_early_data(3)).
    guard unsafe SSL_read_early_data(session, &buffer, buffer.count, &count) == SSL_READ_EARLY_DATA_FINISH else {
        return
    }
    guard unsafe SSL_write_early_data(session, words, words.count, &count) == 1 else { return }
    cork(client, false)
    guard unsafe SSL_do_handshake(session) == 1 else { return }
    while unsafe SSL_read_ex(session, &buffer, buffer.count, &count) == 1 {}
}

/// Makes the kernel hold back written data until it is told to send it; tcp(7), TCP_CORK.
private func cork(_ descriptor: CInt, _ isCorked: Bool) {
    var value: CInt = isCorked ? 1 : 0
    unsafe setsockopt(descriptor, CInt(IPPROTO_TCP), TCP_CORK, &value, socklen_t(MemoryLayout<CInt>.size))
}
