import HTTP1
import Testing

@Suite struct `The URL of a request` {
    @Test(arguments: [
        ("https://push.acme.example/devices", true, "push.acme.example", 443, "/devices", "push.acme.example"),
        ("HTTPS://Push.Acme.Example", true, "push.acme.example", 443, "/", "push.acme.example"),
        ("http://localhost:8080/a/b?c=d&e", false, "localhost", 8080, "/a/b?c=d&e", "localhost:8080"),
        ("https://a_b-c.example:443?x=1", true, "a_b-c.example", 443, "/?x=1", "a_b-c.example"),
        ("https://[2001:db8::1]/x", true, "2001:db8::1", 443, "/x", "[2001:db8::1]"),
        ("https://[::1]:444", true, "::1", 444, "/", "[::1]:444"),
        ("http://192.0.2.1:80/%0d%0a", false, "192.0.2.1", 80, "/%0d%0a", "192.0.2.1"),
    ])
    func `is taken apart`(
        text: String, isSecure: Bool, host: String, port: Int, target: String, field: String
    ) throws {
        let address = try WebAddress(parsing: text)
        #expect(address.text == text.replacing("HTTPS", with: "https"))
        #expect(address.isSecure == isSecure && address.host == host)
        #expect(address.port == UInt16(port) && address.target == target && address.hostField == field)
    }

    @Test(arguments: [
        ("", WebAddressFault.scheme), ("push.acme.example", .scheme), ("ftp://a/b", .scheme), ("https:/a", .scheme),
        ("https://", .host), ("https:///x", .host), ("https://:80/", .host), ("https://a b/", .characters),
        ("https://a/\r\nx: y", .characters), ("https://a/\u{0}", .characters),
        ("https://münchen.example/", .characters),
        ("https://user@a/", .user), ("https://user:word@a/", .user), ("https://a/#b", .fragment),
        ("https://a?#", .fragment), ("https://a:/", .port), ("https://a:0/", .port), ("https://a:65536/", .port),
        ("https://a:+80/", .port), ("https://a:80:80/", .host), ("https://[::1/", .host), ("https://[::1]x/", .host),
        ("https://[a]/", .host), ("https://a%2fb/", .host), ("https://a\\b/", .host), ("https://::1/", .host),
    ])
    func `is refused with a reason`(text: String, fault: WebAddressFault) {
        #expect(throws: fault) { try WebAddress(parsing: text) }
    }

    @Test func `has an end`() throws {
        let longest = "https://a/" + String(repeating: "x", count: WebAddress.maximumLength - 10)
        #expect(try WebAddress(parsing: longest).target.count == WebAddress.maximumLength - 9)
        #expect(throws: WebAddressFault.tooLong) { try WebAddress(parsing: longest + "x") }
    }
}
