import APNs
import Cryptography
import PostgresStore
import Transport

/// The provider token of one signer: minted by one worker of the fleet, shared through the database by all, whichever
/// credentials hold the key.
///
/// Apple wants a token refreshed no more than once in 20 minutes and no less than once in 60 ("Establishing a token-based
/// connection"), across all servers of a team: so its age is the database's to tell, and a new one takes the place of the old
/// only if that is old enough at that moment.
///
/// Belongs to the engine's event loop.
final class ProviderTokens {
    /// Between two looks for a token that is due and may not be replaced yet.
    private let lookInterval: Duration

    private let store: EngineStore
    private let masterKey: MasterKey
    private let signer: TokenSigner
    private let report: (EngineEvent) -> Void
    /// Before then there is no need to look: the token that was last given is young enough.
    private(set) var nextLook = ContinuousClock.now
    /// The token that was given last.
    private(set) var last: ProviderToken?
    /// The token of which it was said that APNs takes it for expired although it is young.
    private var doubted: ProviderToken?

    init(
        store: EngineStore, masterKey: MasterKey, signer: TokenSigner,
        lookInterval: Duration = EngineSettings().tokenLook, report: @escaping (EngineEvent) -> Void
    ) {
        self.lookInterval = lookInterval
        self.store = store
        self.masterKey = masterKey
        self.signer = signer
        self.report = report
    }

    /// The token to use now; a new one if the present one is due for it.
    /// - Parameter isRefused: APNs called the present one expired. If it is young all the same, some clock is wrong, and another
    ///   token would be as bad.
    func current(isRefused: Bool = false) async throws -> ProviderToken {
        let most = Duration.seconds(isRefused ? ProviderToken.minimumSeconds : ProviderToken.refreshSeconds)
        for _ in 0..<3 {
            let (stored, now) = try await store.connection().providerToken(of: signer.digest)
            var (age, isUnreadable) = (most, false)
            if let stored, stored.age < most || stored.isKept {
                if let token = try? open(stored, now: now) {
                    nextLook = .now + max(.seconds(ProviderToken.refreshSeconds) - stored.age, lookInterval)
                    if isRefused { doubt(token, age: stored.age) }
                    last = token
                    return token
                }
                try checkMayReplace(unreadable: stored)
                (age, isUnreadable) = (.seconds(ProviderToken.minimumSeconds), true)
            }
            let token = try signer.mint(now: now)
            let sealed = try masterKey.seal(Array(token.text.utf8), for: owner)
            let isFirst = try await store.connection().replaceProviderToken(
                of: signer.digest, sealed: sealed, issuedAt: now, ifOlderThan: age)
            guard isFirst else { continue }
            if isUnreadable { report(.tokenMintedAnew(keyID: signer.keyID)) }
            nextLook = .now + .seconds(ProviderToken.refreshSeconds)
            last = token
            return token
        }
        throw CredentialProblem.tokenRace
    }

    /// A token that was sealed under another master key is of no use, and takes another's place as a refused one does: not before APNs
    /// would take the next.
    private func checkMayReplace(unreadable stored: StoredProviderToken) throws {
        let wait = max(
            .seconds(ProviderToken.minimumSeconds) - stored.age,
            stored.isKept ? .seconds(ProviderToken.minimumSeconds) : .zero)
        if wait > .zero {
            throw CredentialProblem.tokenUnreadable(
                keyID: signer.keyID, minutes: Int((wait / .seconds(60)).rounded(.up)))
        }
    }

    /// APNs says that tokens were replaced too often: for 20 minutes the fleet keeps the one it has.
    func keep() async throws {
        try await store.connection().keepProviderToken(
            of: signer.digest, for: .seconds(ProviderToken.minimumSeconds))
    }

    private var owner: SecretOwner { .providerToken(signer: signer.digest) }

    private func open(_ stored: StoredProviderToken, now: Int64) throws -> ProviderToken {
        let text = try masterKey.open(stored.sealed, of: owner)
        return ProviderToken(
            text: String(decoding: text, as: UTF8.self), issuedAt: now - stored.age.components.seconds)
    }

    /// Says once of each token that a clock must be wrong.
    private func doubt(_ token: ProviderToken, age: Duration) {
        guard doubted?.text != token.text else { return }
        doubted = token
        report(.clockInDoubt(keyID: signer.keyID, minutes: Int(age.components.seconds / 60)))
    }
}
