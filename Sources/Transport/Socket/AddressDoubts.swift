/// The addresses that accepted a connection and then served nothing over it.
///
/// RFC 8305 ("Happy Eyeballs") compares addresses by their TCP handshakes alone. If one family leads to a machine that
/// shakes hands and does not serve, the race would choose that family each time. So doubted addresses are tried last:
/// their whole family, since the fault usually lies on the way, and within it the address itself.
package struct AddressDoubts: Sendable {
    /// After this time an address is trusted again, because the order of RFC 6724 is better as a rule.
    static let memory = Duration.seconds(3600)
    private static let maximumCount = 64

    /// The doubted addresses, oldest first, each once.
    private var doubted: [(address: IPAddress, at: ContinuousClock.Instant)] = []

    package init() {}

    /// Notes that a connection to the address ended, or stands still, without a single answer.
    package mutating func note(_ address: IPAddress, now: ContinuousClock.Instant) {
        doubted.removeAll { $0.address == address || $0.at + Self.memory <= now }
        if doubted.count == Self.maximumCount { doubted.removeFirst() }
        doubted.append((address, now))
    }

    /// Returns the addresses with the doubted ones last, the most recent at the very end.
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
