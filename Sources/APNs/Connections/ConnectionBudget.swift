import Transport

/// How many connections the gateways of one loop hold together, at the most. When all are taken, the one that was unused for the
/// longest time is closed for the one that is wanted; those in use are left alone, and whoever wants one waits.
package final class ConnectionBudget {
    /// After looking for one to close in vain, nobody looks again for so long: with thousands of connections a look takes a while.
    private static let lookInterval = Duration.milliseconds(100)

    private let limit: Int
    /// How long a connection must have been unused before it is closed for another: APNs takes it for an attack when connections
    /// come and go in quick succession.
    private let leastIdle: Duration
    private var connections: [ObjectIdentifier: any PooledConnection] = [:]
    /// Those that are open, and those that are being opened.
    private(set) var count = 0
    private var nextLook: ContinuousClock.Instant?

    package init(limit: Int, leastIdle: Duration = .seconds(10)) {
        precondition(limit > 0, "a worker without connections sends nothing")
        self.limit = limit
        self.leastIdle = leastIdle
    }

    /// Takes a place for a connection that is going to be opened. False if there is none.
    func take(now: ContinuousClock.Instant) -> Bool {
        guard count < limit || makeRoom(now: now) else { return false }
        count += 1
        return true
    }

    /// The place is used by this connection.
    func note(_ connection: any PooledConnection) { connections[ObjectIdentifier(connection)] = connection }

    /// The connection is closed, or came to nothing.
    func giveBack(_ connection: (any PooledConnection)? = nil) {
        if let connection { connections[ObjectIdentifier(connection)] = nil }
        count -= 1
    }

    private func makeRoom(now: ContinuousClock.Instant) -> Bool {
        if let nextLook, now < nextLook { return false }
        let idle = connections.values.filter { $0.inFlightCount == 0 && $0.lastRequest + leastIdle <= now }
        guard let unused = idle.min(by: { $0.lastRequest < $1.lastRequest }) else {
            nextLook = now + Self.lookInterval
            return false
        }
        unused.retire(.unneeded)
        unused.close()
        return true
    }
}
