import Transport

/// The connections of a gateway and what it remembers about them; see ``PoolingGateway``.
///
/// A class, because it is read in each turn of each queue: a struct behind a protocol would be copied each time.
final class ConnectionPool<Connection: PooledConnection> {
    /// The connections that may take pushes, oldest first, and those that only wait for answers.
    var open: [Connection] = []
    var draining: [Connection] = []
    var isConnecting = false
    var isWanted = false
    /// Whether there was more to send than free slots, and none has become free since.
    var isShort = false
    /// Whether nothing may be sent. If so, no connection is opened before capacity is requested again.
    var isAtRest = false
    var isClosed = false
    /// The gateway's share of the connections, relative to other gateways.
    var weight = 1.0
    /// When there was last more to send than free slots.
    var lastAsked: ContinuousClock.Instant?
    var lastOpening: ContinuousClock.Instant?
    private(set) var reachability: Reachability
    /// The addresses whose connections ended without an answer.
    var doubts = AddressDoubts()
    /// How many connections in a row the server ended with an alert that may be about the certificate.
    var refusedHandshakes = 0
    /// How many connections in a row the server ended in order after a few answers.
    private var shortLivedInRow = 0
    private var lastRetirement: ContinuousClock.Instant?
    /// The minimum time between opening two connections that results from these.
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
        if open.contains(where: { !$0.isShutOut }) { return .open }
        // While nobody wants a connection, none is tried. So whoever wants one must not be told to wait for that.
        if let downtime = reachability.downtime, isWanted, !isAtRest { return .unreachable(downtime) }
        return isConnecting || !open.isEmpty ? .connecting : .idle
    }

    /// Notes that an attempt failed, or that a connection did not last. Returns the downtime that this begins or
    /// prolongs.
    func noteFailure(_ error: String, now: ContinuousClock.Instant) -> Downtime? {
        reachability.failed(error, now: now, using: &generator)
        return reachability.downtime
    }

    /// Notes that no connection takes pushes for a while already, and that an attempt goes on. Returns whether this
    /// begins a downtime.
    func noteLateness(_ words: String, now: ContinuousClock.Instant) -> Bool {
        guard state == .connecting, isWanted, !isAtRest, reachability.downtime == nil else { return false }
        reachability.delayed(words, now: now)
        return true
    }

    /// Notes that the connection takes pushes.
    func noteOpened(_ connection: Connection) {
        isConnecting = false
        draining.removeAll { $0 === connection }
        open.append(connection)
        if !connection.isShutOut { noteReached() }
    }

    /// Notes that a connection may send.
    func noteReached() { reachability.reached() }

    /// Notes that the connection takes no more pushes, or never took any.
    func noteDraining(_ connection: Connection) {
        if !open.contains(where: { $0 === connection }) { isConnecting = false }
        open.removeAll { $0 === connection }
        if !draining.contains(where: { $0 === connection }) { draining.append(connection) }
    }

    /// Stops wanting connections, because nothing may be sent at present. Earlier failures do not delay the next
    /// attempt after that.
    func rest() {
        isAtRest = true
        (isWanted, isShort, lastAsked) = (false, false, nil)
        reachability.reached()
        attemptTimer?.cancel()
    }

    /// Notes that a connection has answered and lasted.
    func noteProved() { reachability.proved() }

    /// Notes that the server ended the connection in order, after this many answers. That is not a failure, but a
    /// server that does it after a few requests must not see connections in quick succession.
    /// - Parameter isOfPush: whether it was ended by a push that was not accepted before either. Such a push waits ever
    ///   longer itself, so that others need not.
    func noteRetired(
        _ connection: Connection, isShortLived: Bool, answers: Int, isOfPush: Bool = false,
        _ settings: GatewaySettings, now: ContinuousClock.Instant
    ) {
        // If it has not answered yet, `closed` finds out whether it answers the requests that it has accepted.
        if connection.hasAnswered { reachability.proved() }
        let isOfUse = !isShortLived || answers >= settings.answersOfUsefulConnection
        // Counts only a connection that was opened after the last retirement. Connections that were open beside that
        // one show nothing new.
        let isNext = lastRetirement.map { connection.openedAt > $0 } ?? true
        if isOfUse { shortLivedInRow = 0 } else if isNext, !isOfPush { shortLivedInRow += 1 }
        lastRetirement = now
        retirementPause =
            isShortLived
            ? min(settings.growthInterval * (1 << min(shortLivedInRow, 10)), settings.stableTime) : .zero
    }

    func noteClosed(_ connection: Connection) {
        share.giveBack(connection)
        open.removeAll { $0 === connection }
        draining.removeAll { $0 === connection }
        if draining.isEmpty, open.isEmpty { drained?.resume(true) }
    }
}
