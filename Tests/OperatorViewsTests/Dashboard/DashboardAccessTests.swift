import FoundationEssentials
import HTTP1
import OperatorViews
import Testing

@Suite struct `Who may use the page` {
    private static let readToken = "read-read-read-read-read"
    private static let changeToken = "change-change-change-change"
    private let fresh = DashboardAccess(
        readToken: readToken, changeToken: changeToken, hosts: ["localhost", "127.0.0.1", "[::1]", "Push.Example.com"])
    private let now = Date(timeIntervalSince1970: 1_800_000_000)

    private func head(_ method: String, _ path: String, _ fields: String...) throws -> RequestHead {
        let text = (["\(method) \(path) HTTP/1.1"] + fields).joined(separator: "\r\n") + "\r\n\r\n"
        return try #require(try RequestHead.parse(Array(text.utf8), maximumBody: 100)).head
    }

    /// The status with which a request is refused; nil if it is accepted.
    private func refusal(_ head: RequestHead) -> Int? {
        do throws(DashboardError) {
            try fresh.checkOrigin(of: head)
            return nil
        } catch {
            return error.status
        }
    }

    @Test(
        arguments: [
            ("localhost:9465", nil), ("127.0.0.1", nil), ("[::1]:9465", nil), ("push.example.com", nil),
            ("PUSH.example.com:443", nil), ("evil.example.com", 421), ("localhost.evil.example.com", 421), ("", 421),
            ("127.0.0.1.evil.example.com:9465", 421),
        ] as [(String, Int?)])
    func `is decided by the host first, whose name may be pointed here by others`(host: String, status: Int?) throws {
        #expect(refusal(try head("GET", "/", "Host: \(host)")) == status)
        #expect(refusal(try head("GET", "/api/overview", "Host: \(host)")) == status)
    }

    private static let json = "Content-Type: application/json"

    @Test(
        arguments: [
            (["Sec-Fetch-Site: same-origin", json], nil), (["Sec-Fetch-Site: cross-site", json], 403),
            (["Sec-Fetch-Site: same-site", json], 403), (["Sec-Fetch-Site: none", json], 403),
            (["Sec-Fetch-Site: cross-site", "Origin: http://localhost:9465", json], 403),
            (["Origin: http://localhost:9465", json], nil), (["Origin: https://LOCALHOST:9465", json], nil),
            (["Origin: http://localhost:9466", json], 403), (["Origin: null", json], 403),
            (["Origin: http://evil.example.com", json], 403), ([json], nil),
            (["Cookie: pushq_session_9465=x", json], 403),
            (["Sec-Fetch-Site: same-origin"], 415), (["Sec-Fetch-Site: same-origin", "Content-Type: text/plain"], 415),
            (["Content-Type: application/json; charset=utf-8"], nil),
        ] as [([String], Int?)])
    func `changes something only from the page itself, or from no page at all`(fields: [String], status: Int?) throws {
        let text =
            (["POST /api/order HTTP/1.1", "Host: localhost:9465"] + fields).joined(separator: "\r\n") + "\r\n\r\n"
        let head = try #require(try RequestHead.parse(Array(text.utf8), maximumBody: 100)).head
        #expect(refusal(head) == status)
    }

    @Test func `reads something only from the page itself, and the page is shown to whoever follows a link`() throws {
        let foreign = "Sec-Fetch-Site: cross-site"
        #expect(refusal(try head("GET", "/", "Host: localhost", foreign)) == nil)
        #expect(refusal(try head("GET", "/dashboard.js", "Host: localhost", foreign)) == nil)
        #expect(refusal(try head("GET", "/api/overview", "Host: localhost", foreign)) == 403)
        #expect(refusal(try head("GET", "/api/overview", "Host: localhost", "Sec-Fetch-Site: none")) == nil)
    }

    @Test func `is decided by the token, for twelve hours`() throws {
        var access = fresh
        let (read, readCookie) = try access.signIn(token: Self.readToken, name: "", now: now)
        let (change, changeCookie) = try access.signIn(token: Self.changeToken, name: "Anna", now: now)
        #expect((read.right, change.right, change.name) == (.read, .change, "Anna"))
        #expect(readCookie != changeCookie && readCookie.count == 64)
        let request = try head("GET", "/", "Host: localhost", "Cookie: a=b; pushq_session=\(changeCookie)")
        #expect(access.session(of: request, now: now) == change)
        #expect(access.session(of: request, now: now + 12 * 3600 + 1) == nil)
        #expect(access.session(of: try head("GET", "/", "Host: x", "Cookie: pushq_session=none"), now: now) == nil)
        #expect(access.session(of: try head("GET", "/", "Host: x"), now: now) == nil)
        access.signOut(request)
        #expect(access.session(of: request, now: now) == nil)
        let bearer = try head("GET", "/", "Host: x", "Authorization: Bearer \(Self.readToken)")
        #expect(access.session(of: bearer, now: now)?.right == .read)
        #expect(
            access.session(of: try head("GET", "/", "Host: x", "Authorization: Bearer read"), now: now) == nil)
    }

    @Test func `cannot be found out by trying tokens`() throws {
        var access = fresh
        func status(of token: String) -> Int? {
            do {
                _ = try access.signIn(token: token, name: "", now: now)
                return nil
            } catch {
                return (error as? DashboardError)?.status
            }
        }
        for _ in 1...20 { #expect(status(of: "wrong") == 401) }
        #expect(status(of: Self.readToken) == 429)
        #expect(try access.signIn(token: Self.readToken, name: "", now: now + 61).session.right == .read)
    }

    /// Otherwise any client that reaches the port could lock out a monitoring program, and all users.
    @Test func `is not taken from anybody by a stranger's wrong bearer tokens`() throws {
        var access = fresh
        for _ in 1...40 {
            let wrong = try head("GET", "/", "Host: x", "Authorization: Bearer wrong")
            #expect(access.session(of: wrong, now: now) == nil)
        }
        let right = try head("GET", "/", "Host: x", "Authorization: Bearer \(Self.readToken)")
        #expect(access.session(of: right, now: now)?.right == .read)
        #expect(try access.signIn(token: Self.readToken, name: "", now: now).session.right == .read)
    }

    @Test func `is kept in a cookie that no other page and no script gets`() throws {
        let request = try head("GET", "/", "Host: localhost")
        #expect(
            DashboardAccess.setCookie("x", for: request)
                == "pushq_session=x; Path=/; HttpOnly; SameSite=Strict; Max-Age=43200")
        #expect(DashboardAccess.setCookie(nil, for: request).hasSuffix("Max-Age=0"))
    }

    /// A TLS proxy stands in front of the page, and the same host may also be reached without TLS.
    @Test func `is kept in a cookie that is never sent in clear, if the page comes over TLS`() throws {
        let secure = try head("POST", "/api/sign-in", "Host: push.example.com", "Origin: HTTPS://push.example.com")
        #expect(
            DashboardAccess.setCookie("x", for: secure)
                == "pushq_session=x; Path=/; HttpOnly; SameSite=Strict; Max-Age=43200; Secure")
        #expect(DashboardAccess.setCookie(nil, for: secure).hasSuffix("Max-Age=0; Secure"))
        let plain = try head("POST", "/api/sign-in", "Host: localhost:9465", "Origin: http://localhost:9465")
        #expect(!DashboardAccess.setCookie("x", for: plain).contains("Secure"))
    }

    /// A browser sends all cookies of a host to each of its ports.
    @Test(arguments: ["127.0.0.1:9465", "[::1]:9465", "localhost", "[::1]"])
    func `is not lost when the user signs in to another dashboard of the same host`(host: String) throws {
        var access = fresh
        let (session, secret) = try access.signIn(token: Self.readToken, name: "", now: now)
        let own = DashboardAccess.setCookie(secret, for: try head("GET", "/", "Host: \(host)")).prefix { $0 != ";" }
        let other = DashboardAccess.setCookie("other", for: try head("GET", "/", "Host: localhost:9466"))
            .prefix { $0 != ";" }
        for cookies in ["\(own); \(other)", "\(other); \(own)"] {
            let request = try head("GET", "/", "Host: \(host)", "Cookie: \(cookies)")
            #expect(access.session(of: request, now: now) == session)
        }
        #expect(own.prefix { $0 != "=" } != other.prefix { $0 != "=" })
    }
}
