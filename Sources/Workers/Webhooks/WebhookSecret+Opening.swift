package import HTTP1
package import PostgresStore

extension WebhookSecret {
    /// Opens the secret of a tenant's webhook.
    package init(
        sealed: [UInt8], ofTenant tenantID: Int32, under keys: MasterKeys
    ) throws(WebhookProblem) {
        let bytes: [UInt8]
        do throws(SealError) {
            bytes = try keys.open(sealed, of: .webhook(tenantID: tenantID))
        } catch {
            throw .secret(error)
        }
        guard let secret = WebhookSecret(bytes: bytes) else { throw .damagedSecret }
        self = secret
    }
}
