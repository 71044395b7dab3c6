import APNs
import Cryptography
import PostgresStore
import QueueCore
import Transport

/// The gateways of this worker. It opens them, and drains those that no queue uses any more. ``GatewayTable`` decides
/// which gateway serves which use.
///
/// Belongs to the engine's event loop.
final class Gateways {
    private struct Entry {
        let route: GatewayRoute
        /// Nil for a certificate.
        let renewal: TokenRenewal?

        /// - Parameter isForBroadcasts: such a gateway's jobs are sent in their order, also those that try whether APNs
        ///   accepts pushes again.
        init(
            _ gateway: any PushGateway, renewal: TokenRenewal? = nil, recoveryTime: Duration, isForBroadcasts: Bool
        ) {
            let breaker = Breaker(timeOfRecovery: recoveryTime, choosesProbes: !isForBroadcasts)
            route = GatewayRoute(gateway, Circuit(breaker))
            self.renewal = renewal
        }
    }

    private let loop: EventLoop
    private let store: RetryingConnection
    private let tokenKeeper: RetryingConnection?
    private let settings: EngineSettings
    private let masterKeys: MasterKeys?
    private let report: (EngineEvent) -> Void
    private let budget: ConnectionBudget
    /// The connections of each tenant.
    private var shares: [Int32: ConnectionShare] = [:]
    private let signal: Signal
    private var table = GatewayTable<Entry>()
    private var notices = DowntimeNotices()
    /// Gateways that no queue uses any more, and that wait for their last answers.
    private var replaced: [any PushGateway] = []
    private var isStopping = false
    /// Whether it was reported that a drain cannot end cleanly.
    private var hasWarnedOfDrain = false

    /// Receives the answers of all gateways, and learns when a gateway has room again.
    weak var handler: (any PushGatewayHandler)?

    init(_ context: EngineContext) {
        loop = context.loop
        store = context.postgres.claims
        tokenKeeper = context.postgres.tokens
        settings = context.settings
        masterKeys = context.masterKeys
        report = context.report
        budget = ConnectionBudget(limit: settings.maximumConnections, loop: loop)
        signal = Signal(loop: loop)
    }

    /// The maximum number of connections that all gateways together may hold.
    var connectionLimit: Int { budget.limit }

    /// Limits the number of connections that all gateways together may hold.
    func limitConnections(to limit: Int) { budget.limit = limit }

    /// The route for the current credential of a queue; nil if the queue has no usable credential.
    /// - Parameter broadcasts: asks for the route to the host for broadcasts alone. The result is then also nil where
    ///   there is no such host.
    func route(for queue: QueueSettings, broadcasts: Bool = false) async -> GatewayRoute? {
        guard let credential = queue.credential, let use = GatewayUse(queue, isForBroadcasts: broadcasts),
            !broadcasts || hasBroadcastHost(queue)
        else { return nil }
        shares[queue.tenantID]?.limit = queue.tenantConnections ?? .max
        switch table.find(use, now: .now) {
        case .open(let entry): return entry.route
        case .unusable: return nil
        case .unopened: break
        }
        do {
            return try await open(credential, for: queue, use)
        } catch let error as PostgresError where error.isTransient {
            return nil
        } catch {
            if table.noteUnusable(use, because: "\(error)", now: .now) {
                report(.credentialUnreadable(queue: queue.name.description, reason: "\(error)"))
            }
            return nil
        }
    }

    /// Why this worker cannot use the credential of a queue; nil if it was not tried, or can be used.
    func fault(of queue: QueueSettings) -> String? { GatewayUse(queue).flatMap(table.fault) }

    /// Whether there is a credential that cannot be used.
    var hasFaults: Bool { table.hasFaults }

    /// What the answers over a gateway say about APNs; nil for a gateway that was replaced.
    func circuit(of gateway: any PushGateway) -> Circuit? {
        entry(of: gateway)?.route.circuit
    }

    /// Drains the gateways that none of `queues` uses any more.
    func keepOnly(usedBy queues: some Sequence<QueueState>) {
        var uses: [GatewayUse] = []
        for settings in queues.lazy.map(\.settings) {
            if let use = GatewayUse(settings) { uses.append(use) }
            if hasBroadcastHost(settings), let use = GatewayUse(settings, isForBroadcasts: true) { uses.append(use) }
        }
        for entry in table.keepOnly(uses) { drain(entry.route.gateway) }
        let tenants = Set(uses.map(\.tenantID))
        shares = shares.filter { tenants.contains($0.key) }
    }

    /// What has happened to the connections of all gateways, and what they do now.
    var connectionFigures: ConnectionFigures { budget.figures }

    /// What to report about the state of a gateway; nil if there is nothing to report.
    func noteState(of gateway: any PushGateway) -> DowntimeNotices.News? {
        notices.note(
            gateway.state, of: ObjectIdentifier(gateway), isOutage: circuit(of: gateway)?.isClosed == false)
    }

    /// Notes that a gateway rests, also if an attempt to connect is still under way. One at rest is not out of reach.
    /// If it is when a queue continues, that is news, and the queue's jobs go back.
    func noteRest(of gateway: any PushGateway) { notices.forget(ObjectIdentifier(gateway)) }

    private func drain(_ gateway: any PushGateway) {
        replaced.append(gateway)
        loop.startTask { [self] in
            // Not for the worker's `--drain`, which is short where workers are replaced often: this one goes on.
            await gateway.drain()
            replaced.removeAll { $0 === gateway }
            notices.forget(ObjectIdentifier(gateway))
            signal.raise()
        }
    }

    /// Notes that APNs calls the provider token of this gateway expired.
    func noteExpiredToken(of gateway: any PushGateway) {
        if entry(of: gateway)?.renewal?.upkeep.noteExpired(now: .now) == true { signal.raise() }
    }

    /// Notes that APNs says that the provider tokens of this gateway are replaced too often.
    func noteTooManyTokens(of gateway: any PushGateway) {
        guard let renewal = entry(of: gateway)?.renewal else { return }
        renewal.upkeep.noteTooMany()
        signal.raise()
    }

    /// Keeps provider tokens fresh until ``stop()``, and until all replaced gateways are drained or closed.
    func run() async {
        while !isStopping || !replaced.isEmpty {
            await signal.wait(atMost: settings.tokenPoll)
            for entry in Array(table.entries) where !isStopping { await entry.renewal?.renew() }
        }
    }

    func stop() {
        isStopping = true
        signal.raise()
    }

    /// Closes every connection. Pushes in flight are reported as unanswered.
    func closeAll() {
        for gateway in table.close().map(\.route.gateway) + replaced { gateway.close() }
    }

    private func entry(of gateway: any PushGateway) -> Entry? {
        table.entries.first { $0.route.gateway === gateway }
    }

    // MARK: Opening

    /// Whether a queue's broadcasts go to another host than its pushes to devices. The binary interface has no
    /// broadcasts.
    func hasBroadcastHost(_ queue: QueueSettings) -> Bool {
        settings.broadcastEndpoint != nil && queue.gateway == .http2
    }

    /// Opens the credential, and creates a gateway for it unless another credential with the same secret has one.
    private func open(
        _ credential: StoredCredential, for queue: QueueSettings, _ use: GatewayUse
    ) async throws -> GatewayRoute? {
        let opened = try OpenedCredential(credential, under: masterKeys)
        table.note(secret: opened.holder, of: use.credential)
        if case .open(let entry) = table.find(use, now: .now) { return entry.route }
        let entry = try await makeEntry(opened, for: queue, broadcasts: use.isForBroadcasts)
        // While this call waited for the database, another queue may have created the gateway, or all may have been
        // closed.
        switch table.insert(entry, for: use) {
        case .inserted: return entry.route
        case .superseded(let other):
            entry.route.gateway.close()
            return other.route
        case .tooLate:
            entry.route.gateway.close()
            return nil
        }
    }

    private func makeEntry(
        _ opened: OpenedCredential, for queue: QueueSettings, broadcasts: Bool
    ) async throws -> Entry {
        switch opened {
        case .certificate(let certificate) where queue.gateway == .binary:
            return Entry(
                try binaryGateway(certificate, for: queue), recoveryTime: settings.recoveryTime,
                isForBroadcasts: false)
        case .signer where queue.gateway == .binary: throw CredentialProblem.noCertificate
        case .certificate(let certificate):
            return Entry(
                try gateway(certificate, for: queue, broadcasts: broadcasts), recoveryTime: settings.recoveryTime,
                isForBroadcasts: broadcasts)
        case .signer(let signer):
            guard let masterKeys else { throw CredentialProblem.noMasterKey }
            let token = SharedToken(
                store: store, keeper: tokenKeeper, masterKeys: masterKeys, signer: signer,
                pollInterval: settings.tokenPoll, report: report)
            let gateway = try gateway(await token.current(), for: queue, broadcasts: broadcasts)
            let renewal = TokenRenewal(
                of: token, for: gateway, responseTime: settings.connections.responseTime)
            return Entry(
                gateway, renewal: renewal, recoveryTime: settings.recoveryTime, isForBroadcasts: broadcasts)
        }
    }

    private func binaryGateway(
        _ certificate: StoredCertificate, for queue: QueueSettings
    ) throws -> BinaryGateway {
        guard let endpoint = settings.binaryEndpoint(of: queue.name.environment) else {
            throw CredentialProblem.noBinaryGateway
        }
        warnOfDrain()
        var limits = limits(of: queue)
        // What a connection that ends has sent is confirmed by silence only after the grace.
        limits.drainTime = max(limits.drainTime, settings.binary.grace + .seconds(5))
        return adopt(
            try BinaryGateway(
                endpoint: endpoint, identity: certificate.identity(), settings: limits, binary: settings.binary,
                loop: loop, share: share(of: queue)))
    }

    /// Warns that a drain shorter than the grace leaves everything in flight uncertain. Reports it once, when the first
    /// queue with the binary interface is served.
    private func warnOfDrain() {
        let grace = settings.binary.grace
        guard !hasWarnedOfDrain, settings.drain < grace + EngineSettings.drainMargin else { return }
        hasWarnedOfDrain = true
        report(.drainTooShort(drain: settings.drain, grace: grace))
    }

    /// The part of the connections that the queue's tenant has.
    private func share(of queue: QueueSettings) -> ConnectionShare {
        if let share = shares[queue.tenantID] { return share }
        let share = ConnectionShare(of: budget, limit: queue.tenantConnections)
        shares[queue.tenantID] = share
        return share
    }

    private func limits(of queue: QueueSettings) -> GatewaySettings {
        var limits = settings.connections
        limits.maximumConnections = queue.connections
        return limits
    }

    private func gateway(
        _ token: ProviderToken, for queue: QueueSettings, broadcasts: Bool
    ) throws -> HTTP2Gateway {
        adopt(
            try HTTP2Gateway(
                endpoint: endpoint(of: queue, broadcasts: broadcasts), credential: .token(token),
                settings: limits(of: queue), loop: loop, share: share(of: queue)))
    }

    private func gateway(
        _ certificate: StoredCertificate, for queue: QueueSettings, broadcasts: Bool
    ) throws -> HTTP2Gateway {
        adopt(
            try HTTP2Gateway(
                endpoint: endpoint(of: queue, broadcasts: broadcasts), certificate: certificate.identity,
                settings: limits(of: queue), loop: loop, share: share(of: queue)))
    }

    /// Has the gateway tell the handler of its answers.
    private func adopt<Gateway: PushGateway>(_ gateway: Gateway) -> Gateway {
        gateway.handler = handler
        return gateway
    }

    private func endpoint(of queue: QueueSettings, broadcasts: Bool) -> Endpoint {
        let ofItsOwn = broadcasts ? settings.broadcastEndpoint : nil
        return ofItsOwn ?? settings.endpoint ?? Endpoint(queue.name.environment, port: settings.applePort)
    }
}
