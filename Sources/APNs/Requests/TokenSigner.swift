package import Cryptography

/// Whoever signs provider tokens: a key with the names that Apple gave it.
package struct TokenSigner: Sendable {
    /// Ten characters each.
    package let teamID: String
    package let keyID: String
    private let key: PrivateKey
    /// Stands for the signer where its token is kept: SHA-256 of public key, team and key ID. Nobody comes to it who does not
    /// hold the private key, so one tenant's credential does not lead to another's token by naming its team and key.
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
