package import Transport

/// A gateway that may have to wait for its next connection.
protocol ConnectionSeeker: AnyObject {
    /// Whether it still wants a connection, and may try for one now.
    var seeksConnection: Bool { get }

    /// Its share of the connections, against others.
    var weight: Double { get }

    /// It is its turn: opens a connection.
    func connect()
}

/// How many connections the gateways of one loop hold together, at the most, and how fast they are opened. When all are taken, the
/// one that was unused for the longest time is closed for the one that is wanted; while all are in use, they go from gateway to gateway by
/// turns (``ConnectionTurns``). Who has to wait stands in line, and whoever came first is served first.
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
    private let turns: ConnectionTurns
    private var connections: [ObjectIdentifier: Holding] = [:]
    /// Those that were asked to give way and await their last answers.
    private var leaving: Set<ObjectIdentifier> = []
    /// Those that are open, and those that are being opened.
    private(set) var count = 0

    private var line: [any ConnectionSeeker] = []
    private var inLine: Set<ObjectIdentifier> = []
    private var isServing = false
    private var timer: Timer?
    /// How many may be begun now, as of `countedAt`.
    private var mayBegin = ConnectionBudget.burst
    private var countedAt: ContinuousClock.Instant

    /// A connection and whose it is.
    private struct Holding {
        let connection: any PooledConnection
        let owner: any ConnectionSeeker
    }

    package convenience init(
        limit: Int, leastIdle: Duration = .seconds(10), perSecond: Double = 200, loop: EventLoop
    ) {
        self.init(limit: limit, leastIdle: leastIdle, perSecond: perSecond, turns: ConnectionTurns(), loop: loop)
    }

    init(limit: Int, leastIdle: Duration, perSecond: Double, turns: ConnectionTurns, loop: EventLoop) {
        precondition(limit > 0, "a worker without connections sends nothing")
        self.turns = turns
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
    func note(_ connection: any PooledConnection, of owner: any ConnectionSeeker) {
        connections[ObjectIdentifier(connection)] = Holding(connection: connection, owner: owner)
    }

    /// The connection is closed, or came to nothing.
    func giveBack(_ connection: (any PooledConnection)? = nil) {
        if let connection {
            connections[ObjectIdentifier(connection)] = nil
            leaving.remove(ObjectIdentifier(connection))
        }
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
                guard count < limit || makeRoom(for: next) else { return serveAgain(after: Self.lookInterval) }
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

    /// Closes a connection that nobody uses, or has one in use give way. Returns whether there is room now.
    private func makeRoom(for seeker: any ConnectionSeeker) -> Bool {
        let longestAgo = loop.now - leastIdle
        let idle = connections.values.lazy.map(\.connection).filter {
            $0.inFlightCount == 0 && $0.lastRequest <= longestAgo
        }
        if let unused = idle.min(by: { $0.lastRequest < $1.lastRequest }) {
            unused.drain(.unneeded)
            unused.close()
            return true
        }
        // Places that will be free soon are for those who are first in line.
        if leaving.count < line.count, let connection = connectionToGiveWay(for: seeker) {
            leaving.insert(ObjectIdentifier(connection))
            connection.drain(.unneeded)
            if connection.inFlightCount == 0 { connection.close() }
        }
        return count < limit
    }

    /// The connection whose turn is over: of the gateway with the most for its weight, and of its connections the oldest.
    private func connectionToGiveWay(for seeker: any ConnectionSeeker) -> (any PooledConnection)? {
        var counts: [ObjectIdentifier: Int] = [:]
        for holding in connections.values where !leaving.contains(ObjectIdentifier(holding.connection)) {
            counts[ObjectIdentifier(holding.owner), default: 0] += 1
        }
        let contender = { (owner: any ConnectionSeeker) in
            ConnectionTurns.Contender(weight: owner.weight, connections: counts[ObjectIdentifier(owner)] ?? 0)
        }
        let now = loop.now
        let waiting = contender(seeker)
        return connections.values.lazy.filter { [leaving, turns] holding in
            !leaving.contains(ObjectIdentifier(holding.connection)) && holding.owner !== seeker
                && turns.isOver(
                    after: holding.connection.openedAt.duration(to: now), of: contender(holding.owner), for: waiting)
        }.max { one, other in
            let (load, otherLoad) = (contender(one.owner).load, contender(other.owner).load)
            return load == otherLoad ? one.connection.openedAt > other.connection.openedAt : load < otherLoad
        }?.connection
    }
}
