import PostgresStore
import QueueCore

/// The purpose for which a queue needs a gateway.
struct GatewayUse: Hashable {
    let tenantID: Int32
    let credential: CredentialVersion
    let environment: Environment
    let interface: GatewayKind
    /// Whether the gateway is for the host that takes only broadcasts.
    let isForBroadcasts: Bool
    let connections: Int

    /// Nil if the queue has no credential, or an expired one.
    init?(_ queue: QueueSettings, isForBroadcasts: Bool = false) {
        guard let stored = queue.credential, stored.expiredAt == nil else { return nil }
        tenantID = queue.tenantID
        credential = CredentialVersion(stored)
        environment = queue.name.environment
        interface = queue.gateway
        self.isForBroadcasts = isForBroadcasts
        connections = queue.connections
    }
}

/// Decides which gateway serves which use. There is one for each tenant, secret, environment, host and number of
/// connections, which all queues with that use share. Tenants share no gateway, even if their credentials contain the
/// same secret: unanswered pushes of one tenant would take the room of the other.
///
/// What holds at every moment (`GatewayTableExplorationTests`):
/// - A use is served by a gateway of its own tenant, secret and version, environment, interface, host and number of
///   connections. Equal uses are served by the same gateway.
/// - A gateway in use is not dropped. An unused gateway is dropped in the next round, once.
/// - A gateway that was opened is in the table, or is handed back to be closed.
/// - A credential that cannot be used is reported once until it can be used, and is tried again after a pause.
///
/// A value without a clock: its owner passes the time, and chooses the type of an `Entry`.
struct GatewayTable<Entry> {
    /// What the table has for a use.
    enum Finding {
        case open(Entry)
        /// The credential has to be opened. The caller calls ``note(secret:of:)`` and ``find(_:now:)`` again, then
        /// ``insert(_:for:)`` or ``noteUnusable(_:because:now:)``.
        case unopened
        /// The credential could not be used, and is not tried again yet.
        case unusable
    }

    enum Insertion {
        case inserted
        /// Another gateway was opened meanwhile. The caller closes the new one.
        case superseded(by: Entry)
        /// The table is closed. The caller closes the new gateway.
        case tooLate
    }

    private struct Key: Hashable {
        let tenantID: Int32
        /// A digest of the secret. Two credentials of a tenant with the same secret share a gateway.
        let secret: [UInt8]
        /// The version of the credential. A replaced credential gets a gateway of its own, even with the same key,
        /// because APNs binds a connection to what the key was allowed to do at the first push.
        let version: Int32
        let environment: Environment
        let interface: GatewayKind
        let isForBroadcasts: Bool
        let connections: Int
    }

    /// A credential, and the interface for which it is used.
    private struct Attempt: Hashable {
        let credential: CredentialVersion
        let interface: GatewayKind
    }

    /// The time after which an unusable credential is tried again.
    static var pause: Duration { .seconds(60) }

    private var open: [Key: Entry] = [:]
    /// The digest of each credential's secret, because opening a credential is expensive.
    private var secrets: [CredentialVersion: [UInt8]] = [:]
    /// Credentials that could not be used, the reason, and when they are tried again.
    private var unusable: [Attempt: (reason: String, nextTry: ContinuousClock.Instant)] = [:]
    private var isClosed = false

    /// The gateways that are open.
    var entries: some Collection<Entry> { open.values }

    /// Returns what the table has for a use.
    func find(_ use: GatewayUse, now: ContinuousClock.Instant) -> Finding {
        if let key = key(of: use), let entry = open[key] { return .open(entry) }
        let failure = unusable[Attempt(credential: use.credential, interface: use.interface)]
        return failure.map { now < $0.nextTry } ?? false ? .unusable : .unopened
    }

    /// Whether a credential was tried and could not be used.
    var hasFaults: Bool { !unusable.isEmpty }

    /// Why the credential of a use cannot be used; nil if it was not tried, or can be used.
    func fault(of use: GatewayUse) -> String? {
        unusable[Attempt(credential: use.credential, interface: use.interface)]?.reason
    }

    /// Notes the digest of a credential's secret.
    mutating func note(secret: [UInt8], of credential: CredentialVersion) { secrets[credential] = secret }

    /// Inserts a gateway that was opened for a use.
    mutating func insert(_ entry: Entry, for use: GatewayUse) -> Insertion {
        guard !isClosed, let key = key(of: use) else { return .tooLate }
        unusable[Attempt(credential: use.credential, interface: use.interface)] = nil
        if let other = open[key] { return .superseded(by: other) }
        open[key] = entry
        return .inserted
    }

    /// Notes that no gateway could be opened for a use. Returns whether that is news.
    mutating func noteUnusable(
        _ use: GatewayUse, because reason: String, now: ContinuousClock.Instant
    ) -> Bool {
        unusable.updateValue(
            (reason, now + Self.pause), forKey: Attempt(credential: use.credential, interface: use.interface)) == nil
    }

    /// Drops and returns the gateways that serve none of `uses`. Forgets what is known about other credentials.
    mutating func keepOnly(_ uses: some Sequence<GatewayUse>) -> [Entry] {
        var credentials: Set<CredentialVersion> = []
        var keys: Set<Key> = []
        for use in uses {
            credentials.insert(use.credential)
            if let key = key(of: use) { keys.insert(key) }
        }
        let dropped = open.filter { !keys.contains($0.key) }
        for key in dropped.keys { open[key] = nil }
        secrets = secrets.filter { credentials.contains($0.key) }
        unusable = unusable.filter { credentials.contains($0.key.credential) }
        return Array(dropped.values)
    }

    /// Closes the table, so that it takes no more gateways. Returns those that are open.
    mutating func close() -> [Entry] {
        isClosed = true
        defer { open = [:] }
        return Array(open.values)
    }

    private func key(of use: GatewayUse) -> Key? {
        secrets[use.credential].map {
            Key(
                tenantID: use.tenantID, secret: $0, version: use.credential.version, environment: use.environment,
                interface: use.interface, isForBroadcasts: use.isForBroadcasts, connections: use.connections)
        }
    }
}
