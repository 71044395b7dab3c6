/// The addresses of a server that took a connection and then served nothing over it.
///
/// RFC 8305 ("Happy Eyeballs") compares addresses by their TCP handshakes alone. Where one family leads to something
/// that shakes hands and does not serve, the race would choose that family each time. So what disappointed is tried
/// last: the whole family, since the fault usually lies on the way, and within it the address.
package struct AddressDoubts: Sendable {
    /// After this time an address is trusted again: the order of RFC 6724 is the better one, as a rule.
    static let memory = Duration.seconds(3600)
    private static let maximumCount = 64

    /// The oldest first; each address once.
    private var doubted: [(address: IPAddress, at: ContinuousClock.Instant)] = []

    package init() {}

    /// A connection to the address ended, or stands still, without a single answer.
    package mutating func note(_ address: IPAddress, now: ContinuousClock.Instant) {
        doubted.removeAll { $0.address == address || $0.at + Self.memory <= now }
        if doubted.count == Self.maximumCount { doubted.removeFirst() }
        doubted.append((address, now))
    }

    /// The same addresses with those last that disappointed, the latest at the very end.
    func ordered(_ addresses: [SocketAddress], now: ContinuousClock.Instant) -> [SocketAddress] {
        let valid = doubted.filter { $0.at + Self.memory > now }.map(\.address)
        guard !valid.isEmpty else { return addresses }
        let ranked = addresses.enumerated().map { place, address in
            let ip = address.ip
            let family = valid.lastIndex { $0.bytes.count == ip?.bytes.count } ?? -1
            return (rank: (family, valid.firstIndex { $0 == ip } ?? -1, place), address: address)
        }
        return ranked.sorted { $0.rank < $1.rank }.map(\.address)
    }
}
