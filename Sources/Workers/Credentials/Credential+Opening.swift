package import APNs
package import PostgresStore
package import Transport

extension HTTP2Gateway.Credential {
    /// Opens a stored credential for a command that speaks to APNs itself. Of a signing key it is the provider token
    /// that the fleet shares: a command never mints one that workers do not know of.
    ///
    /// To be called on `loop`.
    package static func opening(
        _ stored: StoredCredential, under masterKeys: MasterKeys, over address: DatabaseAddress, on loop: EventLoop
    ) async throws -> HTTP2Gateway.Credential {
        switch try OpenedCredential(stored, under: masterKeys) {
        case .certificate(let certificate): return .certificate(try certificate.identity())
        case .signer(let signer):
            let connection = StoreConnection(to: address, as: "pushq-admin", on: loop)
            defer { connection.close() }
            let store = EngineStore(connection, loop: loop) { _ in }
            let token = SharedToken(store: store, masterKeys: masterKeys, signer: signer) { _ in }
            return .token(try await token.current())
        }
    }
}
