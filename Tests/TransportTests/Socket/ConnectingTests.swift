import Cryptography
import Glibc
import Testing
import Transport

@Suite(.timeLimit(.minutes(10))) struct `Connecting over TLS` {
    @Test func `to a port where nobody listens is refused at once`() async throws {
        let client = try TestTrust.client()
        let error = try await EventLoop.withEchoServer(TestTrust.server()) { actor, listener in
            listener.close()
            return await failure(port: listener.port, client: client, on: actor)
        }
        #expect(try #require(error).description.contains("Connection refused; check the address"))
    }

    @Test func `to a name that does not exist tells so`() async throws {
        let client = try TestTrust.client()
        let error = try await EventLoop.withEchoServer(TestTrust.server()) { actor, _ in
            await failure(host: "nowhere.invalid", port: 443, client: client, on: actor)
        }
        guard case .unresolved("nowhere.invalid:443", _) = error else {
            Issue.record("not told: \(String(describing: error))")
            return
        }
    }

    @Test func `to a server that never shakes hands ends with the deadline`() async throws {
        let client = try TestTrust.client()
        let silent = try SilentServer()
        let error = try await EventLoop.withEchoServer(TestTrust.server()) { actor, _ in
            await failure(
                host: "127.0.0.1", port: silent.port, client: client, within: .milliseconds(100), on: actor)
        }
        #expect(error == .timedOut(peer: "127.0.0.1:\(silent.port)", during: .handshaking))
    }

    /// On machines where `localhost` is also ::1: the server does not listen there. `AddressRaceTests` test this on all
    /// machines.
    @Test func `goes on to the next address when the first is dead`() async throws {
        let client = try TestTrust.client()
        let isOpen = try await EventLoop.withEchoServer(TestTrust.server()) { actor, listener in
            let connection = try await actor.loop.connect(port: listener.port, context: client)
            defer { connection.close() }
            return connection.isOpen
        }
        #expect(isOpen)
    }

    @Test func `many at once all arrive`() async throws {
        let client = try TestTrust.client()
        let count = try await EventLoop.withEchoServer(TestTrust.server()) { actor, listener in
            var peers: [Peer] = []
            for _ in 0..<50 {
                peers.append(Peer(try await actor.loop.connect(port: listener.port, context: client)))
            }
            for peer in peers { peer.send([1, 2, 3]) }
            for peer in peers { await peer.until { peer.received.count == 3 } }
            return peers.count
        }
        #expect(count == 50)
    }

    /// The address is not at fault. The test runs in a process of its own, because the limit applies to the whole
    /// process.
    @Test(arguments: ["127.0.0.1", "localhost"]) func `without a descriptor left says so`(host: String) async {
        await #expect(processExitsWith: .success) { [host = host as String] in
            let client = try TestTrust.client()
            let loop = EventLoop(name: "test")
            await loop.run { actor in
                var limit = rlimit()
                unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
                limit.rlim_cur = min(limit.rlim_cur, 256)
                unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
                while socket(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0) >= 0 {}
                do throws(TransportError) {
                    _ = try await actor.loop.connect(to: host, port: 9, context: client)
                    exit(EXIT_FAILURE)
                } catch {
                    let text = error.description
                    let isRight = error == .outOfDescriptors(peer: "\(host):9") && text.contains("ulimit -n")
                    // Exits instead of trapping, because the backtrace of a trap would also need descriptors.
                    exit(isRight && !text.contains("check the address") ? EXIT_SUCCESS : EXIT_FAILURE)
                }
            }
        }
    }

    private func failure(
        host: String = "localhost", port: UInt16, client: TLSContext, within time: Duration = .seconds(10),
        on actor: isolated LoopActor
    ) async -> TransportError? {
        do throws(TransportError) {
            try await actor.loop.connect(to: host, port: port, context: client, within: time).close()
            return nil
        } catch {
            return error
        }
    }
}

/// A server at which the kernel accepts connections, and which never sends anything.
private final class SilentServer: Sendable {
    private let descriptor: CInt
    let port: UInt16

    init() throws {
        descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = INADDR_LOOPBACK.bigEndian
        var byteCount = socklen_t(MemoryLayout<sockaddr_in>.size)
        let descriptor = descriptor
        let result = unsafe withUnsafeMutablePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                unsafe bind(descriptor, address, byteCount) + listen(descriptor, 8)
                    + getsockname(descriptor, address, &byteCount)
            }
        }
        try #require(result == 0)
        port = UInt16(bigEndian: address.sin_port)
    }

    deinit {
        close(descriptor)
    }
}
