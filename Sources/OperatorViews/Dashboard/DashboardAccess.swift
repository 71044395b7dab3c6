import Cryptography
package import FoundationEssentials
package import HTTP1

/// Decides by the head of a request whether the page is served for it, and what its sender may do. It is a value
/// without a clock: its owner passes the time.
///
/// A browser sends requests to this machine on behalf of any page that is open in it. These rules keep other pages out:
/// - The host must be one that the page is served for. So a name that the owner of another page points here (DNS
///   rebinding) is refused.
/// - A request that changes something must come from the page itself: by `Sec-Fetch-Site` if the browser sends it
///   (Fetch Metadata), otherwise by `Origin` against `Host`. The same holds for every read except the page's own files.
/// - The session's cookie is `SameSite=Strict` and `HttpOnly`, and `Secure` if the page comes over TLS.
package struct DashboardAccess: Sendable {
    /// What a session may do. The right to change includes the right to read.
    package enum Right: String, Comparable, Sendable {
        case none, read, change

        package static func < (one: Right, other: Right) -> Bool { one.rank < other.rank }

        private var rank: Int { self == .none ? 0 : self == .read ? 1 : 2 }
    }

    /// The session of an operator who has signed in.
    package struct Session: Equatable, Sendable {
        package let right: Right
        /// The name that the operator chose for the audit; empty if none.
        package let name: String
        fileprivate let endsAt: Date
    }

    /// The lifetime of a session, regardless of its use.
    package static let sessionSeconds = 12 * 3600
    /// The maximum number of sessions. When one more begins, the oldest ends.
    private static let maximumSessions = 200
    /// The maximum number of wrong tokens within a minute. After that, no operator can sign in until the minute is
    /// over.
    private static let maximumMistakes = 20

    private let readDigest: [UInt8]
    private let changeDigest: [UInt8]
    private let hosts: Set<String>
    /// The sessions by the digest of the secret in the cookie.
    private var sessions: [[UInt8]: Session] = [:]
    private var mistakes: [Date] = []

    /// - Parameters:
    ///   - readToken: gives the right to read.
    ///   - changeToken: gives the right to read and change.
    ///   - hosts: the names that the page is served for, without ports.
    package init(readToken: String, changeToken: String, hosts: Set<String>) {
        readDigest = SHA256.digest(of: Array(readToken.utf8))
        changeDigest = SHA256.digest(of: Array(changeToken.utf8))
        self.hosts = Set(hosts.map { $0.lowercased() })
    }

    // MARK: Where a request comes from

    /// Throws unless the request is for a host of the page, and comes from the page or from no page at all.
    package func checkOrigin(of head: RequestHead) throws(DashboardError) {
        guard let host = head.values(of: "host").first, hosts.contains(Self.name(of: host)) else {
            throw DashboardError(
                status: 421, text: "the page is not served for this host; add the name with --allow-host")
        }
        let isPage = ["GET", "HEAD"].contains(head.method) && !head.path.hasPrefix("/api/")
        guard !isPage else { return }
        if let site = head.values(of: "sec-fetch-site").first {
            guard site == "same-origin" || site == "none" && head.method == "GET" else {
                throw DashboardError(status: 403, text: "the request comes from another page")
            }
        } else if let origin = head.values(of: "origin").first {
            let own = ["http://", "https://"].map { $0 + host.lowercased() }
            guard own.contains(origin.lowercased()) else {
                throw DashboardError(status: 403, text: "the request comes from another page")
            }
        } else if head.method != "GET", head.method != "HEAD", Self.cookie(of: head) != nil {
            // Every browser that supports such cookies sends one of the two fields.
            throw DashboardError(status: 403, text: "the request does not say which page it comes from")
        }
        guard head.method != "POST" || Self.isJSON(head) else {
            throw DashboardError(status: 415, text: "the body of a request must be application/json")
        }
    }

    /// The host name without the port: `[::1]` for `[::1]:9465`.
    private static func name(of host: String) -> String {
        let name = host.lowercased()
        if name.hasPrefix("["), let end = name.firstIndex(of: "]") { return String(name[...end]) }
        return String(name.prefix { $0 != ":" })
    }

    private static func isJSON(_ head: RequestHead) -> Bool {
        let type = head.values(of: "content-type").first ?? ""
        return type.prefix { $0 != ";" }.lowercased().filter { $0 != " " } == "application/json"
    }

    // MARK: Who it is

    /// The session of a request, by its cookie or by the token in `Authorization: Bearer`; nil if neither is valid.
    package func session(of head: RequestHead, now: Date) -> Session? {
        if let bearer = head.values(of: "authorization").first, bearer.lowercased().hasPrefix("bearer ") {
            let right = right(of: String(bearer.dropFirst("bearer ".count)))
            return right == .none ? nil : Session(right: right, name: "", endsAt: .distantFuture)
        }
        guard let cookie = Self.cookie(of: head), let session = sessions[SHA256.digest(of: Array(cookie.utf8))],
            session.endsAt > now
        else { return nil }
        return session
    }

    /// Begins a session for an operator with a valid token. Returns the session and the secret for its cookie.
    package mutating func signIn(
        token: String, name: String, now: Date
    ) throws -> (session: Session, cookie: String) {
        mistakes.removeAll { $0 < now - 60 }
        guard mistakes.count < Self.maximumMistakes else {
            throw DashboardError(status: 429, text: "too many wrong tokens; wait a minute")
        }
        let right = right(of: token)
        guard right != .none else {
            mistakes.append(now)
            throw DashboardError(
                status: 401, text: "wrong token; use one that was printed when the dashboard was started")
        }
        let secret = try SecureRandom.bytes(32).map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
        let session = Session(right: right, name: name, endsAt: now + Double(Self.sessionSeconds))
        sessions = sessions.filter { $0.value.endsAt > now }
        if sessions.count >= Self.maximumSessions, let oldest = sessions.min(by: { $0.value.endsAt < $1.value.endsAt })
        {
            sessions[oldest.key] = nil
        }
        sessions[SHA256.digest(of: Array(secret.utf8))] = session
        return (session, secret)
    }

    /// Ends the session of the request.
    package mutating func signOut(_ head: RequestHead) {
        guard let cookie = Self.cookie(of: head) else { return }
        sessions[SHA256.digest(of: Array(cookie.utf8))] = nil
    }

    /// Compares all digests, and each to its end, so that the time taken reveals nothing about a token.
    private func right(of token: String) -> Right {
        let digest = SHA256.digest(of: Array(token.utf8))
        let isChange = Self.areEqual(digest, changeDigest)
        let isRead = Self.areEqual(digest, readDigest)
        return isChange ? .change : isRead ? .read : .none
    }

    private static func areEqual(_ one: [UInt8], _ other: [UInt8]) -> Bool {
        zip(one, other).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0 && one.count == other.count
    }

    // MARK: The cookie

    /// The name has the port as the browser knows it: a browser gives all ports of a host the same cookies (RFC 6265
    /// §8.5), and signing in to one dashboard must not sign anybody out of another.
    private static func cookieName(for head: RequestHead) -> String {
        let host = head.values(of: "host").first ?? ""
        guard let colon = host.lastIndex(of: ":"), !host.hasSuffix("]") else { return "pushq_session" }
        return "pushq_session_" + host[host.index(after: colon)...].filter { $0.isASCII && $0.isNumber }
    }

    /// The value of `Set-Cookie` that sets the session's secret, or deletes the cookie if there is none.
    ///
    /// A browser that has the page over TLS must not send the secret to the same host in clear (RFC 6265 §4.1.2.5). The
    /// proxy in between ends TLS, but the browser says in the `Origin` of its POST how it has reached the page.
    package static func setCookie(_ secret: String?, for head: RequestHead) -> String {
        let isOverTLS = head.values(of: "origin").first?.lowercased().hasPrefix("https://") == true
        return "\(cookieName(for: head))=\(secret ?? ""); Path=/; HttpOnly; SameSite=Strict; "
            + "Max-Age=\(secret == nil ? 0 : sessionSeconds)\(isOverTLS ? "; Secure" : "")"
    }

    private static func cookie(of head: RequestHead) -> String? {
        let name = cookieName(for: head)
        for pair in head.values(of: "cookie").flatMap({ $0.split(separator: ";") }) {
            let parts = pair.split(separator: "=", maxSplits: 1).map { $0.filter { $0 != " " } }
            if parts.count == 2, parts[0] == name { return parts[1] }
        }
        return nil
    }
}
