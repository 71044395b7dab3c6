import Transport

/// What a gateway keeps of its connections; see ``PoolingGateway``.
///
/// A class, since it is asked about for each turn of each queue: as a struct behind a protocol it is copied each time.
final class ConnectionPool<Connection: PooledConnection> {
    /// Those that may take pushes, the oldest first, and those that only wait for answers.
    var open: [Connection] = []
    var draining: [Connection] = []
    var isConnecting = false
    var isWanted = false
    /// There was more to send than there was room for, and no room has come since.
    var isShort = false
    /// Nothing may be sent: no connection is opened before capacity is requested again.
    var isAtRest = false
    var isClosed = false
    /// Its share of the connections, against other gateways.
    var weight = 1.0
    /// When there was last more to send than there was room for.
    var lastAsked: ContinuousClock.Instant?
    var lastOpening: ContinuousClock.Instant?
    private(set) var reachability: Reachability
    /// The addresses whose connections ended without an answer.
    var doubts = AddressDoubts()
    /// How many connections in a row the server ended with an alert that may be about the certificate.
    var refusedHandshakes = 0
    /// How many connections in a row the server ended in order after a few answers, and how long the next one has to
    /// come after the last one for that.
    private var idleRetirements = 0
    private var lastRetirement: ContinuousClock.Instant?
    private(set) var retirementPause = Duration.zero
    var attemptTimer: Transport.Timer?
    var drained: Waiter<Bool>?
    private var generator = SystemRandomNumberGenerator()

    /// The connections that it shares with other gateways of the loop.
    let share: ConnectionShare

    init(_ settings: GatewaySettings, share: ConnectionShare?, loop: EventLoop) {
        self.share = share ?? ConnectionShare(of: ConnectionBudget(limit: .max, loop: loop))
        reachability = Reachability(backoff: settings.backoff)
    }

    var state: GatewayState {
        if isClosed { return .closed }
        if !open.isEmpty { return .open }
        if let outage = reachability.outage, !isAtRest { return .unreachable(outage) }
        return isConnecting ? .connecting : .idle
    }

    /// Notes that an attempt failed, or that a connection did not last. Returns the outage that this begins or
    /// prolongs.
    func noteFailure(_ error: String, now: ContinuousClock.Instant) -> Outage? {
        reachability.failed(error, now: now, using: &generator)
        return reachability.outage
    }

    /// The connection's handshake went well and it takes pushes.
    func noteOpened(_ connection: Connection) {
        isConnecting = false
        draining.removeAll { $0 === connection }
        open.append(connection)
        reachability.reached()
    }

    /// The connection takes no more pushes, or never did.
    func noteDraining(_ connection: Connection) {
        if !open.contains(where: { $0 === connection }) { isConnecting = false }
        open.removeAll { $0 === connection }
        if !draining.contains(where: { $0 === connection }) { draining.append(connection) }
    }

    /// Nothing may be sent at present. Earlier failures do not delay the next attempt after that.
    func rest() {
        isAtRest = true
        (isWanted, isShort, lastAsked) = (false, false, nil)
        reachability.reached()
        attemptTimer?.cancel()
    }

    /// The connection has answered, and lasted.
    func noteProved() { reachability.proved() }

    /// The server ended the connection in order, after so many answers. That is no failure; but servers that do it
    /// after a few requests must not see connections in quick succession.
    func noteRetired(
        _ connection: Connection, isShortLived: Bool, answers: Int, _ settings: GatewaySettings,
        now: ContinuousClock.Instant
    ) {
        // Whether it answers what it has taken shows at its end.
        if connection.hasAnswered { reachability.proved() }
        let isOfUse = !isShortLived || answers >= settings.answersOfUsefulConnection
        // Those that were there beside the last one say nothing new.
        let isNext = lastRetirement.map { connection.openedAt > $0 } ?? true
        if isOfUse { idleRetirements = 0 } else if isNext { idleRetirements += 1 }
        lastRetirement = now
        retirementPause =
            isShortLived
            ? min(settings.growthInterval * (1 << min(idleRetirements, 10)), settings.stableTime) : .zero
    }

    func noteClosed(_ connection: Connection) {
        share.giveBack(connection)
        open.removeAll { $0 === connection }
        draining.removeAll { $0 === connection }
        if draining.isEmpty, open.isEmpty { drained?.resume(true) }
    }
}
