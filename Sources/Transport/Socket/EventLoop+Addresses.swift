import Cryptography
import Glibc

extension EventLoop {
    /// Returns the addresses of a host, in random order within each family so that connections spread. Every call
    /// resolves the name anew. Must be called on the loop.
    func addresses(
        of host: String, port: UInt16, until deadline: ContinuousClock.Instant
    ) async throws(TransportError) -> [SocketAddress] {
        if host.isIPAddress, let addresses = try? SocketAddress.lookUp(host: host, port: port, isNumeric: true) {
            return addresses
        }
        let peer = "\(host):\(port)"
        let waiter = Waiter<PendingLookUps.Answer>(loop: self)
        lookUp(PendingLookUps.Name(host: host, port: port)) { waiter.resume($0) }
        switch await waiter.wait(until: deadline) {
        case nil: throw .timedOut(peer: peer, during: .resolving)
        case .failure(let failure):
            throw OpenFiles.areUsedUp ? .outOfDescriptors(peer: peer) : .unresolved(peer: peer, reason: failure.reason)
        case .success(let addresses): return addresses.shuffledWithinFamilies
        }
    }

    /// Returns the addresses of a host that `rules` admit. Throws `forbidden` if there are none.
    func addresses(
        of host: String, port: UInt16, admittedBy rules: AddressRules?, until deadline: ContinuousClock.Instant
    ) async throws(TransportError) -> [SocketAddress] {
        let all = try await addresses(of: host, port: port, until: deadline)
        guard let rules else { return all }
        let admitted = all.filter { address in address.ip.map(rules.admits) ?? false }
        if admitted.isEmpty, let first = all.first {
            throw .forbidden(peer: "\(host):\(port)", address: first.ip.map { "\($0)" } ?? "it")
        }
        return admitted
    }

    /// Returns the addresses of a host as text, for libpq, which connects by itself but would look names up on the
    /// caller's thread.
    package func numericAddresses(
        of host: String, port: UInt16, until deadline: ContinuousClock.Instant
    ) async throws(TransportError) -> [String] {
        try await addresses(of: host, port: port, until: deadline).compactMap(\.numericHost)
    }

    /// Looks a name up on a thread of its own, because getaddrinfo blocks.
    private func lookUp(_ name: PendingLookUps.Name, completion: @escaping (PendingLookUps.Answer) -> Void) {
        guard lookUps.join(name, completion) else { return }
        SystemThread.start { [self] in
            let answer = PendingLookUps.Answer { () throws(ResolverFailure) in
                try SocketAddress.lookUp(host: name.host, port: name.port, isNumeric: false)
            }
            post { [self] in
                for completion in lookUps.end(name) { completion(answer) }
            }
        }
    }
}

extension [SocketAddress] {
    /// The addresses shuffled within each family. The order of the families stays, because it follows RFC 6724.
    fileprivate var shuffledWithinFamilies: [SocketAddress] {
        guard let first = first?.family else { return [] }
        return filter { $0.family == first }.shuffled() + filter { $0.family != first }.shuffled()
    }
}

extension SocketAddress {
    /// `192.0.2.1` or `2001:db8::1`.
    fileprivate var numericHost: String? {
        unsafe withKernelForm { address, byteCount in
            var text = [CChar](repeating: 0, count: Int(NI_MAXHOST))
            let code = unsafe getnameinfo(
                address, byteCount, &text, socklen_t(text.count), nil, 0, NI_NUMERICHOST)
            guard code == 0 else { return nil }
            return String(decoding: text.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
        }
    }
}
