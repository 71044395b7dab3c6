import APNs
import Cryptography
import PostgresStore
import QueueCore
import Transport

/// The gateways of this worker: one for each version of a credential and environment, shared by all queues that use it. A replaced
/// credential gets a gateway of its own; the old one is drained once no queue uses it.
///
/// Belongs to the engine's event loop.
final class Gateways {
    private struct Key: Hashable {
        let credentialID: Int32
        let version: Int32
        let environment: Environment
        let connections: Int
    }

    private struct Entry {
        let gateway: any PushGateway
        /// Nil for a certificate.
        let renewal: TokenRenewal?
    }

    /// Whose provider token is kept fresh, and where it is used.
    private final class TokenRenewal {
        let tokens: ProviderTokens
        let gateway: HTTP2Gateway
        var isRefused = false

        init(tokens: ProviderTokens, gateway: HTTP2Gateway) {
            self.tokens = tokens
            self.gateway = gateway
        }

        /// Has the next requests carry the token that is to be used now.
        func renew() async {
            let wasRefused = isRefused
            isRefused = false
            if let token = try? await tokens.current(isRefused: wasRefused) { gateway.use(token) }
        }
    }

    /// How often the age of provider tokens is looked at.
    private static let tokenCheck = Duration.seconds(60)

    private let loop: EventLoop
    private let store: EngineStore
    private let settings: EngineSettings
    private let masterKey: MasterKey?
    private let report: (EngineEvent) -> Void
    private let signal: Signal
    private var entries: [Key: Entry] = [:]
    /// Credentials that could not be used: said once, tried again when they are replaced.
    private var unusable: Set<Key> = []
    /// Gateways that no queue uses any more, to be drained.
    private var replaced: [any PushGateway] = []
    private var isStopping = false

    /// Takes the answers of all gateways, and hears when one has room again.
    weak var handler: (any PushGatewayHandler)?

    init(
        loop: EventLoop, store: EngineStore, settings: EngineSettings, masterKey: MasterKey?,
        report: @escaping (EngineEvent) -> Void
    ) {
        self.loop = loop
        self.store = store
        self.settings = settings
        self.masterKey = masterKey
        self.report = report
        signal = Signal(loop: loop)
    }

    /// The gateway of a queue's credential as it is now; nil if it has none that can be used.
    func gateway(for queue: QueueSettings) async -> (any PushGateway)? {
        guard let key = Self.key(of: queue), let credential = queue.credential, !unusable.contains(key) else {
            return nil
        }
        if let entry = entries[key] { return entry.gateway }
        do {
            let entry = try await open(credential, for: queue)
            // Another queue may have opened it while this one waited for the database.
            if let other = entries[key] {
                entry.gateway.close()
                return other.gateway
            }
            entries[key] = entry
            return entry.gateway
        } catch let error as PostgresError where error.isPassing {
            return nil
        } catch {
            unusable.insert(key)
            report(.credentialUnreadable(queue: queue.name.description, reason: "\(error)"))
            return nil
        }
    }

    /// Drains the gateways that none of `queues` uses any more.
    func keepOnly(usedBy queues: some Sequence<QueueState>) {
        let used = Set(queues.compactMap { Self.key(of: $0.settings) })
        for (key, entry) in entries where !used.contains(key) {
            entries[key] = nil
            replaced.append(entry.gateway)
            signal.raise()
        }
        unusable.formIntersection(used)
    }

    /// APNs calls the provider token of this queue's gateway expired.
    func noteExpiredToken(of queue: QueueState) {
        guard let key = Self.key(of: queue.settings), let renewal = entries[key]?.renewal else { return }
        renewal.isRefused = true
        signal.raise()
    }

    /// Keeps provider tokens fresh and drains gateways that were replaced, until ``stop()``.
    func run() async {
        while !isStopping {
            await signal.wait(atMost: Self.tokenCheck)
            for entry in entries.values where !isStopping { await entry.renewal?.renew() }
            while let gateway = replaced.popLast() { await gateway.drain(until: .now + settings.drain) }
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
        replaced = []
    }

    private static func key(of queue: QueueSettings) -> Key? {
        queue.credential.map {
            Key(
                credentialID: $0.id, version: $0.version, environment: queue.name.environment,
                connections: queue.connections)
        }
    }

    private func open(_ credential: StoredCredential, for queue: QueueSettings) async throws -> Entry {
        guard let masterKey else { throw CredentialProblem.noMasterKey }
        let owner = SecretOwner.credential(tenantID: credential.tenantID, credentialID: credential.id)
        let pem = try masterKey.open(credential.sealed, of: owner)
        switch credential.kind {
        case .certificate:
            return Entry(gateway: try gateway(.certificate(TLSIdentity(pem: pem)), for: queue), renewal: nil)
        case .token(let teamID, let keyID):
            let key = try PrivateKey(signingKeyPEM: pem)
            let tokens = ProviderTokens(
                store: store, masterKey: masterKey, credential: credential, key: key, teamID: teamID, keyID: keyID)
            let gateway = try gateway(.token(await tokens.current()), for: queue)
            return Entry(gateway: gateway, renewal: TokenRenewal(tokens: tokens, gateway: gateway))
        }
    }

    private func gateway(_ credential: HTTP2Gateway.Credential, for queue: QueueSettings) throws -> HTTP2Gateway {
        var limits = settings.connections
        limits.maximumConnections = queue.connections
        let gateway = try HTTP2Gateway(
            endpoint: settings.gateway ?? Endpoint(queue.name.environment), credential: credential, settings: limits,
            loop: loop)
        gateway.handler = handler
        return gateway
    }
}
