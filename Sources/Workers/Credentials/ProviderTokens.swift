import APNs
import Cryptography
import PostgresStore
import Transport

/// The provider token of one signing key: minted by one worker of the fleet, shared through the database by all.
///
/// Apple wants a token refreshed no more than once in 20 minutes and no less than once in 60 ("Establishing a token-based
/// connection"), across all servers of a team: so its age is the database's to tell, and a new one takes the place of the old
/// only if that is old enough at that moment.
///
/// Belongs to the engine's event loop.
final class ProviderTokens {
    private let store: EngineStore
    private let masterKey: MasterKey
    private let credential: StoredCredential
    private let key: PrivateKey
    private let teamID: String
    private let keyID: String

    init(
        store: EngineStore, masterKey: MasterKey, credential: StoredCredential, key: PrivateKey, teamID: String,
        keyID: String
    ) {
        self.store = store
        self.masterKey = masterKey
        self.credential = credential
        self.key = key
        self.teamID = teamID
        self.keyID = keyID
    }

    /// The token to use now; a new one if the present one is due for it.
    /// - Parameter isRefused: APNs called the present one expired. If it is young all the same, some clock is wrong, and another
    ///   token would be as bad.
    func current(isRefused: Bool = false) async throws -> ProviderToken {
        let most = Duration.seconds(isRefused ? ProviderToken.minimumSeconds : ProviderToken.refreshSeconds)
        let owner = SecretOwner.providerToken(credentialID: credential.id, version: credential.version)
        for _ in 0..<3 {
            let (stored, now) = try await store.connection().providerToken(
                credentialID: credential.id, version: credential.version)
            if let stored, stored.age < most {
                let text = try masterKey.open(stored.sealed, of: owner)
                return ProviderToken(
                    text: String(decoding: text, as: UTF8.self), issuedAt: now - stored.age.components.seconds)
            }
            let token = try ProviderToken.mint(key: key, keyID: keyID, teamID: teamID, now: now)
            let sealed = try masterKey.seal(Array(token.text.utf8), for: owner)
            let isFirst = try await store.connection().replaceProviderToken(
                credentialID: credential.id, version: credential.version, sealed: sealed, issuedAt: now,
                ifOlderThan: most)
            if isFirst { return token }
        }
        throw CredentialProblem.tokenRace
    }
}

/// Why a credential cannot be used, in one line.
enum CredentialProblem: Error, CustomStringConvertible {
    case noMasterKey
    case tokenRace

    var description: String {
        switch self {
        case .noMasterKey:
            "no master key: set PUSHQ_MASTER_KEY or PUSHQ_MASTER_KEY_FILE to the key it was sealed under"
        case .tokenRace: "other workers kept replacing its provider token"
        }
    }
}
