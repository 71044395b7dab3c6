import Cryptography
import QueueCore
import Transport

/// What gateways of both interfaces have in common. They open connections when capacity is wanted, open more only while
/// all are saturated, replace connections that end, and close idle ones. A conforming type says how a connection is
/// begun.
protocol PoolingGateway: PushGateway, ConnectionSeeker, ConnectionDelegate {
    var endpoint: Endpoint { get }
    var loop: EventLoop { get }
    var settings: GatewaySettings { get }
    /// The TLS of all connections.
    var tls: ClientTLS { get }
    var isAuthenticatedByCertificate: Bool { get }
    /// The minimum time between opening two connections, for an interface whose connections often end.
    var openingInterval: Duration { get }
    var pool: ConnectionPool<Connection> { get }

    /// Begins a connection on a stream whose handshake succeeded. If the connection takes no pushes yet, it calls
    /// ``opened(_:)`` when it does.
    func begin(on stream: TLSConnection) -> Connection
}

// MARK: - PushGateway

extension PoolingGateway {
    var openingInterval: Duration { .zero }

    package var state: GatewayState { pool.state }

    package var weight: Double {
        get { pool.weight }
        set { pool.weight = newValue }
    }

    package var freeSlots: Int {
        pool.open.reduce(0) { $0 + $1.freeSlots }
    }

    /// How many pushes wait for their outcome.
    package var inFlightCount: Int {
        (pool.open + pool.draining).reduce(0) { $0 + $1.inFlightCount }
    }

    package func requestCapacity() {
        guard !pool.isClosed else { return }
        pool.isAtRest = false
        pool.isWanted = true
        pool.isShort = true
        pool.lastAsked = loop.now
        openIfNeeded()
    }

    package func rest() { pool.rest() }

    package func drain() async {
        guard !pool.isClosed else { return }
        pool.isClosed = true
        pool.attemptTimer?.cancel()
        for connection in pool.open { connection.drain(.unneeded) }
        for connection in pool.draining where connection.inFlightCount == 0 { connection.close() }
        if !pool.draining.isEmpty {
            let waiter = Waiter<Bool>(loop: loop)
            pool.drained = waiter
            // Each connection ends by its own clock, and reports what it gives up.
            _ = await waiter.wait(until: loop.now + settings.drainTime * 2)
        }
        closeAll()
    }

    package func close() {
        pool.isClosed = true
        pool.attemptTimer?.cancel()
        closeAll()
    }

    private func closeAll() {
        for connection in pool.open + pool.draining { connection.close() }
    }
}

// MARK: - Opening

extension PoolingGateway {
    func openIfNeeded() {
        guard wantsConnection else { return }
        if let nextOpening { armAttempt(nextOpening) } else { pool.share.seek(self) }
    }

    private var wantsConnection: Bool {
        guard !pool.isClosed, !pool.isAtRest, !pool.isConnecting else { return false }
        guard !pool.open.isEmpty else { return pool.isWanted }
        // A connection that allows no streams may allow some soon. If two allow none, a third will not help.
        guard pool.open.count(where: \.isShutOut) < 2 else { return false }
        // Connections that are set aside do not count. But there may be at most one of them for each connection
        // allowed, or two if no other is left.
        let serving = pool.open.count { !$0.isSetAside }
        return pool.isShort && serving < settings.maximumConnections
            && pool.open.count < (serving > 0 ? 2 : 3) * settings.maximumConnections
            && pool.open.allSatisfy { $0.freeSlots == 0 && !$0.isShortForNow }
    }

    /// When the next connection may be opened; nil: at once.
    private var nextOpening: ContinuousClock.Instant? {
        if let downtime = pool.reachability.downtime, loop.now < downtime.nextAttempt { return downtime.nextAttempt }
        guard let lastOpening = pool.lastOpening else { return nil }
        // A connection that has lasted shows that the server does not retire connections after a few requests.
        let pause = pool.open.contains { hasLasted($0) } ? .zero : pool.retirementPause
        let next = max(lastOpening + max(openingInterval, pause), nextGrowth ?? lastOpening)
        return loop.now < next ? next : nil
    }

    /// When a connection may be opened beside the open ones; nil if none is open. Before its first answer, it is not
    /// known how many streams a connection will carry, and a connection that is slow to answer may never do so.
    private var nextGrowth: ContinuousClock.Instant? {
        guard let newest = pool.open.map(\.openedAt).max(), let lastOpening = pool.lastOpening else { return nil }
        let mute = pool.open.count { !$0.hasAnswered }
        guard mute > 0 else { return lastOpening + settings.growthInterval }
        return max(lastOpening + settings.growthInterval, newest + settings.firstAnswerTime * (1 << min(mute - 1, 10)))
    }

    var seeksConnection: Bool { wantsConnection && nextOpening == nil }

    var hasConnection: Bool { !pool.open.isEmpty }

    func connect() {
        pool.isConnecting = true
        pool.lastOpening = loop.now
        loop.schedule(after: settings.readyTime) { [self, begun = loop.now] in
            if pool.lastOpening == begun { noteLateness() }
        }
        loop.startTask { [self] in
            do {
                let stream = try await TLSConnection.connect(
                    host: endpoint.host, port: endpoint.port, context: tls.context(), loop: loop,
                    deadline: loop.now + settings.connectTime, resuming: tls.sessions, doubts: pool.doubts
                ) { pool.doubts.note($0, now: loop.now) }
                connected(stream)
            } catch {
                pool.isConnecting = false
                pool.share.budget.history.failedAttempts += 1
                pool.share.giveBack()
                if let error = error as? TransportError { noteRefusedCertificate(error) }
                failed("\(error)")
            }
        }
    }

    /// Notes that a connection allows no pushes any more. Another one may.
    func becameShutOut() {
        noteLateness()
        openIfNeeded()
    }

    private func noteLateness() {
        let words = "no connection to \(endpoint) takes pushes after \(settings.readyTime)"
        if pool.noteLateness(words, now: loop.now) { capacityChanged() }
    }

    private func connected(_ stream: TLSConnection) {
        pool.share.budget.history.noteHandshake(isResumed: stream.isResumed)
        guard !pool.isClosed else {
            pool.isConnecting = false
            pool.share.giveBack()
            return stream.close()
        }
        let connection = begin(on: stream)
        // It counts as draining until it takes pushes. The share may close it at once, if its limit was lowered.
        pool.draining.append(connection)
        pool.share.note(connection, of: self)
        guard connection.freeSlots > 0 else { return }
        opened(connection)
        capacityChanged()
    }

    private func failed(_ error: String) {
        guard !pool.isAtRest else { return }
        if let downtime = pool.noteFailure(error, now: loop.now) { armAttempt(downtime.nextAttempt) }
        capacityChanged()
    }

    /// Opens a connection without waiting any longer because of earlier failures: their cause is gone.
    func tryAgainAtOnce() {
        pool.noteProved()
        openIfNeeded()
    }

    private func armAttempt(_ time: ContinuousClock.Instant) {
        let timer = pool.attemptTimer
        guard !pool.isClosed, timer?.isPending != true || timer?.deadline != time else { return }
        timer?.cancel()
        pool.attemptTimer = loop.schedule(after: loop.now.duration(to: time)) { [self] in openIfNeeded() }
    }
}

// MARK: - ConnectionDelegate

extension PoolingGateway {
    func opened(_ connection: Connection) {
        pool.noteOpened(connection)
        pool.share.budget.history.opened += 1
        // The connection may have no free slots.
        openIfNeeded()
    }

    func reached() { pool.noteReached() }

    func startedDraining(_ connection: Connection, _ ending: ConnectionEnding) {
        let wasIdle = isIdle(connection)
        pool.noteDraining(connection)
        pool.share.budget.history.noteEnded(ending)
        guard !pool.isClosed else { return }
        if connection.hasAnswered { pool.refusedHandshakes = 0 }
        let hasLasted = hasLasted(connection)
        if hasLasted { pool.noteProved() }
        switch ending {
        case .retired where wasIdle, .asked where wasIdle, .closed where wasIdle, .closedByPush where wasIdle:
            replace(connection)
        case .retired(let answers):
            pool.noteRetired(connection, isShortLived: !hasLasted, answers: answers, settings, now: loop.now)
            replace(connection)
        case .unneeded: pool.isWanted = !pool.open.isEmpty
        case .silent:
            if !connection.hasAnswered { tls.sessions.dropAll() }
            replace(connection)
        case .usedUp:
            pool.noteProved()
            replace(connection)
        case .spoilt(let served, let isRepeated), .closedByPush(let served, let isRepeated):
            pool.noteRetired(
                connection, isShortLived: !hasLasted, answers: served, isOfPush: isRepeated, settings, now: loop.now)
            replace(connection)
        case .asked(let words), .closed(let words), .failed(let words):
            if !connection.hasAnswered, !connection.hasAdmittedRequests { doubtAddress(of: connection) }
            guard !hasLasted else { return replace(connection) }
            // The session that this connection resumed may be the cause, so the next one does not resume any.
            if !connection.hasAnswered && !connection.hasAdmittedRequests { tls.sessions.dropAll() }
            failed(words)
            openIfNeeded()
        }
    }

    private func hasLasted(_ connection: Connection) -> Bool {
        connection.hasAnswered && connection.openedAt.duration(to: loop.now) >= settings.stableTime
    }

    /// Whether a connection that may take pushes has had nothing to do for a while, up to now or up to the pushes in
    /// flight.
    private func isIdle(_ connection: Connection) -> Bool {
        let isResting =
            connection.inFlightCount == 0 && connection.lastRequest.duration(to: loop.now) >= settings.quietTime
        return (isResting || connection.isBeingWoken)
            && !connection.isShutOut && pool.open.contains { $0 === connection }
    }

    /// Opens another connection at once, if something was sent over this one recently or there is something to send.
    private func replace(_ connection: Connection) {
        let isAskedFor = pool.lastAsked.map { $0 > connection.lastRequest } ?? false
        let wasUsed = connection.hasAnswered || connection.lastRequest > connection.openedAt
        let isRecent = connection.lastRequest.duration(to: loop.now) < settings.stableTime
        pool.isWanted = isAskedFor || wasUsed && isRecent
        openIfNeeded()
    }

    func closed(_ connection: Connection) {
        pool.noteClosed(connection)
        guard !pool.isClosed, connection.hasAdmittedRequests, !connection.hasAnswered else { return }
        doubtAddress(of: connection)
        failed("\(endpoint) ended a connection in order, and answered none of its requests")
    }

    func deliver(_ answers: [Answer]) {
        pool.isShort = false
        handler?.answered(answers, by: self)
    }

    func capacityChanged() {
        if freeSlots > 0 { pool.isShort = false }
        handler?.capacityChanged(of: self)
    }

    /// Makes connection attempts try the address of this useless connection last from now on.
    func doubtAddress(of connection: Connection) {
        if let address = connection.address { pool.doubts.note(address, now: loop.now) }
    }

    func lost(_ reason: String, uncertain count: Int) { handler?.connectionLost(reason, uncertain: count, by: self) }

    func credentialRefused(_ reason: Reason, _ detail: String, over connection: Connection) {
        handler?.credentialRefused(reason, detail: detail, connectedAt: connection.openedAt, by: self)
    }

    /// Reports a refused certificate. A server refuses the client's certificate by an alert, in the handshake or after
    /// it.
    func noteRefusedCertificate(_ error: TransportError) {
        guard isAuthenticatedByCertificate else { return }
        guard case .tls(_, .alert(let alert)) = error, alert.mayBeAboutCertificate else {
            pool.refusedHandshakes = 0
            return
        }
        pool.refusedHandshakes += 1
        guard alert.isAboutCertificate || pool.refusedHandshakes >= Self.refusedHandshakesThatTell else { return }
        pool.refusedHandshakes = 0
        handler?.credentialRefused(
            .named("BadCertificate"), detail: error.description, connectedAt: loop.now, by: self)
    }

    /// After this many connections in a row, an alert that may mean something else counts as the certificate's fault.
    private static var refusedHandshakesThatTell: Int { 3 }
}
