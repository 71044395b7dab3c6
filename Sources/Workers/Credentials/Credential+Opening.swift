package import APNs
package import PostgresStore
package import Transport

extension HTTP2Gateway.Credential {
    /// Opens a stored credential for a command that connects to APNs itself. For a signing key, returns the provider
    /// token that the fleet shares: a command never mints a token that workers do not know.
    ///
    /// Must be called on `loop`.
    package static func opening(
        _ stored: StoredCredential, under masterKeys: MasterKeys, over address: DatabaseAddress, on loop: EventLoop
    ) async throws -> HTTP2Gateway.Credential {
        switch try OpenedCredential(stored, under: masterKeys) {
        case .certificate(let certificate): return .certificate(try certificate.identity())
        case .signer(let signer):
            let connection = ReconnectingConnection(to: address, as: "pushq-admin", on: loop)
            defer { connection.close() }
            let store = RetryingConnection(connection, loop: loop) { _ in }
            let token = SharedToken(store: store, masterKeys: masterKeys, signer: signer) { _ in }
            return .token(try await token.current())
        }
    }
}
