import Cryptography

/// The TLS of a gateway's connections. The first connection opens the certificate and makes the context, and the last
/// one frees both. Together they take 33 KB, and a worker may know ten thousand certificates but hold connections for a
/// few. The sessions that later connections may resume stay. They belong to this gateway, and so to one tenant,
/// credential, environment and host.
final class ClientTLS {
    private let authorities: TrustStore
    private let applicationProtocol: String?
    private let identity: (() throws -> TLSIdentity)?
    /// The connections that use it keep it alive.
    private weak var current: TLSContext?
    let sessions: ResumableSessions

    /// - Parameters:
    ///   - host: the server's name or address.
    ///   - sessionLimit: holds the sessions of all gateways of the loop.
    ///   - authorities: the authorities that may have issued the server's certificate; nil for those of the system,
    ///     which are read here.
    ///   - identity: opens the client's certificate; called for each new context.
    init(
        to host: String, sessionLimit: TLSSessionLimit, trusting authorities: TrustStore?,
        identity: (() throws -> TLSIdentity)?, applicationProtocol: String?
    ) throws(CryptographyError) {
        sessions = ResumableSessions(with: host, within: sessionLimit)
        self.authorities = if let authorities { authorities } else { try TrustStore.system() }
        self.identity = identity
        self.applicationProtocol = applicationProtocol
    }

    /// Whether a connection uses it.
    var isInUse: Bool { current != nil }

    /// The context for the next connection. Throws if the certificate cannot be opened or used.
    func context() throws -> TLSContext {
        if let current { return current }
        let context = try TLSContext.client(
            trusting: authorities, identity: try identity?(), applicationProtocol: applicationProtocol)
        current = context
        return context
    }
}
