extension PlainConnection {
    /// Connects to a server without TLS: looks up the name, and connects to the first address that answers. Must be
    /// called on `loop`.
    /// - Parameter rules: decide which of the server's addresses may be connected to.
    package static func connect(
        host: String, port: UInt16, rules: AddressRules, loop: EventLoop, deadline: ContinuousClock.Instant
    ) async throws(TransportError) -> PlainConnection {
        let addresses = try await loop.addresses(of: host, port: port, admittedBy: rules, until: deadline)
        let race = AddressRace(addresses, peer: "\(host):\(port)", loop: loop)
        return PlainConnection(try await race.firstConnected(until: deadline), loop: loop)
    }
}
