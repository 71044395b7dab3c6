package import Cryptography

/// A provider token: the holder of a signing key shows it to APNs with every request (Apple: "Establishing a
/// token-based connection to APNs"). It is a JSON web token, signed with ES256, valid for an hour.
///
/// Apple refuses a key whose tokens change more often than every 20 minutes, in the whole fleet. So a token is minted
/// once for all workers and kept in the store; this type mints it and says how old it may get.
package struct ProviderToken: Hashable, Sendable {
    /// The age at which the next token is minted: between the minimum of 20 minutes and the lifetime of 60.
    package static let refreshSeconds: Int64 = 45 * 60
    /// The age at which it is replaced even if APNs has asked to keep it: APNs would soon refuse it anyway.
    package static let latestRefreshSeconds: Int64 = 55 * 60
    /// A token whose date is further ahead than this was minted before the clock was set back.
    package static let toleratedFutureSeconds: Int64 = 60
    /// Within this time, no second token may be minted for the same key.
    package static let minimumSeconds: Int64 = 20 * 60

    /// `header.claims.signature`. A secret.
    package let text: String
    /// When it was minted, in seconds since 1970.
    package let issuedAt: Int64

    /// A token that was minted before.
    package init(text: String, issuedAt: Int64) {
        self.text = text
        self.issuedAt = issuedAt
    }

    /// Mints a token.
    /// - Parameters:
    ///   - keyID: the signing key's identifier, ten characters.
    ///   - teamID: the team's identifier, ten characters.
    ///   - now: seconds since 1970 by the database's clock. APNs considers a token expired if its own clock differs by
    ///     an hour.
    package static func mint(
        key: PrivateKey, keyID: String, teamID: String, now: Int64
    ) throws(APNsError) -> ProviderToken {
        guard isIdentifier(keyID) else { throw .badKeyID(keyID) }
        guard isIdentifier(teamID) else { throw .badTeamID(teamID) }
        let header = Base64URL.encode("{\"alg\":\"ES256\",\"kid\":\"\(keyID)\"}".utf8)
        let claims = Base64URL.encode("{\"iss\":\"\(teamID)\",\"iat\":\(now)}".utf8)
        do {
            let signature = try ES256.signature(of: Array("\(header).\(claims)".utf8), with: key)
            return ProviderToken(text: "\(header).\(claims).\(Base64URL.encode(signature))", issuedAt: now)
        } catch {
            throw .signing(error)
        }
    }

    /// The value of the `authorization` field.
    var authorization: String { "bearer \(text)" }

    private static func isIdentifier(_ text: String) -> Bool {
        text.utf8.count == 10
            && text.utf8.allSatisfy {
                (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0)
                    || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0)
            }
    }
}

extension ProviderToken: CustomStringConvertible, CustomDebugStringConvertible {
    /// The text for logs, without the secret.
    package var description: String { "provider token issued at \(issuedAt)" }
    package var debugDescription: String { description }
}
