package import Cryptography

/// Signs provider tokens with a key and the identifiers that Apple gave it.
package struct TokenSigner: Sendable {
    /// Ten characters each.
    package let teamID: String
    package let keyID: String
    private let key: PrivateKey
    /// Identifies the signer where its token is stored: SHA-256 of public key, team and key ID. Only the holder of the
    /// private key has this digest, so a tenant cannot get another tenant's token by naming its team and key.
    package let digest: [UInt8]

    package init(key: PrivateKey, teamID: String, keyID: String) throws(CryptographyError) {
        self.key = key
        self.teamID = teamID
        self.keyID = keyID
        digest = SHA256.digest(of: Array("\(teamID)\n\(keyID)\n\(try key.publicKey().pem())".utf8))
    }

    /// Mints a token; `now` in seconds since 1970 by the database's clock.
    package func mint(now: Int64) throws(APNsError) -> ProviderToken {
        try .mint(key: key, keyID: keyID, teamID: teamID, now: now)
    }
}
