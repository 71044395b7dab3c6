import APNs
import Cryptography
import PostgresStore
import QueueCore
import Transport

/// The gateways of this worker: one for each signing key or certificate, environment, host and number of connections, shared by all
/// queues that use it. A replaced credential gets a gateway of its own, also with the same key, since APNs binds a connection to
/// what the key was allowed at the first push; the old one is drained once no queue uses it.
///
/// Belongs to the engine's event loop.
final class Gateways {
    private struct Key: Hashable {
        /// See ``OpenedCredential/holder``.
        let holder: [UInt8]
        let version: Int32
        let environment: Environment
        let gateway: GatewayKind
        /// Whether it goes to the host that is for broadcasts alone.
        let isForBroadcasts: Bool
        let connections: Int
    }

    private struct CredentialVersion: Hashable {
        let id: Int32
        let version: Int32

        init(_ credential: StoredCredential) {
            id = credential.id
            version = credential.version
        }
    }

    /// A credential and the interface it is to be used for.
    private struct Use: Hashable {
        let credential: CredentialVersion
        let gateway: GatewayKind
    }

    private struct Entry {
        let gateway: any PushGateway
        /// Nil for a certificate.
        let renewal: TokenRenewal?
        let circuit = Circuit()
    }

    /// Whose provider token is kept fresh, and where it is used.
    private final class TokenRenewal {
        let tokens: ProviderTokens
        let gateway: HTTP2Gateway
        private var isRefused = false
        private var mustStay = false
        /// Until then answers may come to requests that carried the token before this one.
        private var lateAnswersUntil: ContinuousClock.Instant?
        private let responseTime: Duration

        init(tokens: ProviderTokens, gateway: HTTP2Gateway, responseTime: Duration) {
            self.tokens = tokens
            self.gateway = gateway
            self.responseTime = responseTime
        }

        /// APNs calls the token expired. Returns whether that is news: of a token that has just been replaced it is not.
        func noteExpired() -> Bool {
            if let lateAnswersUntil, ContinuousClock.now < lateAnswersUntil { return false }
            isRefused = true
            return true
        }

        /// APNs wants no other token for a while.
        func noteTooMany() { mustStay = true }

        /// Has the next requests carry the token that is to be used now.
        func renew() async {
            let (wasRefused, mustStay) = (isRefused, mustStay)
            (isRefused, self.mustStay) = (false, false)
            if mustStay { try? await tokens.keep() }
            guard wasRefused || tokens.nextLook <= .now else { return }
            let before = tokens.last
            guard let token = try? await tokens.current(isRefused: wasRefused) else { return }
            gateway.use(token)
            guard token.text != before?.text else { return }
            // What was heard meanwhile, and is heard from now on, is about the one before.
            isRefused = false
            lateAnswersUntil = .now + responseTime
        }
    }

    /// How soon an unusable credential is tried again.
    private static let nextTry = Duration.seconds(60)

    private let loop: EventLoop
    private let store: EngineStore
    private let settings: EngineSettings
    private let masterKey: MasterKey?
    private let report: (EngineEvent) -> Void
    private let budget: ConnectionBudget
    private let signal: Signal
    private var entries: [Key: Entry] = [:]
    /// Whose secret each credential is: opening it costs more than to look here.
    private var holders: [CredentialVersion: [UInt8]] = [:]
    /// Credentials that could not be used: said once, and when they are tried again.
    private var unusable: [Use: ContinuousClock.Instant] = [:]
    /// Gateways that no queue uses any more and that await their last answers.
    private var replaced: [any PushGateway] = []
    private var isStopping = false
    /// It was said that a drain cannot end clean.
    private var hasWarnedOfDrain = false

    /// Takes the answers of all gateways, and hears when one has room again.
    weak var handler: (any PushGatewayHandler)?

    init(_ context: EngineContext) {
        loop = context.loop
        store = context.stores.claims
        settings = context.settings
        masterKey = context.masterKey
        report = context.report
        budget = ConnectionBudget(limit: settings.mostConnections, loop: loop)
        signal = Signal(loop: loop)
    }

    /// The gateway of a queue's credential as it is now; nil if it has none that can be used.
    /// - Parameter broadcasts: asks for the one to the host that is for broadcasts alone; nil as well where there is no such host.
    func gateway(for queue: QueueSettings, broadcasts: Bool = false) async -> (any PushGateway)? {
        guard let credential = queue.credential, credential.expiredAt == nil else { return nil }
        guard !broadcasts || hasBroadcastHost(queue) else { return nil }
        if let key = key(of: queue, broadcasts: broadcasts), let entry = entries[key] { return entry.gateway }
        let use = Use(credential: CredentialVersion(credential), gateway: queue.gateway)
        if let nextTry = unusable[use], ContinuousClock.now < nextTry { return nil }
        do {
            return try await open(credential, for: queue, broadcasts: broadcasts)
        } catch let error as PostgresError where error.isPassing {
            return nil
        } catch {
            if unusable[use] == nil {
                report(.credentialUnreadable(queue: queue.name.description, reason: "\(error)"))
            }
            unusable[use] = .now + Self.nextTry
            return nil
        }
    }

    /// What the answers over a gateway say of APNs; nil for one that was replaced.
    func circuit(of gateway: any PushGateway) -> Circuit? {
        entries.values.first { $0.gateway === gateway }?.circuit
    }

    /// Drains the gateways that none of `queues` uses any more.
    func keepOnly(usedBy queues: some Sequence<QueueState>) {
        let credentials = queues.compactMap(\.settings.credential)
        let versions = Set(credentials.map(CredentialVersion.init))
        var used = Set(queues.compactMap { key(of: $0.settings) })
        for queue in queues where hasBroadcastHost(queue.settings) {
            if let key = key(of: queue.settings, broadcasts: true) { used.insert(key) }
        }
        for (key, entry) in entries where !used.contains(key) {
            entries[key] = nil
            drain(entry.gateway)
        }
        holders = holders.filter { versions.contains($0.key) }
        unusable = unusable.filter { versions.contains($0.key.credential) }
    }

    private func drain(_ gateway: any PushGateway) {
        replaced.append(gateway)
        loop.startTask { [self] in
            await gateway.drain(until: .now + settings.drain)
            replaced.removeAll { $0 === gateway }
            signal.raise()
        }
    }

    /// APNs calls the provider token of this gateway expired.
    func noteExpiredToken(of gateway: any PushGateway) {
        if renewal(of: gateway)?.noteExpired() == true { signal.raise() }
    }

    /// APNs says that the provider tokens of this gateway are replaced too often.
    func noteTooManyTokens(of gateway: any PushGateway) {
        guard let renewal = renewal(of: gateway) else { return }
        renewal.noteTooMany()
        signal.raise()
    }

    /// Keeps provider tokens fresh until ``stop()``, and until what was replaced is drained or closed.
    func run() async {
        while !isStopping || !replaced.isEmpty {
            await signal.wait(atMost: settings.tokenLook)
            for entry in entries.values where !isStopping { await entry.renewal?.renew() }
        }
    }

    func stop() {
        isStopping = true
        signal.raise()
    }

    /// Closes every connection; what is in flight is reported as unanswered.
    func closeAll() {
        for gateway in entries.values.map(\.gateway) + replaced { gateway.close() }
        entries = [:]
    }

    private func renewal(of gateway: any PushGateway) -> TokenRenewal? {
        entries.values.first { $0.gateway === gateway }?.renewal
    }

    // MARK: Opening

    /// Nil for a credential that was not opened yet, has expired or is none.
    private func key(of queue: QueueSettings, broadcasts: Bool = false) -> Key? {
        guard let credential = queue.credential, credential.expiredAt == nil,
            let holder = holders[CredentialVersion(credential)]
        else { return nil }
        return Key(
            holder: holder, version: credential.version, environment: queue.name.environment, gateway: queue.gateway,
            isForBroadcasts: broadcasts, connections: queue.connections)
    }

    /// Whether a queue's broadcasts go to another host than its pushes to devices. The binary interface knows no broadcasts.
    func hasBroadcastHost(_ queue: QueueSettings) -> Bool {
        settings.broadcastGateway != nil && queue.gateway == .http2
    }

    /// Opens the credential, and makes a gateway of it unless somebody else's credential has led to the same.
    private func open(
        _ credential: StoredCredential, for queue: QueueSettings, broadcasts: Bool
    ) async throws -> (any PushGateway)? {
        let opened = try OpenedCredential(credential, under: masterKey)
        let version = CredentialVersion(credential)
        holders[version] = opened.holder
        guard let key = key(of: queue, broadcasts: broadcasts) else { return nil }
        if let entry = entries[key] { return entry.gateway }
        let entry = try await entry(opened, of: credential, for: queue, broadcasts: broadcasts)
        unusable[Use(credential: version, gateway: queue.gateway)] = nil
        // Another queue may have made it while this one waited for the database.
        if let other = entries[key] {
            entry.gateway.close()
            return other.gateway
        }
        entries[key] = entry
        return entry.gateway
    }

    /// Of a certificate nothing is kept open: its gateway opens it when it connects.
    private func entry(
        _ opened: OpenedCredential, of stored: StoredCredential, for queue: QueueSettings, broadcasts: Bool
    ) async throws -> Entry {
        let reopen: () throws -> TLSIdentity = { [masterKey] in
            guard case .certificate(let identity) = try OpenedCredential(stored, under: masterKey) else {
                throw CredentialProblem.noCertificate
            }
            return identity
        }
        switch opened {
        case .certificate where queue.gateway == .binary:
            return Entry(gateway: try binaryGateway(reopen, for: queue), renewal: nil)
        case .signer where queue.gateway == .binary: throw CredentialProblem.noCertificate
        case .certificate:
            return Entry(gateway: try gateway(reopen, for: queue, broadcasts: broadcasts), renewal: nil)
        case .signer(let signer):
            guard let masterKey else { throw CredentialProblem.noMasterKey }
            let tokens = ProviderTokens(
                store: store, masterKey: masterKey, signer: signer, lookInterval: settings.tokenLook, report: report)
            let gateway = try gateway(await tokens.current(), for: queue, broadcasts: broadcasts)
            let renewal = TokenRenewal(
                tokens: tokens, gateway: gateway, responseTime: settings.connections.responseTime)
            return Entry(gateway: gateway, renewal: renewal)
        }
    }

    private func binaryGateway(
        _ certificate: @escaping () throws -> TLSIdentity, for queue: QueueSettings
    ) throws -> BinaryGateway {
        guard let endpoint = settings.binaryEndpoint(queue.name.environment) else {
            throw CredentialProblem.noBinaryGateway
        }
        warnOfDrain()
        let gateway = try BinaryGateway(
            endpoint: endpoint, identity: try certificate(), settings: limits(of: queue), binary: settings.binary,
            loop: loop,
            budget: budget)
        gateway.handler = handler
        return gateway
    }

    /// A drain that is shorter than the grace leaves everything uncertain that is in flight: said once, when it begins to matter.
    private func warnOfDrain() {
        let grace = settings.binary.grace
        guard !hasWarnedOfDrain, settings.drain < grace + EngineSettings.drainMargin else { return }
        hasWarnedOfDrain = true
        report(.drainTooShort(drain: settings.drain, grace: grace))
    }

    private func limits(of queue: QueueSettings) -> GatewaySettings {
        var limits = settings.connections
        limits.maximumConnections = queue.connections
        return limits
    }

    private func gateway(
        _ token: ProviderToken, for queue: QueueSettings, broadcasts: Bool
    ) throws -> HTTP2Gateway {
        let gateway = try HTTP2Gateway(
            endpoint: endpoint(of: queue, broadcasts: broadcasts), credential: .token(token),
            settings: limits(of: queue), loop: loop, budget: budget)
        gateway.handler = handler
        return gateway
    }

    private func gateway(
        _ certificate: @escaping () throws -> TLSIdentity, for queue: QueueSettings, broadcasts: Bool
    ) throws -> HTTP2Gateway {
        let gateway = try HTTP2Gateway(
            endpoint: endpoint(of: queue, broadcasts: broadcasts), certificate: certificate,
            settings: limits(of: queue), loop: loop, budget: budget)
        gateway.handler = handler
        return gateway
    }

    private func endpoint(of queue: QueueSettings, broadcasts: Bool) -> Endpoint {
        let ofItsOwn = broadcasts ? settings.broadcastGateway : nil
        return ofItsOwn ?? settings.gateway ?? Endpoint(queue.name.environment)
    }
}
