package import Transport

/// A gateway that may have to wait for its next connection.
protocol ConnectionSeeker: AnyObject {
    /// Whether it still wants a connection, and may try for one now.
    var seeksConnection: Bool { get }

    /// It is its turn: opens a connection.
    func connect()
}

/// How many connections the gateways of one loop hold together, at the most, and how fast they are opened. When all are taken, the
/// one that was unused for the longest time is closed for the one that is wanted; those in use are left alone. Who has to wait
/// stands in line, and whoever came first is served first.
package final class ConnectionBudget {
    /// After looking for one to close in vain, nobody looks again for so long: with thousands of connections a look takes a while.
    private static let lookInterval = Duration.milliseconds(100)
    /// Connections that may be begun at once, after a while without one.
    private static let burst = 20.0

    private let limit: Int
    /// How long a connection must have been unused before it is closed for another: APNs takes it for an attack when connections
    /// come and go in quick succession.
    private let leastIdle: Duration
    /// Connections begun in a second, at the most. A handshake takes the loop 1 ms: if a thousand gateways lose their connections at
    /// one moment, the loop still has the better part of its time for sending.
    private let perSecond: Double
    private let loop: EventLoop
    private var connections: [ObjectIdentifier: any PooledConnection] = [:]
    /// Those that are open, and those that are being opened.
    private(set) var count = 0

    private var line: [any ConnectionSeeker] = []
    private var inLine: Set<ObjectIdentifier> = []
    private var isServing = false
    private var timer: Timer?
    /// How many may be begun now, as of `countedAt`.
    private var mayBegin = ConnectionBudget.burst
    private var countedAt: ContinuousClock.Instant

    package init(limit: Int, leastIdle: Duration = .seconds(10), perSecond: Double = 200, loop: EventLoop) {
        precondition(limit > 0, "a worker without connections sends nothing")
        self.limit = limit
        self.leastIdle = leastIdle
        self.perSecond = perSecond
        self.loop = loop
        countedAt = .now
    }

    /// Has a gateway open a connection when it is its turn: at once if nobody waits and there is a place.
    func seek(_ seeker: any ConnectionSeeker) {
        guard inLine.insert(ObjectIdentifier(seeker)).inserted else { return }
        line.append(seeker)
        serve()
    }

    /// The place is used by this connection.
    func note(_ connection: any PooledConnection) { connections[ObjectIdentifier(connection)] = connection }

    /// The connection is closed, or came to nothing.
    func giveBack(_ connection: (any PooledConnection)? = nil) {
        if let connection { connections[ObjectIdentifier(connection)] = nil }
        count -= 1
        // Whoever gives it back is in the middle of something.
        if !line.isEmpty { loop.atEndOfTurn { [self] in serve() } }
    }

    private func serve() {
        guard !isServing else { return }
        isServing = true
        defer { isServing = false }
        while let next = line.first {
            if next.seeksConnection {
                guard mayBeginNow() else { return serveAgain(after: .seconds(1 / perSecond)) }
                guard count < limit || makeRoom() else { return serveAgain(after: Self.lookInterval) }
                count += 1
                mayBegin -= 1
                next.connect()
            }
            line.removeFirst()
            inLine.remove(ObjectIdentifier(next))
        }
    }

    private func serveAgain(after delay: Duration) {
        guard timer == nil else { return }
        timer = loop.schedule(after: delay) { [self] in
            timer = nil
            serve()
        }
    }

    private func mayBeginNow() -> Bool {
        let now = loop.now
        mayBegin = min(Self.burst, mayBegin + max(0, countedAt.duration(to: now) / .seconds(1)) * perSecond)
        countedAt = max(countedAt, now)
        return mayBegin >= 1
    }

    private func makeRoom() -> Bool {
        let longestAgo = loop.now - leastIdle
        let idle = connections.values.filter { $0.inFlightCount == 0 && $0.lastRequest <= longestAgo }
        guard let unused = idle.min(by: { $0.lastRequest < $1.lastRequest }) else { return false }
        unused.retire(.unneeded)
        unused.close()
        return true
    }
}
