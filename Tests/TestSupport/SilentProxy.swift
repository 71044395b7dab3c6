import Foundation
import Glibc
import Synchronization
import Transport

/// A proxy between workers and the simulator that can fall silent or cut its lines. It then drops what is on its way
/// and closes no connection, as when a machine in between loses its state. It carries later connections as usual.
package final class SilentProxy: Sendable {
    /// The address at which the proxy listens, for `--gateway`.
    package let address: String
    private let listener = SocketStream(AF_INET)
    private let target: UInt16
    private let streams = Locked<[SocketStream]>([])
    private let clients = Locked<[SocketStream]>([])
    /// Connections with a lower number are silent in both directions.
    private let firstCarried = Atomic(0)
    /// Clients of connections with a lower number receive nothing.
    private let firstHearing = Atomic(0)
    private let connectionCount = Atomic(0)

    /// - Parameter port: the simulator's port on this machine.
    package init(toPort port: UInt16) throws {
        target = port
        address = "127.0.0.1:\(try listener.listenOnLoopback())"
        Thread.detachNewThread { [self] in while let client = listener.accept() { serve(client) } }
    }

    /// Drops everything on the connections that exist now.
    package func fallSilent() {
        firstCarried.store(connectionCount.load(ordering: .sequentiallyConsistent), ordering: .sequentiallyConsistent)
    }

    /// Cuts the lines to the workers. Nothing that they send arrives or is acknowledged any more, and they receive
    /// nothing. The proxy still forwards what was acknowledged before.
    package func cutLines() {
        firstHearing.store(connectionCount.load(ordering: .sequentiallyConsistent), ordering: .sequentiallyConsistent)
        for client in clients.withLock({ $0 }) { client.cutLine() }
    }

    /// Cuts all connections and accepts no more.
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
        // The other end of a silent connection must not notice the end either.
        guard !isSwallowed() else { return }
        source.shutDown()
        sink.shutDown()
    }
}
