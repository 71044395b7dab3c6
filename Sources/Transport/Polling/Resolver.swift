import Cryptography
import Glibc

/// Looks up host names for one loop. getaddrinfo blocks, so a look-up has a thread of its own; those that ask for a name
/// that is being looked up join, so that there are never more threads than names. Nothing is cached: Apple's addresses change, and
/// every connection is to resolve anew.
final class Resolver {
    private struct Name: Hashable {
        let host: String
        let port: UInt16
    }

    private typealias Answer = Result<[SocketAddress], ResolverFailure>

    private var waiters: [Name: [Waiter<Answer>]] = [:]

    /// The addresses of a host in random order within each family, so that connections spread. To be called on the loop.
    func addresses(
        of host: String, port: UInt16, on loop: EventLoop, until deadline: ContinuousClock.Instant
    ) async throws(TransportError) -> [SocketAddress] {
        let peer = "\(host):\(port)"
        if host.isIPAddress, let addresses = try? SocketAddress.lookUp(host: host, port: port, isNumeric: true) {
            return addresses
        }
        let waiter = Waiter<Answer>(loop: loop)
        join(waiter, for: Name(host: host, port: port), on: loop)
        switch await waiter.wait(until: deadline) {
        case nil: throw .timedOut(peer: peer, during: .resolving)
        case .failure(let failure):
            throw OpenFiles.areUsedUp ? .outOfDescriptors(peer: peer) : .unresolved(peer: peer, reason: failure.reason)
        case .success(let addresses): return Self.spread(addresses)
        }
    }

    private func join(_ waiter: Waiter<Answer>, for name: Name, on loop: EventLoop) {
        waiters[name, default: []].append(waiter)
        guard waiters[name]?.count == 1 else { return }
        Thread.start { [loop] in
            let answer = Answer { () throws(ResolverFailure) in
                try SocketAddress.lookUp(host: name.host, port: name.port, isNumeric: false)
            }
            loop.post {
                for waiter in loop.resolver.waiters.removeValue(forKey: name) ?? [] { waiter.resume(answer) }
            }
        }
    }

    /// Keeps the order of the families (RFC 6724 has decided it) and shuffles within them.
    private static func spread(_ addresses: [SocketAddress]) -> [SocketAddress] {
        guard let first = addresses.first?.family else { return [] }
        return addresses.filter { $0.family == first }.shuffled() + addresses.filter { $0.family != first }.shuffled()
    }
}
