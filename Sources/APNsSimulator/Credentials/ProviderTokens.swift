import Cryptography
import FoundationEssentials

/// Checks provider tokens (JSON web tokens, ES256) as APNs does. Each one is checked once, since a client sends the
/// same one with every request. Source: Apple, "Establishing a token-based connection to APNs".
final class ProviderTokens {
    /// The result of checking a token.
    struct Verdict {
        /// Why it is never valid, if so.
        var refusal: DocumentedReason?
        /// `iat`, seconds since 1970.
        var issuedAt = 0
        var teamID = ""
        var keyID = ""
        /// Whether the same token will be judged in the same way later: not if it only came too soon.
        var isLasting = true
    }

    private struct Header: Decodable {
        var alg: String
        var kid: String
    }

    private struct Claims: Decodable {
        var iss: String
        var iat: Double
    }

    /// A token is good for an hour from its issue, by Apple's clock.
    private static let lifetimeSeconds = 3600
    private static let prefix = Array("bearer ".utf8)
    private static let maximumRemembered = 1024

    private let keys: [String: SigningKey]
    /// How much time must lie between two new tokens of one key; Apple's 20 minutes.
    let updateIntervalSeconds: Int
    private var verdicts: [[UInt8]: Verdict] = [:]
    private var lastUpdates: [String: Int] = [:]
    private var seen: Set<[UInt8]> = []

    init(keys: [SigningKey], updateInterval: Duration) {
        self.keys = Dictionary(keys.map { ($0.keyID, $0) }) { first, _ in first }
        updateIntervalSeconds = Int(updateInterval.components.seconds)
    }

    /// How many different tokens came, whether they were valid or not; no more than 1,024 are told apart.
    var seenCount: Int { seen.count }

    /// Judges the value of an `authorization` field; `now` in seconds since 1970.
    func verdict(on value: Span<UInt8>, now: Int) -> Verdict {
        guard value.count > Self.prefix.count, value.hasLowerCasePrefix(Self.prefix) else {
            return Verdict(refusal: .invalidProviderToken)
        }
        let token = (Self.prefix.count..<value.count).map { value[$0] }
        if let verdict = verdicts[token] { return verdict }
        if seen.count < Self.maximumRemembered { seen.insert(token) }
        let verdict = judge(token, now: now)
        if verdicts.count >= Self.maximumRemembered { verdicts.removeAll() }
        if verdict.isLasting { verdicts[token] = verdict }
        return verdict
    }

    /// Whether a token is too old or lies in the future: a clock is wrong, or the token was kept too long.
    func refusalByAge(of verdict: Verdict, now: Int) -> DocumentedReason? {
        abs(now - verdict.issuedAt) > Self.lifetimeSeconds ? .expiredProviderToken : nil
    }

    private func judge(_ token: [UInt8], now: Int) -> Verdict {
        let parts = token.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3, let signature = Base64URL.decode(parts[2]),
            let header: Header = Self.decode(parts[0]), let claims: Claims = Self.decode(parts[1]),
            header.alg == "ES256", let key = keys[header.kid], key.teamID == claims.iss,
            claims.iat.isFinite, abs(claims.iat) < 1e12,
            ES256.isValid(signature, of: Array(token.prefix(token.count - parts[2].count - 1)), by: key.publicKey)
        else { return Verdict(refusal: .invalidProviderToken) }
        var verdict = Verdict(issuedAt: Int(claims.iat), teamID: claims.iss, keyID: key.keyID)
        guard refusalByAge(of: verdict, now: now) == nil else { return verdict }
        if let last = lastUpdates[key.keyID], now - last < updateIntervalSeconds {
            verdict.refusal = .tooManyProviderTokenUpdates
            verdict.isLasting = false
        } else {
            lastUpdates[key.keyID] = now
        }
        return verdict
    }

    private static func decode<Value: Decodable>(_ part: ArraySlice<UInt8>) -> Value? {
        Base64URL.decode(part).flatMap { try? JSONDecoder().decode(Value.self, from: Data($0)) }
    }
}
