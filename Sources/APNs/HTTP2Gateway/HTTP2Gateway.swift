package import Cryptography
import HTTP2
package import QueueCore
package import Transport

/// Today's provider API: a pool of HTTP/2 connections that share one endpoint and one credential.
///
/// A connection writes the output of all requests of a turn together. A connection is replaced when the server asks for
/// it.
package final class HTTP2Gateway: PoolingGateway, GatewayConnectionDelegate {
    /// What authenticates the sender.
    package enum Credential: Sendable {
        /// A provider token; it can be replaced later.
        case token(ProviderToken)
        /// A provider certificate.
        case certificate(TLSIdentity)
    }

    package let confirmsBySilence = false
    package weak var handler: (any PushGatewayHandler)?
    package let endpoint: Endpoint
    package let loop: EventLoop
    let settings: GatewaySettings
    let tls: ClientTLS
    let isAuthenticatedByCertificate: Bool
    let pool: ConnectionPool<HTTP2PushConnection>
    private var authorization: Authorization
    /// The provider token; nil for a certificate.
    private var token: ProviderToken?
    /// Whether APNs ended a connection because it calls this token expired.
    private var isTokenRefused = false
    /// When a connection that is closed now last served a push, and last had an answer, by the clock of the streams.
    private var servedByClosed: UInt64 = 0
    private var answeredByClosed: UInt64 = 0
    /// The last reported silence: since when nothing was answered, by the same clock; 0 if none was reported.
    private var silentSince: UInt64 = 0
    /// When the last pushes that were never lost before went unanswered, by the same clock: one more than may be at
    /// fault themselves.
    private var firstLosses: [UInt64] = []
    /// The first stream of a new connection; a test starts near the last possible one.
    private let firstStreamID: UInt32

    /// Opens no connection yet. Throws if the system's authorities are needed and cannot be read.
    /// - Parameter share: the connections that it shares with other gateways of the loop; nil if it shares none.
    package convenience init(
        endpoint: Endpoint, credential: Credential, settings: GatewaySettings = GatewaySettings(), loop: EventLoop,
        share: ConnectionShare? = nil, firstStreamID: UInt32 = 1
    ) throws(CryptographyError) {
        let (token, identity): (ProviderToken?, (() throws -> TLSIdentity)?) =
            switch credential {
            case .token(let token): (token, nil)
            case .certificate(let identity): (nil, { identity })
            }
        try self.init(
            endpoint: endpoint, token: token, identity: identity, settings: settings, loop: loop, share: share,
            firstStreamID: firstStreamID)
    }

    /// The same with a provider certificate. The gateway calls `certificate` to open it when a connection is made and
    /// no other is open, since thousands of open certificates take much memory.
    package convenience init(
        endpoint: Endpoint, certificate: @escaping () throws -> TLSIdentity, settings: GatewaySettings, loop: EventLoop,
        share: ConnectionShare? = nil
    ) throws(CryptographyError) {
        try self.init(
            endpoint: endpoint, token: nil, identity: certificate, settings: settings, loop: loop, share: share,
            firstStreamID: 1)
    }

    private init(
        endpoint: Endpoint, token: ProviderToken?, identity: (() throws -> TLSIdentity)?, settings: GatewaySettings,
        loop: EventLoop, share: ConnectionShare?, firstStreamID: UInt32
    ) throws(CryptographyError) {
        self.endpoint = endpoint
        self.settings = settings
        self.loop = loop
        self.firstStreamID = firstStreamID
        isAuthenticatedByCertificate = identity != nil
        let pool = ConnectionPool<HTTP2PushConnection>(settings, share: share, loop: loop)
        self.pool = pool
        tls = try ClientTLS(
            to: endpoint.host, sessionLimit: pool.share.budget.sessionLimit, trusting: endpoint.authorities,
            identity: identity, applicationProtocol: "h2")
        authorization = Authorization(authority: endpoint.authority, token: token)
        self.token = token
    }

    // MARK: Sending

    package func send(
        _ push: PreparedPush, to recipient: Span<UInt8>, apnsID: APNsID, losses: Int, wasRefused: Bool,
        ticket: UInt64
    ) -> Bool {
        guard let connection = connection(afterLosses: losses) else {
            if losses > 0 { pool.open.first { $0.freeSlots > 0 }?.keepFree(forPushLost: losses) }
            requestCapacity()
            return false
        }
        connection.send(
            push, push.headers(for: authorization), to: recipient, apnsID: apnsID,
            losses: losses, wasRefused: wasRefused, ticket: ticket)
        return true
    }

    /// Returns the oldest connection that takes the push. It returns one to a server in trouble only if there is no
    /// other. A push that was lost before goes over a connection that has lost none, if there is one.
    private func connection(afterLosses losses: Int) -> HTTP2PushConnection? {
        let isWell = { (connection: HTTP2PushConnection) in
            connection.takes(pushLost: losses) && connection.troublesInARow == 0
        }
        let preferred = losses > 0 ? pool.open.first { isWell($0) && $0.unansweredCount == 0 } : nil
        return preferred ?? pool.open.first(where: isWell) ?? pool.open.first { $0.takes(pushLost: losses) }
    }

    package func tryAnotherConnection() {
        // The caller may be in the middle of delivering an answer.
        loop.atEndOfTurn { [self] in
            // The server was in reach, and the owner waits by itself.
            pool.noteReached()
            // If a connection has refused nothing, the next push goes over that one anyway.
            guard pool.open.allSatisfy({ $0.troublesInARow > 0 }) else { return }
            for connection in pool.open {
                // The address of the other family may belong to another server.
                if connection.lastServed == 0 { doubtAddress(of: connection) }
                connection.drain(.unneeded)
                connection.closeIfDrained()
            }
        }
    }

    var lastAsked: ContinuousClock.Instant? { pool.lastAsked }

    func hasAnswer(after time: UInt64, otherThan connection: HTTP2PushConnection) -> Bool {
        pool.open.contains { $0 !== connection && $0.lastAnswer > time }
    }

    func hasServed(after time: UInt64, otherThan connection: HTTP2PushConnection) -> Bool {
        pool.open.contains { $0 !== connection && $0.lastServed > time && $0.troublesInARow == 0 }
    }

    var hasServedLately: Bool {
        let latest = lastServed
        return latest > 0 && .nanoseconds(loop.nowNanoseconds &- latest) < settings.stableTime
    }

    var servesOthers: Bool {
        let latest = lastServed
        return latest > 0 && firstLosses.count { $0 > latest } <= settings.toleratedFailures
    }

    /// When a push was last served, by the clock of the streams.
    private var lastServed: UInt64 {
        (pool.open + pool.draining).reduce(servedByClosed) { max($0, $1.lastServed) }
    }

    func noteFirstLoss() {
        firstLosses.append(loop.nowNanoseconds)
        if firstLosses.count > settings.toleratedFailures + 1 { firstLosses.removeFirst() }
    }

    func noteClosing(served: UInt64, answered: UInt64) {
        servedByClosed = max(servedByClosed, served)
        answeredByClosed = max(answeredByClosed, answered)
    }

    func wasSetAside(_ connection: HTTP2PushConnection, silentSince time: UInt64) {
        if !connection.hasAnswered { doubtAddress(of: connection) }
        if isSilent || lastAnswer <= time && areManyUnanswered {
            silentSince = max(silentSince, time)
            handler?.stoppedAnswering(sentAt: loop.now - .nanoseconds(loop.nowNanoseconds &- time), by: self)
        }
        openIfNeeded()
    }

    var isSilent: Bool { silentSince > 0 && lastAnswer <= silentSince }

    /// When anything was last answered, by the clock of the streams.
    private var lastAnswer: UInt64 {
        (pool.open + pool.draining).reduce(answeredByClosed) { max($0, $1.lastAnswer) }
    }

    /// Whether the pushes without an answer that were never lost before are more than may be at fault themselves: those
    /// in flight, and those that were given up since the last one was served.
    private var areManyUnanswered: Bool {
        let latest = lastServed
        let lost = firstLosses.count { $0 > latest }
        let waiting = (pool.open + pool.draining).reduce(0) { $0 + $1.inFlightCounts.first }
        return lost + waiting > settings.toleratedFailures
    }

    func streamsLeftOpen(_ detail: String) { handler?.streamsLeftOpen(detail, by: self) }

    func noteGoAway(_ code: ErrorCode) { pool.share.budget.history.noteGoAway(code) }

    func noteTokenRefused() { isTokenRefused = true }

    /// Uses another provider token from the next request on. If APNs ended connections because of the previous one, the
    /// next one is opened at once.
    package func use(_ token: ProviderToken) {
        guard token.text != self.token?.text else { return }
        authorization = Authorization(authority: endpoint.authority, token: token)
        self.token = token
        if isTokenRefused { tryAgainAtOnce() }
        isTokenRefused = false
    }

    func begin(on stream: TLSConnection) -> HTTP2PushConnection {
        HTTP2PushConnection(stream: stream, gateway: self, settings: settings, firstStreamID: firstStreamID)
    }
}
