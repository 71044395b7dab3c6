package import Cryptography
import FoundationEssentials
import HTTP2
package import QueueCore
package import Transport

/// Who hears from a gateway. Called on the loop's thread; sending from within is allowed.
package protocol HTTP2GatewayHandler: AnyObject {
    /// What became of requests: one batch for each read burst of a connection, or for its loss. The array is used again afterwards;
    /// who keeps it makes the gateway allocate another.
    func answered(_ answers: [Answer], by gateway: HTTP2Gateway)

    /// There are free slots where there were none, or the gateway's ``HTTP2Gateway/state`` has changed.
    func capacityChanged(of gateway: HTTP2Gateway)

    /// The server ended a connection because of the credential, not of a request.
    func credentialRefused(_ reason: Reason, detail: String, by gateway: HTTP2Gateway)
}

/// Today's provider API: a pool of HTTP/2 connections that share one endpoint and one credential.
///
/// A plain object of its loop: requests go in by ``send(_:to:apnsID:body:ticket:)``, answers come back in batches, and the
/// output of all requests of a turn goes out together. Connections open when capacity is wanted, grow in number only
/// while all are saturated, are replaced when the server asks for it, and close when idle. After failures the gateway itself tries
/// again, ever more seldom; ``state`` says so, and nothing need be leased in vain meanwhile.
///
/// A gateway keeps itself alive until it is closed or drained.
package final class HTTP2Gateway {
    /// What stands for the sender.
    package enum Credential: Sendable {
        /// A provider token, at first this one.
        case token(ProviderToken)
        /// A provider certificate.
        case certificate(TLSIdentity)
    }

    package enum State: Equatable, Sendable {
        /// No connection, and none is wanted yet.
        case idle
        case connecting
        case open
        case unreachable(Outage)
        case closed
    }

    /// Who is told; not kept alive.
    package weak var handler: (any HTTP2GatewayHandler)?
    package let endpoint: Endpoint
    package let loop: EventLoop
    private let settings: GatewaySettings
    private let context: TLSContext
    private let isAuthenticatedByCertificate: Bool
    private var authorization: Authorization

    /// Those that may take requests, the oldest first, and those that only await answers.
    private var connections: [GatewayConnection] = []
    private var draining: [GatewayConnection] = []
    private var isConnecting = false
    private var isWanted = false
    private var isClosed = false
    private var lastOpening: ContinuousClock.Instant?
    private var reachability: Reachability
    private var attemptTimer: Transport.Timer?
    private var drained: Waiter<Bool>?
    private var generator = SystemRandomNumberGenerator()
    /// Where a new connection starts to count its streams; a test starts near the end.
    private let firstStreamID: UInt32

    /// Opens nothing yet. Throws when the certificate or an authority cannot be used.
    package init(
        endpoint: Endpoint, credential: Credential, settings: GatewaySettings = GatewaySettings(), loop: EventLoop,
        firstStreamID: UInt32 = 1
    ) throws(CryptographyError) {
        let (token, identity): (ProviderToken?, TLSIdentity?) =
            switch credential {
            case .token(let token): (token, nil)
            case .certificate(let identity): (nil, identity)
            }
        self.endpoint = endpoint
        self.settings = settings
        self.loop = loop
        self.firstStreamID = firstStreamID
        isAuthenticatedByCertificate = identity != nil
        context = try .client(trusting: endpoint.authorities, identity: identity)
        authorization = Authorization(authority: endpoint.authority, token: token)
        reachability = Reachability(backoff: settings.backoff)
    }

    // MARK: State

    package var state: State {
        if isClosed { return .closed }
        if !connections.isEmpty { return .open }
        if let outage = reachability.outage { return .unreachable(outage) }
        return isConnecting ? .connecting : .idle
    }

    /// How many requests ``send(_:to:apnsID:body:ticket:)`` takes now.
    package var freeSlots: Int {
        connections.reduce(0) { $0 + $1.freeSlots }
    }

    /// How many requests wait for their answers.
    package var inFlightCount: Int {
        (connections + draining).reduce(0) { $0 + $1.http.openStreamCount }
    }

    /// How many connections are open, those that are only being drained included.
    package var connectionCount: Int { connections.count + draining.count }

    // MARK: Sending

    /// Sends a push to one device.
    /// - Parameters:
    ///   - token: the bytes of the device token.
    ///   - body: for this recipient alone; nil for the push's own.
    ///   - ticket: comes back with the answer, exactly once.
    /// - Returns: false when there is no free slot; then nothing was sent, and ``HTTP2GatewayHandler/capacityChanged(of:)``
    ///   or an answer tells when to try again.
    package func send(
        _ push: PreparedPush, to token: Span<UInt8>, apnsID: APNsID, body: [UInt8]? = nil, ticket: UInt64
    ) -> Bool {
        guard let connection = connections.first(where: { $0.freeSlots > 0 }) else {
            requestCapacity()
            return false
        }
        connection.send(
            push, push.headers(for: authorization), to: token, apnsID: apnsID, body: body ?? push.body, ticket: ticket)
        return true
    }

    /// Says that there is more to send than there are free slots: opens the first connection, or another one when all are
    /// saturated. Costs little; may be called again and again.
    package func requestCapacity() {
        guard !isClosed else { return }
        isWanted = true
        openIfNeeded()
    }

    /// Uses another provider token from the next request on.
    package func use(_ token: ProviderToken) {
        authorization = Authorization(authority: endpoint.authority, token: token)
    }

    // MARK: Closing

    /// Opens nothing more, awaits what is in flight until `deadline`, then closes. To be called on the loop.
    package func drain(until deadline: ContinuousClock.Instant) async {
        guard !isClosed else { return }
        isClosed = true
        attemptTimer?.cancel()
        for connection in connections { connection.retire(.unneeded) }
        for connection in draining where !connection.isBusy { connection.close() }
        if !draining.isEmpty {
            let waiter = Waiter<Bool>(loop: loop)
            drained = waiter
            _ = await waiter.wait(until: deadline)
        }
        closeAll()
    }

    /// Closes all connections at once; what is in flight is reported as unanswered or untouched. Twice is as good as once.
    package func close() {
        isClosed = true
        attemptTimer?.cancel()
        closeAll()
    }

    private func closeAll() {
        for connection in connections + draining { connection.close() }
    }

    // MARK: Opening

    private func openIfNeeded() {
        guard isWanted, !isClosed, !isConnecting, connections.count < settings.maximumConnections,
            connections.allSatisfy({ $0.freeSlots == 0 })
        else { return }
        if let outage = reachability.outage, loop.now < outage.nextAttempt { return armAttempt(outage.nextAttempt) }
        if let newest = connections.last, let lastOpening {
            // Before its first answer nobody knows how many streams a connection will carry.
            guard newest.hasAnswered, lastOpening.duration(to: loop.now) >= settings.growthInterval else { return }
        }
        connect()
    }

    private func connect() {
        isConnecting = true
        lastOpening = loop.now
        loop.startTask { [self] in
            do throws(TransportError) {
                let stream = try await TLSConnection.connect(
                    host: endpoint.host, port: endpoint.port, context: context, loop: loop,
                    deadline: loop.now + settings.connectTime)
                connected(stream)
            } catch {
                isConnecting = false
                noteRefusedCertificate(error)
                failed(error.description)
            }
        }
    }

    private func connected(_ stream: TLSConnection) {
        guard !isClosed else {
            isConnecting = false
            return stream.close()
        }
        // It is one of the draining until its SETTINGS have come: it takes no requests yet.
        draining.append(
            GatewayConnection(stream: stream, gateway: self, settings: settings, firstStreamID: firstStreamID))
    }

    private func failed(_ error: String) {
        reachability.failed(error, now: loop.now, using: &generator)
        if let outage = reachability.outage { armAttempt(outage.nextAttempt) }
        capacityChanged()
    }

    private func armAttempt(_ time: ContinuousClock.Instant) {
        guard !isClosed, attemptTimer?.isPending != true || attemptTimer?.deadline != time else { return }
        attemptTimer?.cancel()
        attemptTimer = loop.schedule(after: loop.now.duration(to: time)) { [self] in openIfNeeded() }
    }
}

// MARK: - Told by connections

extension HTTP2Gateway {
    /// The server's first SETTINGS have come.
    func opened(_ connection: GatewayConnection) {
        isConnecting = false
        draining.removeAll { $0 === connection }
        connections.append(connection)
        reachability.reached()
    }

    /// The connection takes no more requests. The next one is opened before this one is gone, unless it did not last.
    func retired(_ connection: GatewayConnection, _ ending: GatewayConnection.Ending) {
        if !connections.contains(where: { $0 === connection }) { isConnecting = false }
        connections.removeAll { $0 === connection }
        if !draining.contains(where: { $0 === connection }) { draining.append(connection) }
        guard !isClosed else { return }
        switch ending {
        case .unneeded: isWanted = !connections.isEmpty
        case .asked(let words), .failed(let words):
            let hasLasted =
                connection.hasAnswered && connection.openedAt.duration(to: loop.now) >= settings.stableTime
            if hasLasted {
                reachability.proved()
                isWanted = connection.lastRequest.duration(to: loop.now) < settings.stableTime
            } else {
                failed(words)
            }
            openIfNeeded()
        }
    }

    func closed(_ connection: GatewayConnection) {
        connections.removeAll { $0 === connection }
        draining.removeAll { $0 === connection }
        if draining.isEmpty, connections.isEmpty { drained?.resume(true) }
    }

    func deliver(_ answers: [Answer]) {
        handler?.answered(answers, by: self)
    }

    func capacityChanged() {
        handler?.capacityChanged(of: self)
    }

    func credentialRefused(_ reason: Reason, _ detail: String) {
        handler?.credentialRefused(reason, detail: detail, by: self)
    }

    /// A server that refuses the client's certificate says so by an alert, in the handshake or after it.
    func noteRefusedCertificate(_ error: TransportError) {
        guard isAuthenticatedByCertificate, case .tls(_, .alert) = error else { return }
        credentialRefused(.named("BadCertificate"), error.description)
    }

    /// Seconds since 1970, for dates in answers.
    func wallClock() -> Int64 {
        Int64(Date().timeIntervalSince1970)
    }
}
