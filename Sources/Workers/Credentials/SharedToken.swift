import APNs
import Cryptography
import PostgresStore
import Transport

/// The provider token of one signer. One worker of the fleet mints it, and all share it through the database, no matter
/// which credentials contain the key.
///
/// The database's clock decides its age, and a new token replaces the old one only if the old one is old enough at that
/// moment. ``TokenRules`` decides what to do with it.
///
/// Belongs to the engine's event loop.
final class SharedToken {
    /// The time between two checks of a token that is due and may not be replaced yet.
    private let pollInterval: Duration

    private let store: EngineStore
    private let masterKeys: MasterKeys
    private let signer: TokenSigner
    private let report: (EngineEvent) -> Void
    /// No check is needed before this time: the token that was last returned is young enough.
    private(set) var nextPoll = ContinuousClock.now
    /// The token that was last returned.
    private(set) var last: ProviderToken?
    /// The token for which it was reported that APNs calls it expired although it is young.
    private var doubted: ProviderToken?

    init(
        store: EngineStore, masterKeys: MasterKeys, signer: TokenSigner,
        pollInterval: Duration = EngineSettings().tokenPoll, report: @escaping (EngineEvent) -> Void
    ) {
        self.pollInterval = pollInterval
        self.store = store
        self.masterKeys = masterKeys
        self.signer = signer
        self.report = report
    }

    /// The token to use now; a new one if the present one is due for it.
    /// - Parameter isRefused: APNs called the present one expired. If it is young all the same, some clock is wrong,
    ///   and another token would be as bad.
    func current(isRefused: Bool = false) async throws -> ProviderToken {
        for _ in 0..<3 {
            let (stored, now) = try await store.connection().providerToken(of: signer.digest)
            var readable: ProviderToken?
            var refusal: SealError?
            let decision = TokenRules.decide(age: stored?.age, isKept: stored?.isKept ?? false, isRefused: isRefused) {
                guard let stored else { return false }
                do throws(SealError) {
                    readable = try open(stored, now: now)
                } catch {
                    refusal = error
                }
                return readable != nil
            }
            switch decision {
            case .wait(let wait):
                throw CredentialProblem.tokenUnreadable(
                    keyID: signer.keyID, reason: refusal ?? .damaged, minutes: Int((wait / .seconds(60)).rounded(.up)))
            case .use:
                guard let stored, let token = readable else { preconditionFailure("a token that is used is readable") }
                nextPoll = .now + max(.seconds(ProviderToken.refreshSeconds) - stored.age, pollInterval)
                if isRefused { doubt(token, age: stored.age) }
                last = token
                return token
            case .mint(let age):
                guard let token = try await mint(now: now, ifOlderThan: age) else { continue }
                if refusal != nil { report(.tokenMintedAnew(keyID: signer.keyID)) }
                return token
            }
        }
        throw CredentialProblem.tokenRace
    }

    /// Mints a token, unless another worker was first.
    private func mint(now: Int64, ifOlderThan age: Duration) async throws -> ProviderToken? {
        let token = try signer.mint(now: now)
        let sealed = try masterKeys.seal(Array(token.text.utf8), for: owner)
        let isFirst = try await store.connection().replaceProviderToken(
            of: signer.digest, sealed: sealed, issuedAt: now, ifOlderThan: age)
        guard isFirst else { return nil }
        nextPoll = .now + .seconds(ProviderToken.refreshSeconds)
        last = token
        return token
    }

    /// APNs says that tokens were replaced too often: for 20 minutes the fleet keeps the one it has.
    func keep() async throws {
        try await store.connection().keepProviderToken(
            of: signer.digest, for: .seconds(ProviderToken.minimumSeconds))
    }

    private var owner: SecretOwner { .providerToken(signer: signer.digest) }

    private func open(_ stored: StoredProviderToken, now: Int64) throws(SealError) -> ProviderToken {
        let text = try masterKeys.open(stored.sealed, of: owner)
        return ProviderToken(
            text: String(decoding: text, as: UTF8.self), issuedAt: now - stored.age.components.seconds)
    }

    /// Reports once for each token that a clock must be wrong.
    private func doubt(_ token: ProviderToken, age: Duration) {
        guard doubted?.text != token.text else { return }
        doubted = token
        report(.clockInDoubt(keyID: signer.keyID, minutes: Int(age.components.seconds / 60)))
    }
}
