import APNs
import Cryptography
import PostgresStore
import Transport

/// The provider token of one signer. One worker of the fleet mints it, and all workers share it through the database,
/// whichever credentials contain the key.
///
/// The database's clock determines the age of the token. A new token replaces the old one only if the old one is old
/// enough at that moment. ``TokenRules`` decides what to do with the token.
///
/// Apple counts the tokens of a key, whatever database an installation keeps them in. So workers that serve several
/// databases name one of them as the keeper of tokens, and copy each token into their own database. If the keeper is
/// out of reach, they go on with the copy. If the keeper has no usable token, because it is new or was away for long,
/// it gets this database's token before another one is minted.
///
/// Belongs to the engine's event loop.
final class SharedToken {
    private static let patienceWithKeeper = Duration.seconds(1)
    /// The same while the keeper is away: enough to begin an attempt to connect, which continues. Intake waits for each
    /// token.
    private static let patienceWithLostKeeper = Duration.milliseconds(20)

    /// The time between two checks of a token that is due but may not be replaced yet.
    private let pollInterval: Duration

    private let store: RetryingConnection
    /// The database that keeps the tokens of all databases, if it is another one.
    private let keeper: RetryingConnection?
    private let masterKeys: MasterKeys
    private let signer: TokenSigner
    private let report: (EngineEvent) -> Void
    /// No check is needed before this time, because the last returned token is young enough.
    private(set) var nextPoll = ContinuousClock.now
    /// The last returned token.
    private(set) var last: ProviderToken?
    /// The keeper's token that was copied last.
    private var copied: [UInt8]?
    /// The token for which it was reported that APNs calls it expired although it is young.
    private var doubted: ProviderToken?

    init(
        store: RetryingConnection, keeper: RetryingConnection? = nil, masterKeys: MasterKeys, signer: TokenSigner,
        pollInterval: Duration = EngineSettings().tokenPoll, report: @escaping (EngineEvent) -> Void
    ) {
        self.pollInterval = pollInterval
        self.store = store
        self.keeper = keeper
        self.masterKeys = masterKeys
        self.signer = signer
        self.report = report
    }

    /// Returns the token to use now: the present one, or a new one if that is due.
    /// - Parameter isRefused: whether APNs called the present token expired. If the token is young nevertheless, some
    ///   clock is wrong, and another token would be refused, too.
    func current(isRefused: Bool = false) async throws -> ProviderToken {
        if let keeper {
            do {
                return try await current(in: keeper, isRefused: isRefused)
            } catch is PostgresError {
                // The keeper's connection reports that it is out of reach. The tenants of this database do not wait for
                // it.
            }
        }
        return try await current(in: store, isRefused: isRefused)
    }

    private func current(in database: RetryingConnection, isRefused: Bool) async throws -> ProviderToken {
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
                guard let stored, let token = readable else { fatalError("a token that is used is readable") }
                // Another worker may have replaced the token that was refused.
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

    /// Mints a token. Returns nil if another worker was first.
    private func mint(
        in database: RetryingConnection, now: Int64, ifOlderThan age: Duration
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

    /// Stores this database's token in the keeper, if it is usable and younger than the keeper's. Returns nil if not,
    /// or if another worker was first.
    private func bringOwn(
        to keeper: RetryingConnection, now: Int64, insteadOf present: StoredProviderToken?, ifOlderThan age: Duration,
        isRefused: Bool
    ) async throws -> ProviderToken? {
        guard let own = try await store.connection().providerToken(of: signer.digest).token,
            // The clocks of the two databases may differ, which does not make the keeper's own token younger.
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

    /// Replaces an older token of this database by the keeper's token.
    private func copy(_ sealed: [UInt8], from database: RetryingConnection, issuedAt: Int64, age: Duration) async {
        guard database === keeper, copied != sealed else { return }
        let isDone = await store.attempt {
            try await $0.replaceProviderToken(of: signer.digest, sealed: sealed, issuedAt: issuedAt, ifOlderThan: age)
        }
        if isDone != nil { copied = sealed }
    }

    /// Makes the fleet keep its token for 20 minutes, because APNs says that tokens were replaced too often.
    func keep() async throws {
        let time = Duration.seconds(ProviderToken.minimumSeconds)
        if let keeper {
            await keeper.attempt(within: patience(with: keeper)) {
                try await $0.keepProviderToken(of: signer.digest, for: time)
            }
        }
        try await store.connection().keepProviderToken(of: signer.digest, for: time)
    }

    /// How long to wait for a connection. While the keeper is away, each wait for it fails. All tokens of an engine
    /// share what is known about that.
    private func patience(with database: RetryingConnection) -> Duration {
        guard database === keeper else { return RetryingConnection.patience }
        return database.isAway ? Self.patienceWithLostKeeper : Self.patienceWithKeeper
    }

    private var owner: SecretOwner { .providerToken(signer: signer.digest) }

    private func open(_ stored: StoredProviderToken, now: Int64) throws(SealError) -> ProviderToken {
        let text = try masterKeys.open(stored.sealed, of: owner)
        return ProviderToken(
            text: String(decoding: text, as: UTF8.self), issuedAt: now - stored.age.components.seconds)
    }

    /// Reports, once for each token, that a clock must be wrong.
    private func doubt(_ token: ProviderToken, age: Duration) {
        guard doubted?.text != token.text else { return }
        doubted = token
        report(.clockInDoubt(keyID: signer.keyID, minutes: Int(age.components.seconds / 60)))
    }
}
