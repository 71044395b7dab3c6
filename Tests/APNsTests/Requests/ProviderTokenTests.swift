import APNs
import Cryptography
import Foundation
import QueueCore
import Testing

@Suite struct `A provider token` {
    private let key: PrivateKey

    init() throws {
        key = try .makeP256()
    }

    private func mint(now: Int64 = 1_800_000_000) throws -> ProviderToken {
        try .mint(key: key, keyID: "ABC123DEFG", teamID: "TEAM123456", now: now)
    }

    @Test func `names key, team and time, and is signed by the key`() throws {
        let parts = try mint().text.split(separator: ".").map(String.init)
        try #require(parts.count == 3)
        let header = try JSONDecoder().decode([String: String].self, from: decoded(parts[0]))
        #expect(header == ["alg": "ES256", "kid": "ABC123DEFG"])
        let claims = try JSONSerialization.jsonObject(with: decoded(parts[1])) as? [String: Any]
        #expect(claims?["iss"] as? String == "TEAM123456")
        #expect(claims?["iat"] as? Int64 == 1_800_000_000)
        #expect(claims?.count == 2)
        let signature = Array(try decoded(parts[2]))
        #expect(ES256.isValid(signature, of: Array("\(parts[0]).\(parts[1])".utf8), by: try key.publicKey()))
    }

    @Test func `does not show itself in a description`() throws {
        let token = try mint()
        #expect(!"\(token)".contains(token.text) && !String(reflecting: token).contains(token.text))
    }

    @Test(arguments: ["", "ABC", "abc123defg", "ABC123DEFGH", "ABC\"23DEFG"])
    func `is not minted for what is no identifier`(text: String) {
        #expect(throws: APNsError.badKeyID(text)) {
            try ProviderToken.mint(key: key, keyID: text, teamID: "TEAM123456", now: 0)
        }
        #expect(throws: APNsError.badTeamID(text)) {
            try ProviderToken.mint(key: key, keyID: "ABC123DEFG", teamID: text, now: 0)
        }
    }

    private func decoded(_ part: String) throws -> Data {
        Data(try #require(Base64URL.decode(part.utf8)))
    }
}

@Suite struct `An endpoint` {
    @Test func `is Apple's own for an environment`() {
        #expect(Endpoint(.production).description == "api.push.apple.com:443")
        #expect(Endpoint(.sandbox).description == "api.sandbox.push.apple.com:443")
    }

    @Test func `keeps the host of its environment at the other port of Apple's`() {
        #expect(Endpoint(.production, port: 2197).description == "api.push.apple.com:2197")
        #expect(Endpoint(.sandbox, port: 2197).description == "api.sandbox.push.apple.com:2197")
        #expect(Endpoint.isApples("API.Push.Apple.com.") && Endpoint.isApples("api.development.push.apple.com"))
        #expect(!Endpoint.isApples("localhost") && !Endpoint.isApples("push.apple.com.example.com"))
    }

    @Test(arguments: [
        ("localhost:8443", "localhost", 8443), ("[::1]:2197", "::1", 2197), ("127.0.0.1:1", "127.0.0.1", 1),
    ])
    func `is read from host and port`(text: String, host: String, port: UInt16) throws {
        let endpoint = try Endpoint(parsing: text)
        #expect(endpoint.host == host && endpoint.port == port && endpoint.description == text)
    }

    @Test(arguments: ["", "localhost", "localhost:", ":443", "localhost:0", "localhost:65536", "::1:443", "a b:443"])
    func `is not read from anything else`(text: String) {
        #expect(throws: APNsError.badEndpoint(text)) { try Endpoint(parsing: text) }
    }
}
