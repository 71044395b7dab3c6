import Cryptography
import QueueCore
import Transport

/// A gateway whose connections open when capacity is wanted, grow in number only while all are saturated, are replaced when they
/// end, and close when idle: what is the same for every interface of APNs. A conformance says how a connection is begun.
protocol PoolingGateway: PushGateway, ConnectionSeeker {
    associatedtype Connection: PooledConnection

    var endpoint: Endpoint { get }
    var loop: EventLoop { get }
    var settings: GatewaySettings { get }
    /// The TLS of all connections.
    var tls: ClientTLS { get }
    var isAuthenticatedByCertificate: Bool { get }
    /// The least time from opening one connection to opening the next, where each one ends soon.
    var openingInterval: Duration { get }
    var pool: ConnectionPool<Connection> { get set }

    /// Takes over a stream whose handshake went well. A connection that takes no pushes yet calls ``opened(_:)`` when it does.
    func begin(on stream: TLSConnection) -> Connection
}

// MARK: - PushGateway

extension PoolingGateway {
    var openingInterval: Duration { .zero }

    package var state: GatewayState { pool.state }

    package var freeSlots: Int {
        pool.open.reduce(0) { $0 + $1.freeSlots }
    }

    /// How many pushes wait for their outcome.
    package var inFlightCount: Int {
        (pool.open + pool.draining).reduce(0) { $0 + $1.inFlightCount }
    }

    /// How many connections are open, those that are only being drained included.
    package var connectionCount: Int { pool.open.count + pool.draining.count }

    package func requestCapacity() {
        guard !pool.isClosed else { return }
        pool.isWanted = true
        pool.lastAsked = loop.now
        openIfNeeded()
    }

    package func drain(until deadline: ContinuousClock.Instant) async {
        guard !pool.isClosed else { return }
        pool.isClosed = true
        pool.attemptTimer?.cancel()
        for connection in pool.open { connection.retire(.unneeded) }
        for connection in pool.draining where connection.inFlightCount == 0 { connection.close() }
        if !pool.draining.isEmpty {
            let waiter = Waiter<Bool>(loop: loop)
            pool.drained = waiter
            _ = await waiter.wait(until: deadline)
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
    private func openIfNeeded() {
        guard wantsConnection else { return }
        if let nextAttempt { return armAttempt(nextAttempt) }
        if mayGrow { pool.budget.seek(self) }
    }

    /// When the next connection may be opened; nil for now.
    private var nextAttempt: ContinuousClock.Instant? {
        if let outage = pool.reachability.outage, loop.now < outage.nextAttempt { return outage.nextAttempt }
        guard let next = pool.lastOpening.map({ $0 + openingInterval }), loop.now < next else { return nil }
        return next
    }

    private var wantsConnection: Bool {
        pool.isWanted && !pool.isClosed && !pool.isConnecting && pool.open.count < settings.maximumConnections
            && pool.open.allSatisfy { $0.freeSlots == 0 }
    }

    /// Before its first answer nobody knows how many streams a connection will carry.
    private var mayGrow: Bool {
        guard let newest = pool.open.last, let lastOpening = pool.lastOpening else { return true }
        return newest.hasAnswered && lastOpening.duration(to: loop.now) >= settings.growthInterval
    }

    var seeksConnection: Bool { wantsConnection && nextAttempt == nil && mayGrow }

    func connect() {
        pool.isConnecting = true
        pool.lastOpening = loop.now
        loop.startTask { [self] in
            do {
                let stream = try await TLSConnection.connect(
                    host: endpoint.host, port: endpoint.port, context: tls.context(), loop: loop,
                    deadline: loop.now + settings.connectTime)
                connected(stream)
            } catch {
                pool.isConnecting = false
                pool.budget.giveBack()
                if let error = error as? TransportError { noteRefusedCertificate(error) }
                failed("\(error)")
            }
        }
    }

    private func connected(_ stream: TLSConnection) {
        guard !pool.isClosed else {
            pool.isConnecting = false
            pool.budget.giveBack()
            return stream.close()
        }
        let connection = begin(on: stream)
        pool.budget.note(connection)
        // It is one of the draining until it takes pushes.
        pool.draining.append(connection)
        guard connection.freeSlots > 0 else { return }
        opened(connection)
        capacityChanged()
    }

    private func failed(_ error: String) {
        if let outage = pool.noteFailure(error, now: loop.now) { armAttempt(outage.nextAttempt) }
        capacityChanged()
    }

    private func armAttempt(_ time: ContinuousClock.Instant) {
        let timer = pool.attemptTimer
        guard !pool.isClosed, timer?.isPending != true || timer?.deadline != time else { return }
        timer?.cancel()
        pool.attemptTimer = loop.schedule(after: loop.now.duration(to: time)) { [self] in openIfNeeded() }
    }
}

// MARK: - Told by connections

extension PoolingGateway {
    /// The connection takes pushes from now on.
    func opened(_ connection: Connection) { pool.noteOpened(connection) }

    /// The connection takes no more pushes. The next one is opened before this one is gone, unless it did not last.
    func retired(_ connection: Connection, _ ending: ConnectionEnding) {
        pool.noteRetired(connection)
        guard !pool.isClosed else { return }
        let hasLasted = connection.hasAnswered && connection.openedAt.duration(to: loop.now) >= settings.stableTime
        if hasLasted { pool.noteProved() }
        switch ending {
        case .unneeded: pool.isWanted = !pool.open.isEmpty
        case .usedUp:
            pool.noteProved()
            replace(connection)
        case .asked(let words), .failed(let words):
            guard !hasLasted else { return replace(connection) }
            failed(words)
            openIfNeeded()
        }
    }

    /// Another one takes its place at once, if there was something to send of late, or there is.
    private func replace(_ connection: Connection) {
        let isAskedFor = pool.lastAsked.map { $0 > connection.lastRequest } ?? false
        pool.isWanted = isAskedFor || connection.lastRequest.duration(to: loop.now) < settings.stableTime
        openIfNeeded()
    }

    func closed(_ connection: Connection) { pool.noteClosed(connection) }

    func deliver(_ answers: [Answer]) { handler?.answered(answers, by: self) }

    func capacityChanged() { handler?.capacityChanged(of: self) }

    func credentialRefused(_ reason: Reason, _ detail: String) {
        handler?.credentialRefused(reason, detail: detail, by: self)
    }

    /// A server that refuses the client's certificate says so by an alert, in the handshake or after it.
    func noteRefusedCertificate(_ error: TransportError) {
        guard isAuthenticatedByCertificate, case .tls(_, .alert(let alert)) = error, alert.isAboutCertificate else {
            return
        }
        credentialRefused(.named("BadCertificate"), error.description)
    }
}
