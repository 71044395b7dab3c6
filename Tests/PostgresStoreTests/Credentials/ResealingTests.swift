import Cryptography
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@Suite(.timeLimit(.minutes(10))) struct `Going to another master key` {
    private let old = MasterKey(Array(repeating: 1, count: 32))!
    private let new = MasterKey(Array(repeating: 2, count: 32))!

    /// Creates a tenant with credentials and provider tokens that are sealed under `key`.
    private func seal(
        _ credentials: Int, tokens: Int, under key: MasterKey, _ name: String, in store: PostgresConnection
    ) async throws {
        let keys = MasterKeys(key)
        _ = try await store.createTenant("acme")
        for index in 0..<credentials {
            guard let (id, _) = try await store.newCredentialID("\(name)-\(index)", of: "acme") else { return }
            let credential = NewCredential(
                kind: .token(teamID: "T", keyID: "K"), environments: ["sandbox"],
                sealed: try keys.seal(Array("secret \(id.id)".utf8), for: id.secretOwner))
            _ = try await store.addCredential(credential, name: "\(name)-\(index)", as: id)
        }
        for index in 0..<tokens {
            let signer = SHA256.digest(of: Array("\(name) \(index)".utf8))
            let sealed = try keys.seal(signer, for: .providerToken(signer: signer))
            _ = try await store.replaceProviderToken(
                of: signer, sealed: sealed, issuedAt: 4_000_000_000, ifOlderThan: .zero)
        }
    }

    /// Expects that every secret opens under `keys`, and is unchanged.
    private func expectReadable(_ keys: MasterKeys, in store: PostgresConnection) async throws {
        let credentials = try await store.execute(
            Statement("credentials", "select tenant_id, id, sealed from pushq.credential"))
        for row in credentials {
            let owner = SecretOwner.credential(tenantID: row.int4("tenant_id"), credentialID: row.int4("id"))
            #expect(try keys.open(row.bytes("sealed"), of: owner) == Array("secret \(row.int4("id"))".utf8))
        }
        for row in try await store.execute(Statement("tokens", "select signer, sealed from pushq.provider_token")) {
            let signer = row.bytes("signer")
            #expect(try keys.open(row.bytes("sealed"), of: .providerToken(signer: signer)) == signer)
        }
    }

    @Test func `seals everything anew in steps, keeps versions, and finds nothing the second time`() async throws {
        try await withDatabase { _, database in
            let store = try await database.connect()
            try await seal(12, tokens: 3, under: old, "old", in: store)
            try await seal(5, tokens: 2, under: new, "new", in: store)
            // One of two webhooks has changed its secret, so three of the four secrets are sealed under the old key.
            for (index, tenant) in ["hook-1", "hook-2"].enumerated() {
                _ = try await store.createTenant(tenant)
                guard let place = try await store.webhook(of: tenant) else { return }
                for (secret, key) in [("a", old), ("b", index == 0 ? old : new)] {
                    try await store.setWebhook(
                        ofTenant: place.tenantID, url: "https://a.example/",
                        sealed: MasterKeys(key).seal(Array(secret.utf8), for: .webhook(tenantID: place.tenantID)),
                        formerFor: .seconds(3600))
                }
            }
            #expect(
                Set(try await store.secretsByKey().map { "\($0.name) \($0.credentials) \($0.tokens) \($0.webhooks)" })
                    == ["\(old.name) 12 3 3", "\(new.name) 5 2 1"])
            let keys = MasterKeys(new, opening: [old])
            var steps = 0
            let done = try await store.reseal(under: keys, step: 5) { _ in steps += 1 }
            #expect(done.credentials == 12 && done.tokens == 3 && done.webhooks == 3)
            #expect(done.failures.isEmpty && steps == 18)
            #expect(try await store.secretsByKey().map(\.name) == [new.name])
            try await expectReadable(MasterKeys(new), in: store)
            for tenant in ["hook-1", "hook-2"] {
                guard let place = try await store.webhook(of: tenant), let webhook = place.webhook else { return }
                let opened = try [webhook.sealed, webhook.formerSealed ?? []].map {
                    try MasterKeys(new).open($0, of: .webhook(tenantID: place.tenantID))
                }
                #expect(opened == [Array("b".utf8), Array("a".utf8)])
            }
            let versions = try await store.execute(
                Statement("versions", "select sum(version) as sum from pushq.credential"))
            #expect(try versions.one().count("sum") == 17, "workers open nothing anew")
            #expect(try await store.reseal(under: keys) == Resealing())
        }
    }

    @Test func `goes on where an earlier run was interrupted`() async throws {
        try await withDatabase { _, database in
            let store = try await database.connect()
            try await seal(12, tokens: 3, under: old, "old", in: store)
            let keys = MasterKeys(new, opening: [old])
            struct Interruption: Error {}
            // The connection breaks during the resealing.
            let doomed = try await database.connect()
            await #expect(throws: PostgresError.self) {
                _ = try await doomed.reseal(under: keys, step: 5) { if $0.credentials == 7 { doomed.close() } }
            }
            try await expectReadable(keys, in: store)
            #expect(try await store.reseal(under: keys).credentials == 5)
            #expect(try await store.secretsByKey().map(\.name) == [new.name])
        }
    }

    @Test func `leaves alone, and names, what does not open`() async throws {
        try await withDatabase { _, database in
            let store = try await database.connect()
            try await seal(2, tokens: 1, under: old, "old", in: store)
            let done = try await store.reseal(under: MasterKeys(new), step: 1)
            #expect(done.credentials == 0 && done.failures.count == 3)
            #expect(done.failures[0].contains("credential acme/old-0: it was sealed under master key \(old.name)"))
            try await store.runScript(
                "update pushq.credential set sealed = overlay(sealed placing '\\x00' from 20) where name = 'old-0'")
            let again = try await store.reseal(under: MasterKeys(new, opening: [old]))
            #expect(again.credentials == 1 && again.tokens == 1)
            #expect(
                again.failures == [
                    "credential acme/old-0: it was changed after it was sealed, or belongs to another row"
                ])
        }
    }

    @Test func `does not put back what was replaced meanwhile`() async throws {
        try await withDatabase { actor, database in
            let store = try await database.connect()
            try await seal(2, tokens: 0, under: old, "old", in: store)
            let other = try await database.connect()
            let keys = MasterKeys(new, opening: [old])
            // Between reading and writing, an operator replaces the second credential.
            let found = try #require(try await other.sealedCredential("old-1", of: "acme"))
            let replacement = NewCredential(
                kind: .token(teamID: "T", keyID: "K2"), environments: ["sandbox"],
                sealed: try MasterKeys(old).seal(Array("another".utf8), for: found.id.secretOwner))
            try await other.runScript("begin")
            _ = try await other.replaceCredential(found.id, by: replacement)
            let run = Task {
                _ = actor
                return try await store.reseal(under: keys)
            }
            try await database.waitUntilBlocked("the row is waited for")
            try await other.runScript("commit")
            #expect(try await run.value.credentials == 1)
            let sealed = try #require(try await store.sealedCredential("old-1", of: "acme")).sealed
            #expect(try keys.open(sealed, of: found.id.secretOwner) == Array("another".utf8))
            #expect(try await store.reseal(under: keys).credentials == 1)
        }
    }
}
