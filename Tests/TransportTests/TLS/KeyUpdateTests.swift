import COpenSSL
import Foundation
import Testing
import Transport

@testable import Cryptography

/// A peer of TLS 1.3 may change its keys at any time, and ask for the same in return (RFC 8446 §4.6.3).
@Suite(.timeLimit(.minutes(10))) struct `New keys in the middle of a connection` {
    /// The server asks for new keys while it reads nothing, so that the client is in the middle of a record. The answer
    /// to each of these messages must not come between the two parts of that record.
    @Test(arguments: [1, 2, 5]) func `lose and change no byte, even if a record is half written`(updates: Int)
        async throws
    {
        let sent = (0..<8_000_000).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ $0 >> 8) }
        let (isBlocked, isRead) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let received = Received()
        let server = unsafe try BareServer(context: TestTrust.server()) { session, _ in
            guard unsafe SSL_do_handshake(session) == 1 else { return }
            isBlocked.wait()
            for _ in 0..<updates {
                unsafe SSL_key_update(session, SSL_KEY_UPDATE_REQUESTED)
                guard unsafe SSL_do_handshake(session) == 1 else { return }
            }
            var count = 0
            // When this byte is read, the messages before it are, too.
            guard unsafe SSL_write_ex(session, "x", 1, &count) == 1 else { return }
            isRead.wait()
            var bytes: [UInt8] = []
            var buffer = [UInt8](repeating: 0, count: 16 * 1024)
            while bytes.count < sent.count, unsafe SSL_read_ex(session, &buffer, buffer.count, &count) == 1 {
                bytes += buffer[..<count]
            }
            received.bytes = bytes
            guard unsafe SSL_write_ex(session, "y", 1, &count) == 1 else { return }
            _ = unsafe SSL_read_ex(session, &buffer, buffer.count, &count)
        }
        let loop = EventLoop(name: "test")
        defer { loop.shutDown() }
        let client = try TestTrust.client()
        let (words, end) = try await loop.run { actor in
            let peer = Peer(try await actor.loop.connect(to: "127.0.0.1", port: server.port, context: client))
            peer.send(sent)
            #expect(peer.unsentByteCount > 0)
            isBlocked.signal()
            await peer.until { !peer.received.isEmpty || peer.end != nil }
            #expect(peer.unsentByteCount > 0)
            isRead.signal()
            await peer.until { peer.received.count == 2 || peer.end != nil }
            defer { peer.connection.close() }
            return (peer.received, peer.end ?? nil)
        }
        #expect(end == nil)
        #expect(words == Array("xy".utf8))
        // Without comparing them in the macro, which would look for each difference between eight million bytes.
        let isSame = received.bytes == sent
        #expect(isSame, "\(received.bytes.count) of \(sent.count) bytes came")
    }

    /// OpenSSL goes from one of these messages to the next, and does not return to its caller in between.
    @Test func `end a client's connection if they come without end`() async throws {
        let (counts, floods) = AsyncStream<Int>.makeStream()
        let server = unsafe try BareServer(context: TestTrust.server()) { session, _ in
            unsafe floods.yield(KeyUpdateFlood.send(over: session))
        }
        let loop = EventLoop(name: "test")
        defer { loop.shutDown() }
        let client = try TestTrust.client()
        let end = try await loop.run { actor in
            await Peer(try await actor.loop.connect(to: "127.0.0.1", port: server.port, context: client)).ending()
        }
        #expect(end.map { "\($0)".contains("key updates") } == true)
        let sent = try #require(await counts.first { _ in true })
        #expect((1..<KeyUpdateFlood.count).contains(sent), "\(sent)")
    }

    @Test func `end a server's connection if they come without end`() async throws {
        let (counts, floods) = AsyncStream<Int>.makeStream()
        let (arrivals, arrived) = AsyncStream<Void>.makeStream()
        let loop = EventLoop(name: "test")
        defer { loop.shutDown() }
        let (server, client) = (try TestTrust.server(), try TestTrust.client())
        let (sent, end) = try await loop.run { actor in
            var peer: Peer?
            let listener = try TLSListener(context: server, loop: actor.loop) {
                peer = Peer($0)
                arrived.yield()
            }
            defer { listener.close() }
            unsafe BareServer.connect(to: listener.port, context: client) { session in
                unsafe floods.yield(KeyUpdateFlood.send(over: session))
            }
            await arrivals.first { true }
            let end = await peer?.ending()
            // The socket is open as long as somebody has the connection, and until then the client can only wait.
            peer = nil
            return (await counts.first { _ in true }, end)
        }
        #expect(end?.description.contains("key updates") == true)
        #expect((1..<KeyUpdateFlood.count).contains(sent ?? 0), "\(sent ?? 0)")
    }
}

/// Key updates, one behind the other.
private enum KeyUpdateFlood {
    /// More than the kernel keeps for a peer that reads nothing.
    static let count = 500_000

    /// Shakes hands, sends them until the peer goes away, and returns how many were sent.
    static func send(over session: OpaquePointer) -> Int {
        guard unsafe SSL_do_handshake(session) == 1 else { return 0 }
        for count in 0..<count {
            unsafe SSL_key_update(session, SSL_KEY_UPDATE_NOT_REQUESTED)
            guard unsafe SSL_do_handshake(session) == 1 else { return count }
        }
        return count
    }
}

/// What the server's thread leaves for the test. The byte that the client reads afterwards orders the two.
private final class Received: @unchecked Sendable {
    var bytes: [UInt8] = []
}
