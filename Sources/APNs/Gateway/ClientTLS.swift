import Cryptography

/// The TLS of a gateway's connections. The certificate is opened and the context made when a connection is, and both go with the last
/// connection: they are 33 KB together, and a worker may know ten thousand certificates and hold connections for a few of them.
final class ClientTLS {
    private let authorities: TrustStore
    private let applicationProtocol: String?
    private let identity: (() throws -> TLSIdentity)?
    /// Kept by the connections that use it.
    private weak var current: TLSContext?

    /// - Parameters:
    ///   - authorities: who may have issued the server's certificate; nil for those of the system, which are read here.
    ///   - identity: gives the client's certificate, each time anew.
    init(
        trusting authorities: TrustStore?, identity: (() throws -> TLSIdentity)?, applicationProtocol: String?
    ) throws(CryptographyError) {
        self.authorities = if let authorities { authorities } else { try TrustStore.system() }
        self.identity = identity
        self.applicationProtocol = applicationProtocol
    }

    /// Whether a connection uses it.
    var isInUse: Bool { current != nil }

    /// What the next connection is made with. Throws when the certificate cannot be opened or used.
    func context() throws -> TLSContext {
        if let current { return current }
        let context = try TLSContext.client(
            trusting: authorities, identity: try identity?(), applicationProtocol: applicationProtocol)
        current = context
        return context
    }
}
