import PostgresStore
import Testing

@Suite struct `The master key` {
    private let secret = Array("-----BEGIN PRIVATE KEY-----".utf8)

    @Test func `opens what it sealed, for the same row`() throws {
        let key = try MasterKeys.random()
        let sealed = try key.seal(secret, for: .credential(tenantID: 1, credentialID: 2))
        #expect(try key.open(sealed, of: .credential(tenantID: 1, credentialID: 2)) == secret)
        #expect(sealed.firstRange(of: secret) == nil)
    }

    @Test(arguments: [
        SecretOwner.credential(tenantID: 1, credentialID: 3), .credential(tenantID: 2, credentialID: 2),
        .providerToken(signer: [1, 2]),
    ])
    func `does not open what was moved to another row`(owner: SecretOwner) throws {
        let key = try MasterKeys.random()
        let sealed = try key.seal(secret, for: .credential(tenantID: 1, credentialID: 2))
        #expect(throws: SealError.damaged) { try key.open(sealed, of: owner) }
    }

    @Test func `is shown by nothing that prints it`() throws {
        let key = try #require(MasterKey(Array(repeating: 0xAB, count: 32)))
        var dumped = ""
        dump(key, to: &dumped)
        #expect("\(key) \(String(reflecting: key)) \(dumped)".lowercased().contains("abab") == false)
        #expect(key.hexadecimal == String(repeating: "ab", count: 32))
        #expect(MasterKey([1, 2, 3]) == nil)
    }

    @Test func `of several, the first seals and all open, by the name that each sealed text begins with`() throws {
        let (old, new, other) = (try MasterKey.random(), try MasterKey.random(), try MasterKey.random())
        let owner = SecretOwner.credential(tenantID: 1, credentialID: 2)
        let before = MasterKeys(old, opening: [new])
        let after = MasterKeys(new, opening: [old])
        for (sealing, name) in [(before, old.name), (after, new.name)] {
            let sealed = try sealing.seal(secret, for: owner)
            #expect(MasterKeyName(in: sealed) == name)
            #expect(try before.open(sealed, of: owner) == secret)
            #expect(try after.open(sealed, of: owner) == secret)
            #expect(throws: SealError.unknownKey(name, known: [other.name])) {
                try MasterKeys(other).open(sealed, of: owner)
            }
        }
        let error = SealError.unknownKey(old.name, known: [other.name])
        #expect("\(error)".contains("under master key \(old.name), and this process has only \(other.name)"))
        #expect(!"\(error)".contains(old.hexadecimal.prefix(16)))
    }

    @Test func `opens nothing that was changed, wherever that was`() throws {
        let keys = try MasterKeys.random()
        let owner = SecretOwner.credential(tenantID: 1, credentialID: 2)
        let sealed = try keys.seal(secret, for: owner)
        for place in sealed.indices {
            var changed = sealed
            changed[place] ^= 1
            #expect(throws: SealError.self) { try keys.open(changed, of: owner) }
        }
        for count in 0..<sealed.count {
            #expect(throws: SealError.self) { try keys.open(Array(sealed.prefix(count)), of: owner) }
        }
    }
}
