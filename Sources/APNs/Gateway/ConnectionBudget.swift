package import Transport

/// A gateway that may have to wait for its next connection.
protocol ConnectionSeeker: AnyObject {
    /// Whether it still wants a connection, and may try for one now.
    var seeksConnection: Bool { get }

    /// Its share of the connections, against others.
    var weight: Double { get }

    /// Opens a connection; called when it is the gateway's turn.
    func connect()
}

/// Limits how many connections the gateways of one loop hold together, and how fast they open them. When all
/// connections are taken, the one that was idle for the longest time is closed to make room. While all are in use,
/// gateways take turns (``ConnectionTurns``). Gateways that have to wait are served in the order in which they came.
package final class ConnectionBudget {
    /// After a search for a connection to close found none, the next search comes after this time: with thousands of
    /// connections it takes a while.
    private static let searchInterval = Duration.milliseconds(100)
    /// Connections that may be begun at once after a quiet time.
    private static let burst = 20.0

    private let limit: Int
    /// How long a connection must be idle before it is closed to make room: APNs takes connections in quick succession
    /// for an attack.
    private let minimumIdle: Duration
    /// Maximum number of connections begun in a second. A handshake takes the loop 1 ms: if a thousand gateways lose
    /// their connections at the same moment, the loop still has most of its time for sending.
    private let perSecond: Double
    private let loop: EventLoop
    private let turns: ConnectionTurns
    private var connections: [ObjectIdentifier: Holding] = [:]
    /// Those that were asked to give way and wait for their last answers.
    private var leaving: Set<ObjectIdentifier> = []
    /// Those that are open, and those that are being opened.
    private(set) var count = 0
    /// What its connections have been through.
    var history = ConnectionFigures()

    private var line: [any ConnectionSeeker] = []
    private var inLine: Set<ObjectIdentifier> = []
    private var isServing = false
    private var timer: Timer?
    /// How many could be begun at `countedAt`.
    private var mayBegin = ConnectionBudget.burst
    private var countedAt: ContinuousClock.Instant

    /// A connection and the gateway that it belongs to.
    private struct Holding {
        let connection: any PooledConnection
        let owner: any ConnectionSeeker
    }

    package convenience init(
        limit: Int, minimumIdle: Duration = .seconds(10), perSecond: Double = 200, loop: EventLoop
    ) {
        self.init(limit: limit, minimumIdle: minimumIdle, perSecond: perSecond, turns: ConnectionTurns(), loop: loop)
    }

    init(limit: Int, minimumIdle: Duration, perSecond: Double, turns: ConnectionTurns, loop: EventLoop) {
        precondition(limit > 0, "a worker without connections sends nothing")
        self.turns = turns
        self.limit = limit
        self.minimumIdle = minimumIdle
        self.perSecond = perSecond
        self.loop = loop
        countedAt = .now
    }

    /// What its connections have been through, and what they do now.
    package var figures: ConnectionFigures {
        var figures = history
        figures.connections = count
        for holding in connections.values {
            figures.inFlight += holding.connection.inFlightCount
            figures.freeSlots += holding.connection.freeSlots
        }
        return figures
    }

    /// Lets a gateway open a connection when it is its turn: at once if no other waits and there is room.
    func seek(_ seeker: any ConnectionSeeker) {
        guard inLine.insert(ObjectIdentifier(seeker)).inserted else { return }
        line.append(seeker)
        serve()
    }

    /// The gateway has opened this connection.
    func note(_ connection: any PooledConnection, of owner: any ConnectionSeeker) {
        connections[ObjectIdentifier(connection)] = Holding(connection: connection, owner: owner)
    }

    /// The connection is closed, or could not be opened.
    func giveBack(_ connection: (any PooledConnection)? = nil) {
        if let connection {
            connections[ObjectIdentifier(connection)] = nil
            leaving.remove(ObjectIdentifier(connection))
        }
        count -= 1
        // Not from within this call: its caller is in the middle of a change.
        if !line.isEmpty { loop.atEndOfTurn { [self] in serve() } }
    }

    private func serve() {
        guard !isServing else { return }
        isServing = true
        defer { isServing = false }
        while let next = line.first {
            if next.seeksConnection {
                guard mayBeginNow() else { return serveAgain(after: .seconds(1 / perSecond)) }
                guard count < limit || makeRoom(for: next) else { return serveAgain(after: Self.searchInterval) }
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

    /// Closes an idle connection, or asks one in use to give way. Returns whether there is room now.
    private func makeRoom(for seeker: any ConnectionSeeker) -> Bool {
        let latestUse = loop.now - minimumIdle
        let idle = connections.values.lazy.map(\.connection).filter {
            $0.inFlightCount == 0 && $0.lastRequest <= latestUse
        }
        if let unused = idle.min(by: { $0.lastRequest < $1.lastRequest }) {
            unused.drain(.unneeded)
            unused.close()
            return true
        }
        // Connections that will soon be closed are for the first in line.
        if leaving.count < line.count, let connection = connectionToGiveWay(for: seeker) {
            leaving.insert(ObjectIdentifier(connection))
            connection.drain(.unneeded)
            if connection.inFlightCount == 0 { connection.close() }
        }
        return count < limit
    }

    /// The connection whose turn is over: the oldest one of the gateway with the most connections for its weight.
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
