package import Cryptography
import FoundationEssentials
import HTTP2
package import QueueCore
package import Transport

/// Today's provider API: a pool of HTTP/2 connections that share one endpoint and one credential.
///
/// The output of all requests of a turn goes out together. Connections open when capacity is wanted, grow in number only
/// while all are saturated, are replaced when the server asks for it, and close when idle.
package final class HTTP2Gateway: PushGateway {
    /// What stands for the sender.
    package enum Credential: Sendable {
        /// A provider token, at first this one.
        case token(ProviderToken)
        /// A provider certificate.
        case certificate(TLSIdentity)
    }

    package weak var handler: (any PushGatewayHandler)?
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

    package var state: GatewayState {
        if isClosed { return .closed }
        if !connections.isEmpty { return .open }
        if let outage = reachability.outage { return .unreachable(outage) }
        return isConnecting ? .connecting : .idle
    }

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

    package func send(
        _ push: PreparedPush, to token: Span<UInt8>, apnsID: APNsID, body: [UInt8]?, ticket: UInt64
    ) -> Bool {
        guard let connection = connections.first(where: { $0.freeSlots > 0 }) else {
            requestCapacity()
            return false
        }
        connection.send(
            push, push.headers(for: authorization), to: token, apnsID: apnsID, body: body ?? push.body, ticket: ticket)
        return true
    }

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
