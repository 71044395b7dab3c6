import Cryptography
import PostgresStore
import Testing

@Suite struct `The master key` {
    private let secret = Array("-----BEGIN PRIVATE KEY-----".utf8)

    @Test func `opens what it sealed, for the same row`() throws {
        let key = try MasterKey.random()
        let sealed = try key.seal(secret, for: .credential(tenantID: 1, credentialID: 2))
        #expect(try key.open(sealed, of: .credential(tenantID: 1, credentialID: 2)) == secret)
        #expect(sealed.firstRange(of: secret) == nil)
    }

    @Test(arguments: [
        SecretOwner.credential(tenantID: 1, credentialID: 3), .credential(tenantID: 2, credentialID: 2),
        .providerToken(signer: [1, 2]),
    ])
    func `does not open what was moved to another row`(owner: SecretOwner) throws {
        let key = try MasterKey.random()
        let sealed = try key.seal(secret, for: .credential(tenantID: 1, credentialID: 2))
        #expect(throws: CryptographyError.self) { try key.open(sealed, of: owner) }
    }

    @Test func `is shown by nothing that prints it`() throws {
        let key = try #require(MasterKey(Array(repeating: 0xAB, count: 32)))
        var dumped = ""
        dump(key, to: &dumped)
        #expect("\(key) \(String(reflecting: key)) \(dumped)".lowercased().contains("abab") == false)
        #expect(key.hexadecimal == String(repeating: "ab", count: 32))
        #expect(MasterKey([1, 2, 3]) == nil)
    }
}
