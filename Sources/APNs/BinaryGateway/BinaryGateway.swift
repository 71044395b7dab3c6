package import Cryptography
package import QueueCore
package import Transport

/// The binary interface: a pool of connections that share one endpoint and one provider certificate. The certificate
/// determines the app.
///
/// Apple switched its own servers off on 31 March 2021; this gateway is for compatible services and the simulator.
/// Success is silence: a push counts as delivered if no error comes within the grace of ``BinarySettings``. An error
/// names the push at fault and ends the connection; the pushes after it are sent again over the next one.
package final class BinaryGateway: PoolingGateway, BinaryConnectionDelegate {
    package let confirmsBySilence = true
    package weak var handler: (any PushGatewayHandler)?
    package let endpoint: Endpoint
    package let loop: EventLoop
    let settings: GatewaySettings
    let binary: BinarySettings
    let tls: ClientTLS
    let isAuthenticatedByCertificate = true
    var openingInterval: Duration { binary.openingInterval }
    let pool: ConnectionPool<BinaryConnection>
    /// All connections share it, since the errors of one show how good the tokens of the others are.
    private let windowSize: WindowSize
    /// Errors for identifiers that were never sent.
    private var unknownIdentifierCount = 0
    /// The first identifier of a new connection; a test starts near 2^32 - 1.
    private let firstIdentifier: UInt32

    /// Answers to pushes that were not sent, because the interface cannot carry them. They are delivered at the end of
    /// the turn.
    private var refused: [Answer] = []
    private var refusals: [Reason: Refusal] = [:]

    /// Opens no connection yet. Throws if the system's authorities are needed and cannot be read.
    /// - Parameters:
    ///   - identity: evaluated when a connection is made and no other is open, since thousands of open certificates
    ///     take much memory.
    ///   - share: the connections that it shares with other gateways of the loop; nil if it shares none.
    package init(
        endpoint: Endpoint, identity: @escaping @autoclosure () throws -> TLSIdentity,
        settings: GatewaySettings = GatewaySettings(),
        binary: BinarySettings = BinarySettings(), loop: EventLoop, share: ConnectionShare? = nil,
        firstIdentifier: UInt32 = 1
    ) throws(CryptographyError) {
        self.endpoint = endpoint
        self.settings = settings
        self.binary = binary
        self.loop = loop
        self.firstIdentifier = firstIdentifier
        let pool = ConnectionPool<BinaryConnection>(settings, share: share, loop: loop)
        self.pool = pool
        tls = try ClientTLS(
            to: endpoint.host, sessionLimit: pool.share.budget.sessionLimit, trusting: endpoint.authorities,
            identity: identity, applicationProtocol: nil)
        windowSize = WindowSize(maximum: binary.windowSize)
    }

    package func send(
        _ push: PreparedPush, to token: Span<UInt8>, apnsID: APNsID, losses: Int, wasRefused: Bool,
        ticket: UInt64
    ) -> Bool {
        if let reason = binary.command.obstacle(to: push) {
            refuse(ticket, reason)
            return true
        }
        guard let connection = pool.open.first(where: { $0.takes(pushLost: losses) }) else {
            if losses > 0 { pool.open.first { $0.freeSlots > 0 }?.keepFree(forPushLost: losses) }
            requestCapacity()
            return false
        }
        connection.send(push, to: token, losses: losses, ticket: ticket)
        return true
    }

    func begin(on stream: TLSConnection) -> BinaryConnection {
        BinaryConnection(
            stream: stream, gateway: self, settings: settings, binary: binary, windowSize: windowSize,
            firstIdentifier: firstIdentifier)
    }

    func noteUnknownIdentifier() -> Int {
        unknownIdentifierCount += 1
        return unknownIdentifierCount
    }

    func errorCameLate(thrownAway count: Int) {
        if count > 0 { handler?.deliveredTooSoon(count, by: self) }
    }

    private func refuse(_ ticket: UInt64, _ reason: Reason) {
        let refusal = refusals[reason] ?? Refusal(status: reason.row.status, text: reason.text)
        refusals[reason] = refusal
        refused.append(Answer(ticket: ticket, result: .refused(refusal), sentAt: loop.nowNanoseconds))
        // The handler must not be called from within a send.
        guard refused.count == 1 else { return }
        loop.atEndOfTurn { [self] in
            let batch = refused
            refused = []
            deliver(batch)
        }
    }
}
