import Foundation
import Glibc
import Synchronization
import Transport

/// Stands between workers and the simulator, and can fall silent or lose its lines: what is on its way is swallowed
/// from then on, and nobody is told, as when a machine in between loses its state. Connections that are made later are
/// carried as ever.
package final class SilentProxy: Sendable {
    /// Where it listens, for `--gateway`.
    package let address: String
    private let listener = SocketStream(AF_INET)
    private let target: UInt16
    private let streams = Locked<[SocketStream]>([])
    private let clients = Locked<[SocketStream]>([])
    /// Connections with a lower number than this are silent.
    private let firstCarried = Atomic(0)
    /// Clients of connections with a lower number than this hear nothing.
    private let firstHearing = Atomic(0)
    private let connectionCount = Atomic(0)

    /// - Parameter port: of the simulator, on this machine.
    package init(toPort port: UInt16) throws {
        target = port
        address = "127.0.0.1:\(try listener.listenOnLoopback())"
        Thread.detachNewThread { [self] in while let client = listener.accept() { serve(client) } }
    }

    /// Swallows all that comes over the connections that there are.
    package func fallSilent() {
        firstCarried.store(connectionCount.load(ordering: .sequentiallyConsistent), ordering: .sequentiallyConsistent)
    }

    /// Cuts the lines to the workers: nothing that they send arrives or is acknowledged any more, and they hear
    /// nothing. What was acknowledged before is still handed on.
    package func cutLines() {
        firstHearing.store(connectionCount.load(ordering: .sequentiallyConsistent), ordering: .sequentiallyConsistent)
        for client in clients.withLock({ $0 }) { client.cutLine() }
    }

    /// Cuts all connections, and takes no more.
    package func close() {
        listener.shutDown()
        for stream in streams.withLock({ $0 }) { stream.shutDown() }
    }

    private func serve(_ client: SocketStream) {
        let server = SocketStream(AF_INET)
        guard server.connect(toPort: target) else { return client.shutDown() }
        streams.withLock { $0 += [client, server] }
        clients.withLock { $0.append(client) }
        let number = connectionCount.add(1, ordering: .sequentiallyConsistent).oldValue
        Thread.detachNewThread { [self] in carry(from: client, to: server) { isSilent(number) } }
        Thread.detachNewThread { [self] in carry(from: server, to: client) { isSilent(number) || isCut(number) } }
    }

    private func isSilent(_ number: Int) -> Bool { number < firstCarried.load(ordering: .sequentiallyConsistent) }

    private func isCut(_ number: Int) -> Bool { number < firstHearing.load(ordering: .sequentiallyConsistent) }

    private func carry(from source: SocketStream, to sink: SocketStream, isSwallowed: () -> Bool) {
        while let bytes = source.readSome() {
            guard !isSwallowed() else { continue }
            guard sink.write(bytes) else { break }
        }
        // A silent connection's other end is not told either.
        guard !isSwallowed() else { return }
        source.shutDown()
        sink.shutDown()
    }
}
