import Cryptography
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
/// gateways take turns (``ConnectionTurns``). Gateways that have to wait are served tenant by tenant
/// (``ConnectionShare``), and those of one tenant in the order in which they came.
package final class ConnectionBudget {
    /// After a search for a connection to close found none, the next search comes after this time: with thousands of
    /// connections it takes a while.
    private static let searchInterval = Duration.milliseconds(100)
    /// Connections that may be begun at once after a quiet time.
    private static let burst = 20.0

    /// How many they may hold together. Where it is lowered, the oldest ones give way: each takes no more pushes, waits
    /// for its answers and closes.
    package var limit: Int {
        didSet {
            precondition(limit > 0, "a worker without connections sends nothing")
            letExcessGo()
            if limit > oldValue, !line.isEmpty { loop.atEndOfTurn { [self] in serve() } }
        }
    }
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
    /// The TLS sessions that they may resume.
    let shelf = SessionShelf()

    /// The shares of which gateways wait, in the order of their turns.
    private var line: [ConnectionShare] = []
    private var isServing = false
    private var timer: Timer?
    /// How many could be begun at `countedAt`.
    private var mayBegin = ConnectionBudget.burst
    private var countedAt: ContinuousClock.Instant

    /// A connection, the gateway that it belongs to, and the share from which that has it.
    fileprivate struct Holding {
        let connection: any PooledConnection
        let owner: any ConnectionSeeker
        let share: ConnectionShare
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

    /// A gateway of this share has begun to wait.
    fileprivate func serve(_ share: ConnectionShare) {
        if !line.contains(where: { $0 === share }) { line.append(share) }
        serve()
    }

    /// A gateway has opened this connection.
    fileprivate func note(_ holding: Holding) {
        let id = ObjectIdentifier(holding.connection)
        connections[id] = holding
        holding.share.connections[id] = holding
        // The limit may have been lowered while it was being opened.
        letExcessGo(of: holding.share)
        letExcessGo()
    }

    /// The connection is closed, or could not be opened.
    fileprivate func giveBack(_ connection: (any PooledConnection)?, of share: ConnectionShare) {
        if let connection {
            let id = ObjectIdentifier(connection)
            connections[id] = nil
            share.connections[id] = nil
            if leaving.remove(id) != nil { share.leaving -= 1 }
        }
        count -= 1
        share.count -= 1
        // Not from within this call: its caller is in the middle of a change.
        if !line.isEmpty { loop.atEndOfTurn { [self] in serve() } }
    }

    /// The limit of a share has changed.
    fileprivate func noteLimit(of share: ConnectionShare) {
        letExcessGo(of: share)
        if !line.isEmpty { loop.atEndOfTurn { [self] in serve() } }
    }

    private func letExcessGo(of share: ConnectionShare) {
        letGo(share.count - share.leaving - share.limit, of: share.connections)
    }

    private func letExcessGo() { letGo(count - leaving.count - limit, of: connections) }

    private func letGo(_ excess: Int, of held: [ObjectIdentifier: Holding]) {
        guard excess > 0 else { return }
        let staying = held.values.filter { !leaving.contains(ObjectIdentifier($0.connection)) }
        let oldest = staying.sorted { $0.connection.openedAt < $1.connection.openedAt }
        for holding in oldest.prefix(excess) { letGo(of: holding) }
    }

    private func serve() {
        guard !isServing else { return }
        isServing = true
        defer { isServing = false }
        // Shares without room of their own, one after another: with all of them seen, there is nothing to do.
        var full = 0
        while full < line.count {
            let share = line.removeFirst()
            guard let next = share.nextInLine() else { continue }
            guard mayBeginNow() else {
                line.insert(share, at: 0)
                return serveAgain(after: .seconds(1 / perSecond))
            }
            if share.count >= share.limit, !makeRoom(for: next, of: share, among: share.connections) {
                line.append(share)
                full += 1
                continue
            }
            guard count < limit || makeRoom(for: next, of: share, among: connections) else {
                line.insert(share, at: 0)
                return serveAgain(after: Self.searchInterval)
            }
            full = 0
            count += 1
            share.count += 1
            mayBegin -= 1
            next.connect()
            share.leaveLine()
            line.append(share)
        }
        if full > 0 { serveAgain(after: Self.searchInterval) }
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

    /// Closes an idle connection of these, or asks one in use to give way. Returns whether there is room now: as far
    /// as the share and the budget are full.
    private func makeRoom(
        for seeker: any ConnectionSeeker, of share: ConnectionShare, among held: [ObjectIdentifier: Holding]
    ) -> Bool {
        let latestUse = loop.now - minimumIdle
        let idle = held.values.lazy.map(\.connection).filter {
            $0.inFlightCount == 0 && $0.lastRequest <= latestUse
        }
        if let unused = idle.min(by: { $0.lastRequest < $1.lastRequest }) {
            unused.drain(.unneeded)
            unused.close()
            return true
        }
        // Connections that will soon be closed are for the first in line.
        let isOwn = share.count >= share.limit
        let (going, waiting) =
            isOwn ? (share.leaving, share.waiting) : (leaving.count, line.reduce(share.waiting) { $0 + $1.waiting })
        if going < waiting, let holding = connectionToGiveWay(for: seeker, among: held) { letGo(of: holding) }
        return isOwn ? share.count < share.limit : count < limit
    }

    /// Has a connection take no more pushes, and close once its answers are there.
    private func letGo(of holding: Holding) {
        leaving.insert(ObjectIdentifier(holding.connection))
        holding.share.leaving += 1
        holding.connection.drain(.unneeded)
        if holding.connection.inFlightCount == 0 { holding.connection.close() }
    }

    /// The connection whose turn is over, of the gateway with the most connections for its weight: the one that was
    /// idle for the longest time, or else the oldest one.
    private func connectionToGiveWay(
        for seeker: any ConnectionSeeker, among held: [ObjectIdentifier: Holding]
    ) -> Holding? {
        var counts: [ObjectIdentifier: Int] = [:]
        for holding in held.values where !leaving.contains(ObjectIdentifier(holding.connection)) {
            counts[ObjectIdentifier(holding.owner), default: 0] += 1
        }
        let now = loop.now
        let holder = { (holding: Holding) in
            let connection = holding.connection
            return ConnectionTurns.Contender(
                weight: holding.owner.weight, connections: counts[ObjectIdentifier(holding.owner)] ?? 0,
                idle: connection.inFlightCount == 0 ? connection.lastRequest.duration(to: now) : .zero)
        }
        let waiting = ConnectionTurns.Contender(
            weight: seeker.weight, connections: counts[ObjectIdentifier(seeker)] ?? 0)
        return held.values.lazy.filter { [leaving, turns] holding in
            !leaving.contains(ObjectIdentifier(holding.connection)) && holding.owner !== seeker
                && turns.isOver(
                    after: holding.connection.openedAt.duration(to: now), of: holder(holding), for: waiting)
        }.max { one, other in
            let (first, second) = (holder(one), holder(other))
            if first.load != second.load { return first.load < second.load }
            if first.idle != second.idle { return first.idle < second.idle }
            return one.connection.openedAt > other.connection.openedAt
        }
    }
}

/// What a tenant has of the connections of a worker: its gateways count together, up to a limit of the tenant's own.
/// Where that is reached, they take turns among themselves, and nobody else waits for them.
///
/// Belongs to the event loop of its budget.
package final class ConnectionShare {
    let budget: ConnectionBudget
    /// Maximum number of connections of its gateways together. Where it is lowered, the connections that are too many
    /// give way: each takes no more pushes, waits for its answers and closes.
    package var limit: Int {
        didSet {
            if limit != oldValue { budget.noteLimit(of: self) }
        }
    }
    /// Connections that are open, and those that are being opened.
    fileprivate var count = 0
    /// Those that are open, with the gateways that they belong to.
    fileprivate var connections: [ObjectIdentifier: ConnectionBudget.Holding] = [:]
    /// The number of those that were asked to give way.
    fileprivate var leaving = 0
    /// The gateways that wait for a connection, in the order in which they came.
    private var line: [any ConnectionSeeker] = []
    private var inLine: Set<ObjectIdentifier> = []

    /// - Parameter limit: nil for that of the budget alone.
    package init(of budget: ConnectionBudget, limit: Int? = nil) {
        self.budget = budget
        self.limit = limit ?? .max
    }

    /// Lets a gateway open a connection when it is its turn: at once if no other waits and there is room.
    func seek(_ seeker: any ConnectionSeeker) {
        guard inLine.insert(ObjectIdentifier(seeker)).inserted else { return }
        line.append(seeker)
        budget.serve(self)
    }

    /// The gateway has opened this connection.
    func note(_ connection: any PooledConnection, of owner: any ConnectionSeeker) {
        budget.note(ConnectionBudget.Holding(connection: connection, owner: owner, share: self))
    }

    /// The connection is closed, or could not be opened.
    func giveBack(_ connection: (any PooledConnection)? = nil) { budget.giveBack(connection, of: self) }

    // MARK: Its line

    /// The number of gateways that wait.
    fileprivate var waiting: Int { line.count }

    /// The gateway that has waited longest, of those that still want a connection.
    fileprivate func nextInLine() -> (any ConnectionSeeker)? {
        while let next = line.first, !next.seeksConnection { leaveLine() }
        return line.first
    }

    /// The first in line has got what it waited for, or wants it no more.
    fileprivate func leaveLine() { inLine.remove(ObjectIdentifier(line.removeFirst())) }
}
