import APNsSimulator
import Cryptography
import Foundation
import TestSupport
import Transport

/// Measures what a TLS handshake costs a worker, full and resumed from the previous connection: the CPU time of its
/// loop only, including TCP.
enum Handshakes {
    static func measure(count: Int) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "bench-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let simulator = try await Simulator.start(SimulatorConfiguration(folder: folder))
        let identity = try simulator.authority.clientCertificate(topic: "com.example.App").identity
        for _ in 1...3 {
            for (credential, identity) in [("token", nil), ("certificate", identity)] {
                for isResumed in [false, true] {
                    let cpu = try await measure(simulator, identity: identity, isResumed: isResumed, count: count)
                    print("\(isResumed ? "resumed" : "full"), with a \(credential): \(Int(cpu * 1e6)) µs each")
                }
            }
        }
        let seen = await simulator.stop()
        print("the simulator saw \(seen.fullHandshakes) full and \(seen.resumedHandshakes) resumed handshakes")
    }

    /// Returns the seconds of CPU time for each connection.
    private static func measure(
        _ simulator: Simulator, identity: TLSIdentity?, isResumed: Bool, count: Int
    ) async throws -> Double {
        let loop = EventLoop(name: "bench")
        defer { loop.shutDown() }
        return try await loop.run { _ in
            let context = try TLSContext.client(
                trusting: TrustStore(adding: [simulator.authority.certificate]), identity: identity)
            let sessions = ResumableSessions(with: simulator.host)
            var begun = 0.0
            // The first connection has no session to resume and finds cold caches, so it is not counted.
            for number in 0...count {
                if number == 1 { begun = try cpuSeconds() }
                let stream = try await TLSConnection.connect(
                    host: simulator.host, port: simulator.port, context: context, loop: loop,
                    deadline: .now + .seconds(10), resuming: isResumed ? sessions : nil)
                let reader = FirstBytes(stream)
                await reader.wait()
                guard stream.isResumed == (isResumed && number > 0) else { throw Unexpected() }
                stream.close()
            }
            return try (cpuSeconds() - begun) / Double(count)
        }
    }

    /// Returns the CPU time of this thread in seconds (proc_pid_schedstat(5) has nanoseconds).
    private static func cpuSeconds() throws -> Double {
        let text = try String(contentsOfFile: "/proc/thread-self/schedstat", encoding: .utf8)
        guard let first = text.split(separator: " ").first, let nanoseconds = Double(first) else { throw Unexpected() }
        return nanoseconds / 1e9
    }

    private struct Unexpected: Error {}
}

/// Waits for the server's first bytes. Its sessions come before them.
private final class FirstBytes: ByteStreamHandler {
    private let waiter: Waiter<Bool>

    init(_ stream: TLSConnection) {
        waiter = Waiter(loop: stream.loop)
        stream.handler = self
    }

    func wait() async { _ = await waiter.wait(until: .now + .seconds(10)) }

    func received(_ bytes: Span<UInt8>) { waiter.resume(true) }
    func writable() {}
    func closed(_ error: TransportError?) { waiter.resume(false) }
}
