package import Cryptography

/// A key with which provider tokens may be signed: the public half, and the names Apple gives it.
package struct SigningKey: Sendable {
    /// Ten characters, the token's `kid`.
    package let keyID: String
    /// Ten characters, the token's `iss`.
    package let teamID: String
    package let publicKey: PublicKey

    package init(keyID: String, teamID: String, publicKey: PublicKey) {
        self.keyID = keyID
        self.teamID = teamID
        self.publicKey = publicKey
    }
}
