import Cryptography
package import Transport

/// A gateway that may have to wait for its next connection.
protocol ConnectionSeeker: AnyObject {
    /// Whether it still wants a connection and may open one now.
    var seeksConnection: Bool { get }

    /// Whether it has a connection that takes pushes, so that it wants one more.
    var hasConnection: Bool { get }

    /// Its share of the connections, relative to other gateways.
    var weight: Double { get }

    /// Opens a connection; called when it is the gateway's turn.
    func connect()
}

/// Limits how many connections the gateways of one loop hold together, and how fast they open them. When all
/// connections are taken, the one that was idle for the longest time is closed to make room. While all are in use,
/// gateways take turns (``ConnectionTurns``). Waiting gateways are served tenant by tenant (``ConnectionShare``), and
/// the gateways of one tenant in the order in which they came, those without a connection first.
package final class ConnectionBudget {
    /// The pause after a search for a connection to close has found none. With thousands of connections a search takes
    /// a while.
    private static let searchInterval = Duration.milliseconds(100)
    /// The number of connections that may be begun at once after a quiet time.
    private static let burst = 20.0

    /// The maximum number of connections of all gateways together. When it is lowered, the oldest connections give way:
    /// each takes no more pushes, waits for its answers and closes.
    package var limit: Int {
        didSet {
            precondition(limit > 0, "a worker without connections sends nothing")
            letExcessGo()
            if limit > oldValue, !line.isEmpty { loop.atEndOfTurn { [self] in serve() } }
        }
    }
    /// How long a connection must be idle before it is closed to make room: APNs considers connections in quick
    /// succession an attack.
    private let minimumIdle: Duration
    /// Maximum number of connections begun in a second. A handshake takes the loop 1 ms: if a thousand gateways lose
    /// their connections at the same moment, the loop still has most of its time for sending.
    private let perSecond: Double
    private let loop: EventLoop
    private let turns: ConnectionTurns
    private var connections: [ObjectIdentifier: Holding] = [:]
    /// The connections that were asked to give way and wait for their last answers.
    private var leaving: Set<ObjectIdentifier> = []
    /// The number of connections that are open or being opened.
    private(set) var count = 0
    /// What has happened to the budget's connections.
    var history = ConnectionFigures()
    /// Keeps the TLS sessions that they may resume, up to a number.
    let sessionLimit = TLSSessionLimit()

    /// The shares whose gateways wait, in the order of their turns.
    private var line: [ConnectionShare] = []
    private var isServing = false
    private var timer: Timer?
    /// How many connections could be begun at `countedAt`.
    private var beginnings = ConnectionBudget.burst
    private var countedAt: ContinuousClock.Instant

    /// A connection, the gateway that it belongs to, and the share that it counts against.
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

    /// What has happened to the budget's connections, and what they do now.
    package var figures: ConnectionFigures {
        var figures = history
        figures.connections = count
        for holding in connections.values {
            figures.inFlight += holding.connection.inFlightCount
            figures.freeSlots += holding.connection.freeSlots
        }
        return figures
    }

    /// Notes that a gateway of this share has begun to wait.
    fileprivate func serve(_ share: ConnectionShare) {
        if !line.contains(where: { $0 === share }) { line.append(share) }
        serve()
    }

    /// Notes that a gateway has opened this connection.
    fileprivate func note(_ holding: Holding) {
        let id = ObjectIdentifier(holding.connection)
        connections[id] = holding
        holding.share.connections[id] = holding
        // The limit may have been lowered while it was being opened.
        letExcessGo(of: holding.share)
        letExcessGo()
    }

    /// Frees the place of a connection that is closed, or could not be opened.
    fileprivate func giveBack(_ connection: (any PooledConnection)?, of share: ConnectionShare) {
        if let connection {
            let id = ObjectIdentifier(connection)
            connections[id] = nil
            share.connections[id] = nil
            if leaving.remove(id) != nil { share.leaving -= 1 }
        }
        count -= 1
        share.count -= 1
        // Serves later, because the caller is in the middle of a change.
        if !line.isEmpty { loop.atEndOfTurn { [self] in serve() } }
    }

    /// Applies a changed limit of a share.
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
        // Counts successive shares for which there is no room. Once it covers the whole line, there is nothing to do.
        var full = 0
        while full < line.count {
            let share = line.removeFirst()
            guard let next = share.nextInLine() else { continue }
            refill()
            guard beginnings >= 1 else {
                line.insert(share, at: 0)
                return serveAgain(after: .seconds(1 / perSecond))
            }
            // One that may not have another's connection does not keep those behind it from theirs.
            if share.count >= share.limit && !makeRoom(for: next, of: share, among: share.connections)
                || count >= limit && !makeRoom(for: next, of: share, among: connections)
            {
                line.append(share)
                full += 1
                continue
            }
            full = 0
            count += 1
            share.count += 1
            beginnings -= 1
            next.connect()
            share.leaveLine(next)
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

    private func refill() {
        let now = loop.now
        beginnings = min(Self.burst, beginnings + max(0, countedAt.duration(to: now) / .seconds(1)) * perSecond)
        countedAt = max(countedAt, now)
    }

    /// Closes an idle connection of these, or asks one in use to give way. Returns whether there is room now: in the
    /// share if that is full, otherwise in the budget.
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
        // Connections that will close soon are already promised to the first in line.
        let isOwn = share.count >= share.limit
        let (going, waiting) =
            isOwn ? (share.leaving, share.waiting) : (leaving.count, line.reduce(share.waiting) { $0 + $1.waiting })
        if going < waiting, let holding = connectionToGiveWay(for: seeker, among: held) { letGo(of: holding) }
        return isOwn ? share.count < share.limit : count < limit
    }

    /// Lets a connection take no more pushes, and close once its answers are there.
    private func letGo(of holding: Holding) {
        leaving.insert(ObjectIdentifier(holding.connection))
        holding.share.leaving += 1
        holding.connection.drain(.unneeded)
        if holding.connection.inFlightCount == 0 { holding.connection.close() }
    }

    /// Returns a connection whose turn is over, from the gateway with the most connections for its weight: the one that
    /// was idle for the longest time, or else the oldest one.
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

/// A tenant's share of a worker's connections. The connections of its gateways count together, up to the tenant's own
/// limit. At the limit they take turns among themselves, and gateways of other tenants do not wait for them.
///
/// Belongs to the event loop of its budget.
package final class ConnectionShare {
    let budget: ConnectionBudget
    /// Maximum number of connections of its gateways together. When it is lowered, the excess connections give way:
    /// each takes no more pushes, waits for its answers and closes.
    package var limit: Int {
        didSet {
            if limit != oldValue { budget.noteLimit(of: self) }
        }
    }
    /// The number of connections that are open or being opened.
    fileprivate var count = 0
    /// The open connections, with the gateways that they belong to.
    fileprivate var connections: [ObjectIdentifier: ConnectionBudget.Holding] = [:]
    /// The number of connections that were asked to give way.
    fileprivate var leaving = 0
    /// The gateways that wait for a connection, in the order in which they came.
    private var line: [any ConnectionSeeker] = []
    private var inLine: Set<ObjectIdentifier> = []

    /// - Parameter limit: the tenant's limit; nil: only the budget's limit applies.
    package init(of budget: ConnectionBudget, limit: Int? = nil) {
        self.budget = budget
        self.limit = limit ?? .max
    }

    /// Lets a gateway open a connection when its turn comes: at once if no other gateway waits and there is room.
    func seek(_ seeker: any ConnectionSeeker) {
        guard inLine.insert(ObjectIdentifier(seeker)).inserted else { return }
        line.append(seeker)
        budget.serve(self)
    }

    /// Notes that the gateway has opened this connection.
    func note(_ connection: any PooledConnection, of owner: any ConnectionSeeker) {
        budget.note(ConnectionBudget.Holding(connection: connection, owner: owner, share: self))
    }

    /// Frees the place of a connection that is closed, or could not be opened.
    func giveBack(_ connection: (any PooledConnection)? = nil) { budget.giveBack(connection, of: self) }

    // MARK: Its line

    /// The number of gateways that wait.
    fileprivate var waiting: Int { line.count }

    /// Returns the gateway that has waited longest, of those that still want a connection. One that has a connection
    /// may have to wait for another one until others need none, and those do not wait behind it.
    fileprivate func nextInLine() -> (any ConnectionSeeker)? {
        while let next = line.first(where: { !$0.hasConnection }) ?? line.first {
            if next.seeksConnection { return next }
            leaveLine(next)
        }
        return nil
    }

    /// Removes a gateway from the line: it has got its connection, or does not want one any more.
    fileprivate func leaveLine(_ seeker: any ConnectionSeeker) {
        inLine.remove(ObjectIdentifier(seeker))
        line.removeAll { $0 === seeker }
    }
}
