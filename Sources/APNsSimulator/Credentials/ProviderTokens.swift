import Cryptography
import FoundationEssentials

/// Checks provider tokens (JSON web tokens, ES256) as APNs does. It checks each token once, since a client sends the
/// same one with every request. Source: Apple, "Establishing a token-based connection to APNs".
final class ProviderTokens {
    /// The result of checking a token.
    struct Verdict {
        /// Why the token is refused whatever its age, if so.
        var refusal: DocumentedReason?
        /// `iat`, seconds since 1970.
        var issuedAt = 0
        var teamID = ""
        var keyID = ""
        /// Whether the verdict on the same token stays the same. It does not if the token only came too soon.
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

    /// A token is valid for an hour from its issue, by Apple's clock.
    private static let lifetimeSeconds = 3600
    private static let prefix = Array("bearer ".utf8)
    private static let maximumRemembered = 1024

    private let keys: [String: SigningKey]
    /// The minimum time between two new tokens of one key; Apple's is 20 minutes.
    let updateIntervalSeconds: Int
    private var verdicts: [[UInt8]: Verdict] = [:]
    /// The last token that each key was used with, and when it came first.
    private var lastUpdates: [String: (token: [UInt8], at: Int)] = [:]
    private var seen: Set<[UInt8]> = []

    init(keys: [SigningKey], updateInterval: Duration) {
        self.keys = Dictionary(keys.map { ($0.keyID, $0) }) { first, _ in first }
        updateIntervalSeconds = Int(updateInterval.components.seconds)
    }

    /// How many different tokens came, valid or not; at most 1,024 are counted.
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

    /// Returns the refusal of a token that is more than an hour old, or as far in the future: a clock is wrong, or the
    /// client kept the token too long.
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
        if let last = lastUpdates[key.keyID], last.token != token, now - last.at < updateIntervalSeconds {
            verdict.refusal = .tooManyProviderTokenUpdates
            verdict.isLasting = false
        } else {
            lastUpdates[key.keyID] = (token, lastUpdates[key.keyID].flatMap { $0.token == token ? $0.at : nil } ?? now)
        }
        return verdict
    }

    private static func decode<Value: Decodable>(_ part: ArraySlice<UInt8>) -> Value? {
        Base64URL.decode(part).flatMap { try? JSONDecoder().decode(Value.self, from: Data($0)) }
    }
}
