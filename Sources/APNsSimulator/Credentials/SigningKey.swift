package import Cryptography

/// A key that may sign provider tokens: its public half, and the identifiers that Apple gives it.
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
