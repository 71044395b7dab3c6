import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// The credentials of a tenant whose move was interrupted while the tenant was in neither database. No table of
/// credentials contains them. Serialised: each test uses two of the databases that tests may have at a time.
@Suite(.serialized, .timeLimit(.minutes(10))) struct `Secrets of a detached tenant` {
    /// Gives the tenant a credential and two webhook secrets, and detaches the tenant.
    private func detach(_ world: MoveWorld) async throws {
        let store = world.first.connection
        try await world.fill()
        let webhook = try #require(try await store.webhook(of: "acme"))
        let former = try world.keys.seal(Array("the former".utf8), for: .webhook(tenantID: webhook.tenantID))
        _ = try await store.execute(
            Statement("former", "update pushq.webhook set former_sealed = $1"), [.bytea(former)])
        try await world.begin()
        try await world.detach()
    }

    @Test(arguments: [false, true])
    func `are counted and sealed anew with the others, and then need the new key alone`(isUndone: Bool) async throws {
        try await withMoveWorld { _, world in
            let (store, old, new) = (world.first.connection, world.keys.first, try MasterKey.random())
            try await detach(world)
            let counts = try await store.secretsByKey()
            #expect(counts.map { "\($0.name) \($0.credentials) \($0.webhooks)" } == ["\(old.name) 1 2"])
            let findings = try await HealthCheck.secrets(MasterKeys(new)).findings(in: store)
            #expect(findings.map(\.subject) == ["master key \(old.name)"])

            let done = try await store.reseal(under: MasterKeys(new, opening: [old]))
            #expect((done.credentials, done.webhooks) == (1, 2) && done.failures.isEmpty)
            #expect(try await store.secretsByKey().map(\.name) == [new.name])
            #expect(try await store.reseal(under: MasterKeys(new, opening: [old])) == Resealing())

            // From here on, the old key is not available.
            if isUndone {
                #expect(try await world.mover().abandon())
            } else {
                _ = try await world.mover().run(under: MasterKeys(new))
            }
            let secrets = try await (isUndone ? store : world.second).sealedSecrets(of: "acme")
            let opened = try secrets.map {
                String(decoding: try MasterKeys(new).open($0.sealed, of: $0.owner), as: UTF8.self)
            }
            #expect(opened.sorted() == ["the former", "the key", "the key"])
        }
    }

    @Test func `are named if they do not open`() async throws {
        try await withMoveWorld { _, world in
            let (store, new) = (world.first.connection, try MasterKey.random())
            try await detach(world)
            let done = try await store.reseal(under: MasterKeys(new))
            #expect(done.total == 0 && done.failures.count == 3)
            #expect(done.failures.contains { $0.hasPrefix("credential acme/") })
            #expect(done.failures.filter { $0.hasPrefix("the webhook of acme: it was sealed under") }.count == 2)
            #expect(try await store.secretsByKey().map(\.name) == [world.keys.first.name])
        }
    }

    /// The master key of the destination database was changed, and the operator no longer passes the old key.
    @Test func `that do not open where it arrives are named, and the tenant goes on at its old place`() async throws {
        try await withMoveWorld { _, world in
            let new = try MasterKey.random()
            try await detach(world)
            let error = await #expect(throws: TenantMoveError.self) {
                _ = try await world.mover().run(under: MasterKeys(new))
            }
            guard case .sealed(let name, .unknownKey(let key, _)) = error else {
                Issue.record("\(error as Any)")
                return
            }
            #expect(name.hasPrefix("credential ") && key == world.keys.first.name)
            #expect(try await world.first.number("select count(*) from pushq.tenant where suspended_at is null") == 1)
            #expect(
                try await world.number("select count(*) from pushq.tenant where name = 'acme'", in: world.second) == 0)
        }
    }

    /// The command seals secrets under the key it was started with, even if the master key has changed since.
    @Test func `of a tenant that a command moves at this moment are said to follow`() async throws {
        try await withMoveWorld { _, world in
            try await world.begin()
            #expect(try await world.second.arrivingTenants() == [])
            let command = try await world.there.connect()
            #expect(try await command.lockMove(of: "acme"))
            #expect(try await world.second.arrivingTenants() == ["acme"])
            #expect(try await world.first.connection.arrivingTenants() == [], "it leaves here")
        }
    }
}
