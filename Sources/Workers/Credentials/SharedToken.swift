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
/// Apple counts the tokens of a key, whatever database an installation keeps it in. So workers that serve several
/// databases name one of them as the keeper of tokens, and copy each token into their own: if the keeper is out of
/// reach, the copy goes on. A keeper that has no token that may be used, since it is new or was away for long, gets the
/// one of this database before another one is minted.
///
/// Belongs to the engine's event loop.
final class SharedToken {
    private static let patienceWithKeeper = Duration.seconds(1)
    /// The same while it is away: enough to begin an attempt to connect, which goes on. Intake waits for each token.
    private static let patienceWithLostKeeper = Duration.milliseconds(20)

    /// The time between two checks of a token that is due and may not be replaced yet.
    private let pollInterval: Duration

    private let store: EngineStore
    /// The database that keeps the tokens of all, if it is another one.
    private let keeper: EngineStore?
    private let masterKeys: MasterKeys
    private let signer: TokenSigner
    private let report: (EngineEvent) -> Void
    /// No check is needed before this time: the token that was last returned is young enough.
    private(set) var nextPoll = ContinuousClock.now
    /// The token that was last returned.
    private(set) var last: ProviderToken?
    /// The keeper's token that was last copied.
    private var copied: [UInt8]?
    /// The token for which it was reported that APNs calls it expired although it is young.
    private var doubted: ProviderToken?

    init(
        store: EngineStore, keeper: EngineStore? = nil, masterKeys: MasterKeys, signer: TokenSigner,
        pollInterval: Duration = EngineSettings().tokenPoll, report: @escaping (EngineEvent) -> Void
    ) {
        self.pollInterval = pollInterval
        self.store = store
        self.keeper = keeper
        self.masterKeys = masterKeys
        self.signer = signer
        self.report = report
    }

    /// The token to use now; a new one if the present one is due for it.
    /// - Parameter isRefused: APNs called the present one expired. If it is young all the same, some clock is wrong,
    ///   and another token would be as bad.
    func current(isRefused: Bool = false) async throws -> ProviderToken {
        if let keeper {
            do {
                return try await current(in: keeper, isRefused: isRefused)
            } catch is PostgresError {
                // Its own connection says that it is out of reach. The tenants of this database do not wait for it.
            }
        }
        return try await current(in: store, isRefused: isRefused)
    }

    private func current(in database: EngineStore, isRefused: Bool) async throws -> ProviderToken {
        for _ in 0..<3 {
            let (stored, now) = try await database.connection(within: patience(with: database))
                .providerToken(of: signer.digest)
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
                // Another one may have replaced the token that was refused.
                if isRefused, token.text == last?.text { doubt(token, age: stored.age) }
                use(token, age: stored.age)
                await copy(stored.sealed, from: database, issuedAt: token.issuedAt, age: stored.age)
                return token
            case .mint(let age):
                if database === keeper,
                    let token = try await bringOwn(
                        to: database, now: now, insteadOf: stored, ifOlderThan: age, isRefused: isRefused)
                {
                    return token
                }
                guard let token = try await mint(in: database, now: now, ifOlderThan: age) else { continue }
                if refusal != nil { report(.tokenMintedAnew(keyID: signer.keyID)) }
                return token
            }
        }
        throw CredentialProblem.tokenRace
    }

    /// Mints a token, unless another worker was first.
    private func mint(
        in database: EngineStore, now: Int64, ifOlderThan age: Duration
    ) async throws -> ProviderToken? {
        let token = try signer.mint(now: now)
        let sealed = try masterKeys.seal(Array(token.text.utf8), for: owner)
        let isFirst = try await database.connection(within: patience(with: database)).replaceProviderToken(
            of: signer.digest, sealed: sealed, issuedAt: now, ifOlderThan: age)
        guard isFirst else { return nil }
        await copy(sealed, from: database, issuedAt: now, age: .zero)
        use(token, age: .zero)
        return token
    }

    private func use(_ token: ProviderToken, age: Duration) {
        nextPoll = .now + max(.seconds(ProviderToken.refreshSeconds) - age, pollInterval)
        last = token
    }

    /// Puts the token of this database into the keeper, if it is one that may be used and is younger than the keeper's.
    /// Returns nil otherwise, and if another worker was first.
    private func bringOwn(
        to keeper: EngineStore, now: Int64, insteadOf present: StoredProviderToken?, ifOlderThan age: Duration,
        isRefused: Bool
    ) async throws -> ProviderToken? {
        guard let own = try await store.connection().providerToken(of: signer.digest).token,
            // The two databases' clocks may differ: the keeper's own token is no younger for that.
            present.map({ own.age < $0.age && own.sealed != $0.sealed }) ?? true,
            let token = try? open(own, now: now),
            TokenRules.decide(age: own.age, isKept: own.isKept, isRefused: isRefused, isReadable: { true }) == .use
        else { return nil }
        let isFirst = try await keeper.connection(within: patience(with: keeper)).replaceProviderToken(
            of: signer.digest, sealed: own.sealed, issuedAt: token.issuedAt, ifOlderThan: age)
        guard isFirst else { return nil }
        copied = own.sealed
        use(token, age: own.age)
        return token
    }

    /// Puts a token of the keeper in the place of an older one of this database.
    private func copy(_ sealed: [UInt8], from database: EngineStore, issuedAt: Int64, age: Duration) async {
        guard database === keeper, copied != sealed else { return }
        let isDone = await store.attempt {
            try await $0.replaceProviderToken(of: signer.digest, sealed: sealed, issuedAt: issuedAt, ifOlderThan: age)
        }
        if isDone != nil { copied = sealed }
    }

    /// APNs says that tokens were replaced too often: for 20 minutes the fleet keeps the one it has.
    func keep() async throws {
        let time = Duration.seconds(ProviderToken.minimumSeconds)
        if let keeper {
            await keeper.attempt(within: patience(with: keeper)) {
                try await $0.keepProviderToken(of: signer.digest, for: time)
            }
        }
        try await store.connection().keepProviderToken(of: signer.digest, for: time)
    }

    /// How long to wait for a connection. That to the keeper is tried in vain each time while it is away: all tokens of
    /// an engine share what is known of that.
    private func patience(with database: EngineStore) -> Duration {
        guard database === keeper else { return EngineStore.patience }
        return database.isAway ? Self.patienceWithLostKeeper : Self.patienceWithKeeper
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
